"""Keeps the list of who watches for triggers, and whose turn it is. Owns no task and calls nobody.

A *seat* is leave to give a watcher one trigger. Seats are taken before anything is claimed, so that what is claimed has somewhere to go, and
are left when the trigger is acknowledged, or when there was none.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import dapr_scheduler_pb2 as d
from atf.store.values.claims import HeldClaim

from . import names

MOST: Final = 256
"""Triggers that one stream has unacknowledged at most, where it asks for no smaller number."""

SENT: Final = d.WatchJobsResponse()


@dataclass(eq=False)
class Trigger:
    """A claimed task whose run is for a watcher to do."""

    id: int
    """By which the watcher acknowledges it; of this process."""
    held: HeldClaim
    lambda_name: str
    response: d.WatchJobsResponse
    """What is sent; SENT, once it was."""
    retry_us: int
    """Until the next try, should the watcher fail it."""
    given_us: int
    """By CLOCK_BOOTTIME."""
    leased_us: int
    """By CLOCK_BOOTTIME: when its lease was last asked for."""


class Watcher:
    """One stream: what it takes, what it has, and what is on its way to it.

    Attributes:
        lambdas: whose triggers it takes.
        given: what it has not acknowledged, by id.

    Raises:
        InvalidArgument: the first message of the stream breaks a rule.
    """

    def __init__(self, initial: d.WatchJobsRequestInitial) -> None:
        names.check_whose("initial", initial.namespace, initial.app_id)
        self.lambdas = frozenset(names.watched(initial))
        self.given: dict[int, Trigger] = {}
        self._most, self._most_of = _limits(initial)
        self._seats: Counter[str] = Counter()
        self._unsent: deque[Trigger] = deque()
        self._changed = asyncio.Event()
        self._draining = False
        self.closed = False

    def reserve(self, lambda_name: str, most: int) -> int:
        """Takes up to so many seats, but a quarter of those that are free: others are being looked for at the same time, perhaps in
        vain. Returns how many.
        """
        if self.closed or self._draining:
            return 0
        free = self._most_of.get(lambda_name, MOST) - self._seats[lambda_name]
        free = min(free, self._most - self._seats.total())
        taken = min(most, -(-free // 4))
        self._seats[lambda_name] += taken
        return taken

    def release(self, lambda_name: str, seats: int = 1) -> None:
        """Leaves seats."""
        self._seats[lambda_name] -= seats

    def give(self, trigger: Trigger) -> None:
        """Has a trigger sent; its seat was taken before."""
        self.given[trigger.id] = trigger
        self._unsent.append(trigger)
        self._changed.set()

    def taken(self, trigger_id: int) -> Trigger | None:
        """A trigger that the watcher has acknowledged; None: it does not have that."""
        trigger = self.given.pop(trigger_id, None)
        if trigger is not None:
            self.release(trigger.lambda_name)
            self._changed.set()
        return trigger

    async def next(self) -> Trigger | None:
        """What to send next; None: the stream shall end."""
        while not self._unsent:
            if self.closed or (self._draining and not self.given):
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._unsent.popleft()

    def drain(self) -> None:
        """Takes nothing more; the stream ends when what was given is acknowledged."""
        self._draining = True
        self._changed.set()

    def close(self) -> list[Trigger]:
        """Ends the stream. Returns what was not acknowledged."""
        self.closed = True
        self._changed.set()
        self._unsent.clear()
        left, self.given = list(self.given.values()), {}
        return left


class Watchers:
    """The open streams by what they take."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[Watcher]] = defaultdict(deque)
        self.open: dict[Watcher, None] = {}

    def add(self, watcher: Watcher) -> None:
        self.open[watcher] = None
        for each in watcher.lambdas:
            self._waiting[each].append(watcher)

    def remove(self, watcher: Watcher) -> None:
        self.open.pop(watcher, None)
        for each in watcher.lambdas:
            self._waiting[each].remove(watcher)
            if not self._waiting[each]:
                del self._waiting[each]

    @property
    def lambdas(self) -> frozenset[str]:
        """All that somebody takes."""
        return frozenset(self._waiting)

    def seats(self, lambda_name: str, most: int) -> Counter[Watcher]:
        """Takes up to so many seats, of all watchers alike."""
        seats: Counter[Watcher] = Counter()
        line = self._waiting.get(lambda_name, deque())
        for _ in range(len(line)):
            taken = line[0].reserve(lambda_name, min(-(-most // len(line)), most - seats.total()))
            if taken:
                seats[line[0]] = taken
            line.rotate(-1)
        return seats


def _limits(initial: d.WatchJobsRequestInitial) -> tuple[int, dict[str, int]]:
    """How many triggers a stream takes at a time: in all, and of an actor's type. 0 means no limit; one with a name is not for a stream."""
    most, most_of = MOST, dict[str, int]()
    for each in initial.concurrency_limits:
        if each.max_concurrent < 0:
            raise InvalidArgument(
                f"initial.concurrency_limits: max_concurrent {each.max_concurrent}; 1 or more, or 0: none"
            )
        if not each.max_concurrent or each.name:
            continue
        if each.WhichOneof("target") == "actor":
            lambda_name = names.of_actors(initial.namespace, each.actor.type)
            most_of[lambda_name] = min(most_of.get(lambda_name, MOST), each.max_concurrent)
        else:
            most = min(most, each.max_concurrent)
    return most, most_of
