"""Remembers which queues may hold something for the asks of one line, since when each has waited, and where to look next.

A backlog knows neither the store nor a clock.

- A queue is *waiting* once it was notified or may hold more, and until a call found it empty. Its clock starts anew when it is served.
- A waiting queue counts as one priority higher for every `ageing` seconds, so that none starves.
- Only waiting queues are asked for. So a thousand lambdas without tasks cost nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple

from atf.task import MAX_PRIORITY, MIN_PRIORITY

from .asks import Lambdas, lambda_of

MAX_QUEUES: Final = 256
"""Queues that one call asks for at most: more would hold up the store's other callers."""


class TakeRequest(NamedTuple):
    """The queues that one call asks for."""

    partition: int
    groups: list[list[str]]  # most urgent first
    since: dict[str, float]  # for each of the queues


class _WaitingQueues:
    """Those of one partition. Of the queues of one priority the one that has waited longest is the most urgent, so they are kept in that order."""

    def __init__(self, ageing: float) -> None:
        self._ageing = ageing
        self._since: dict[str, tuple[float, int]] = {}
        self._queues: list[list[tuple[float, int, str]]] = [[] for _ in range(MIN_PRIORITY, MAX_PRIORITY + 1)]
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._since)

    def add(self, queue: str, since: float) -> None:
        """It waits since then, or since earlier if it waits already."""
        known = self._since.get(queue)
        if known is not None:
            if known[0] <= since:
                return
            self.remove(queue)
        self._number += 1  # behind the others, also where all have waited equally long
        self._since[queue] = since, self._number
        insort(self._queues[int(queue[-1])], (since, self._number, queue))

    def remove(self, queue: str) -> None:
        place = self._since.pop(queue, None)
        if place is not None:
            queues = self._queues[int(queue[-1])]
            del queues[bisect_left(queues, (*place, queue))]

    def first(self, now: float) -> tuple[int, float]:
        """The rank of the most urgent, and since when it has waited."""
        return min((self.rank(queues[0][2], queues[0][0], now), queues[0][0]) for queues in self._queues if queues)

    def most_urgent(self, now: float) -> Iterator[tuple[int, float, int, str]]:
        """By rank, and within one by how long they have waited."""
        return merge(*(self._ranked(each, now) for each in self._queues))

    def _ranked(self, queues: list[tuple[float, int, str]], now: float) -> Iterator[tuple[int, float, int, str]]:
        for since, number, queue in queues:
            yield self.rank(queue, since, now), since, number, queue

    def rank(self, queue: str, since: float, now: float) -> int:
        return max(int(queue[-1]) - int((now - since) / self._ageing), MIN_PRIORITY)


class Backlog:
    """The waiting queues of every partition.

    Args:
        lambdas: whose queues they are.
        partitions: how many the store has.
        ageing: seconds of waiting that make a queue count as one priority higher.
    """

    def __init__(self, lambdas: Lambdas, *, partitions: int, ageing: float) -> None:
        self.lambdas = lambdas
        self._waiting = [_WaitingQueues(ageing) for _ in range(partitions)]

    def notified(self, partition: int, queue: str, now: float) -> bool:
        """Something was pushed onto a queue. Returns whether it is one of ours."""
        if lambda_of(queue) not in self.lambdas:
            return False
        self._waiting[partition].add(queue, now)
        return True

    def choose(self, now: float, closed: Container[int]) -> TakeRequest | None:
        """What to ask for now, of a partition that is not closed; None: nothing. Each request must come back through `taken` or `failed`."""
        best = [(each.first(now), partition) for partition, each in enumerate(self._waiting) if each]
        open_now = [found for found in best if found[1] not in closed]
        if not open_now:
            return None
        _, partition = min(open_now)
        chosen = islice(self._waiting[partition].most_urgent(now), MAX_QUEUES)
        return self.ask_for(partition, {queue: since for _, since, _, queue in chosen}, now)

    def ask_for(self, partition: int, since: Mapping[str, float], now: float) -> TakeRequest:
        """A request for these queues. They wait no longer while it is under way: a notification that comes in between puts a queue back."""
        waiting, groups = self._waiting[partition], dict[int, list[str]]()
        for queue, waits in sorted(since.items(), key=lambda item: item[1]):
            waiting.remove(queue)
            groups.setdefault(waiting.rank(queue, waits, now), []).append(queue)
        return TakeRequest(partition, [groups[rank] for rank in sorted(groups)], dict(since))

    def taken(self, request: TakeRequest, served: Container[str], filled: list[str], now: float) -> None:
        """Learns from a call's answer which queues may hold more (`filled`): those that were served wait anew, the others go on waiting."""
        waiting = self._waiting[request.partition]
        for queue in sorted(filled, key=lambda each: each in served):  # those that were served stand behind the others
            if lambda_of(queue) in self.lambdas:
                waiting.add(queue, now if queue in served else request.since.get(queue, now))

    def failed(self, request: TakeRequest) -> None:
        """The call failed; nobody knows what it took."""
        for queue, since in request.since.items():
            self._waiting[request.partition].add(queue, since)
