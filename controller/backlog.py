"""Remembers which queues may hold something, since when each has waited, and where to look next.

A backlog knows neither the store nor a clock. It belongs to one set of lambdas, that of the calls it serves.

- A queue is *waiting* once it was notified or may hold more, and until a pop found it empty. Its clock starts anew when it is served.
- A waiting queue counts as one priority higher for every `ageing` seconds, so that none starves.
- Only waiting queues are asked for. As the net for a lost notification, each partition is scanned every poll_interval: a pop that takes
  nothing and names the queues that hold something. So a thousand lambdas without tasks cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from atf.runtime import Runtime
from atf.store.library import PLACE_PATIENCE_US
from atf.task import MIN_PRIORITY, US

from .demand import Serves, lambda_of

MAX_QUEUES: Final = 256
"""Queues that one pop asks for at most: more would hold up the store's other callers."""

LEFT_S: Final = PLACE_PATIENCE_US / US
"""Seconds until a partition is looked at again where something was left to other hosts."""

FORGET_S: Final = 120.0
"""Seconds without a call for a set of lambdas until what is known of its queues is forgotten."""


class PopRequest(NamedTuple):
    """One pop to make."""

    partition: int
    groups: list[list[str]]  # queues, most urgent first
    want: int
    since: dict[str, float]  # for each of the queues
    scan: bool  # it has no groups: it only names what holds something


class Backlog:
    """The waiting queues of every partition.

    Attributes:
        signatures: by lambda the digest of the signature that the calls' executors run.

    Args:
        lambdas: whose queues they are.
        signatures: that the calls' executors run, "<lambda> <digest>".
        partitions: how many the store has.
        ageing: seconds of waiting that make a queue count as one priority higher.
        poll_interval: seconds between two scans of a partition.
    """

    def __init__(
        self,
        lambdas: Iterable[str],
        *,
        partitions: int,
        ageing: float,
        poll_interval: float,
        signatures: Iterable[str] = (),
    ) -> None:
        self.signatures = {name: digest for name, _, digest in (each.partition(" ") for each in signatures)}
        self.lambdas = frozenset(lambdas)
        self._ageing = ageing
        self._poll_interval = poll_interval
        self._waiting: list[dict[str, float]] = [{} for _ in range(partitions)]
        self._scan_at = [0.0] * partitions
        self._shut_until = [0.0] * partitions

    def notified(self, partition: int, queue: str, now: float) -> bool:
        """Something was pushed onto a queue. Returns whether it is one of ours."""
        if lambda_of(queue) not in self.lambdas:
            return False
        self._waiting[partition].setdefault(queue, now)
        return True

    def missed(self) -> None:
        """Notifications may have been missed: every partition is to be scanned."""
        self._scan_at = [0.0] * len(self._scan_at)

    def choose(self, want: int, now: float) -> PopRequest | None:
        """The pop to make now; None: wait until `next_look`. Each request must come back through `popped` or `failed`."""
        open_now = [each for each, until in enumerate(self._shut_until) if until <= now]
        due = [each for each in open_now if self._scan_at[each] <= now]
        if due:
            return PopRequest(min(due, key=self._scan_at.__getitem__), [], want, {}, scan=True)
        best = [
            (min((self._rank(queue, since, now), since) for queue, since in self._waiting[each].items()), each)
            for each in open_now
            if self._waiting[each]
        ]
        return self._serve(min(best)[1], want, now) if best else None

    def next_look(self) -> float:
        """The instant of the next scan, where no notification comes before."""
        return min(map(max, self._scan_at, self._shut_until))

    def popped(self, ask: PopRequest, found: Sequence[tuple[str, Sequence[str]]], now: float) -> None:
        """Learns from the answer to a pop which queues are empty, and where some was left to other hosts."""
        if ask.scan:
            self._scan_at[ask.partition] = now + self._poll_interval
            for queue, ids in found:
                if not ids:
                    self.notified(ask.partition, queue, now)
            return
        if sum(len(ids) for _, ids in found) < ask.want:
            if not all(ids for _, ids in found):
                self._scan_at[ask.partition] = min(self._scan_at[ask.partition], now + LEFT_S)
            return  # of all that were asked for nothing else is there now; what was notified since is back already
        for queue, ids in found:  # those that are not named are empty
            if not ids:
                self._restore(ask, queue)
        for queue, ids in found:
            if ids:  # behind the others, also where all have waited equally long
                self._waiting[ask.partition].pop(queue, None)
                self._waiting[ask.partition][queue] = now

    def shut(self, partition: int, until: float) -> None:
        """A partition is left alone until that instant: a pop of it failed, whoever made it."""
        self._shut_until[partition] = until

    def failed(self, ask: PopRequest) -> None:
        """The pop failed; nobody knows what it took."""
        for queue in ask.since:
            self._restore(ask, queue)

    def _serve(self, partition: int, want: int, now: float) -> PopRequest:
        waiting = self._waiting[partition]
        order = sorted(waiting, key=lambda queue: (self._rank(queue, waiting[queue], now), waiting[queue]))
        # Taken out while the pop is under way: a notification that comes in between puts its queue back.
        since = {queue: waiting.pop(queue) for queue in order[:MAX_QUEUES]}
        return PopRequest(partition, self._groups(since, now), want, since, scan=False)

    def _groups(self, since: dict[str, float], now: float) -> list[list[str]]:
        groups: dict[int, list[str]] = {}
        for queue, waits in sorted(since.items(), key=lambda item: item[1]):
            groups.setdefault(self._rank(queue, waits, now), []).append(queue)
        return [groups[rank] for rank in sorted(groups)]

    def _rank(self, queue: str, since: float, now: float) -> int:
        return max(int(queue[-1]) - int((now - since) / self._ageing), MIN_PRIORITY)

    def _restore(self, ask: PopRequest, queue: str) -> None:
        waiting = self._waiting[ask.partition]
        waiting[queue] = min(ask.since[queue], waiting.get(queue, ask.since[queue]))


class Backlogs:
    """The backlogs of one host, by what calls may be given."""

    def __init__(self, runtime: Runtime, make: Callable[[Serves], Backlog]) -> None:
        self._runtime = runtime
        self._make = make
        self._backlogs: dict[Serves, Backlog] = {}
        self._used_at: dict[Serves, float] = {}
        self._shut_until: dict[int, float] = {}

    def __iter__(self) -> Iterator[Backlog]:
        return iter(self._backlogs.values())

    def __contains__(self, serves: Serves) -> bool:
        return serves in self._backlogs

    def used(self, serves: Serves) -> None:
        """A call may be given this."""
        self._used_at[serves] = self._runtime.monotonic()

    def of(self, serves: Serves) -> Backlog:
        """The one of calls that may be given this; a new one makes room for itself."""
        backlog = self._backlogs.get(serves)
        if backlog is None:
            now = self._runtime.monotonic()
            for each in [each for each, used in self._used_at.items() if used + FORGET_S < now]:
                self._backlogs.pop(each, None)
                del self._used_at[each]
            backlog = self._backlogs[serves] = self._make(serves)
            for partition, until in self._shut_until.items():
                backlog.shut(partition, until)
        return backlog

    def shut(self, partition: int, until: float) -> None:
        """A partition is left alone until that instant, by all of them."""
        self._shut_until[partition] = until
        for each in self:
            each.shut(partition, until)
