"""Refuses a Schedule beyond a lambda's `max_pending`, by a count of its unfinished tasks.

The store's counters are read, over all partitions, for those lambdas alone that have a bound: at least once a second, and again when
this frontend has let in a `PARTS`-th (that of a direct client: a `PARTS_OF_DIRECT`-th) of the room that it found, which at fewer than `PARTS` places is each time. What others let in
meanwhile is not seen. So the bound is exceeded by what is in flight among all frontends at that instant, and by what is left of the
parts of those that counted before others took the room, within one second: together at most a `PARTS`-th of the bound for each frontend
but one. Calls that come to all alike exceed it only where there are more than `PARTS` frontends; those that come to one alone never do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from atf.calls.single_flight import SingleFlight
from atf.errors import TooManyPending, Unavailable
from atf.runtime import Runtime
from atf.store.store import Store

from .lambdas import KnownLambda

FRESH_S: Final = 1.0
PARTS: Final = 32
"""Of the room that was found, a frontend lets in one part before it counts anew: no more is lost where so many frontends do so at once."""
PARTS_OF_DIRECT: Final = 1_024
"""The same of the frontend of a direct client, of which there may be very many."""
KEPT_S: Final = 60.0
"""For so long what a partition said last counts, while its server is away: nobody can store a task there meanwhile."""
RETRY_AFTER_S: Final = 1.0
"""When a refused caller may come again, where the lambda has no rate that says it better."""
_MOST_RETRY_AFTER_S: Final = 60.0


class _UnfinishedCount:
    """Of one lambda: its unfinished tasks, as they were read and as they have grown since."""

    def __init__(self, store: Store, runtime: Runtime, name: str, parts: int) -> None:
        self._store, self._runtime, self._name, self._into = store, runtime, name, parts
        self._read_at = float("-inf")
        self._found = 0
        self._parts: dict[int, tuple[int, float]] = {}  # by partition: what was found, and when
        self.stored = 0
        self.under_way = 0
        self._read: SingleFlight[None] = SingleFlight(self._count)

    @property
    def pending(self) -> int:
        """At most so many; what was stored while it was read counts twice until it is read again."""
        return self._found + self.stored + self.under_way

    async def freshen(self, most: int) -> None:
        """Reads, where that may make a difference."""
        room = most - self._found
        if self._runtime.monotonic() - self._read_at > FRESH_S or self.stored + self.under_way > room // self._into:
            await self._read()

    async def _count(self) -> None:
        at, stored = self._runtime.monotonic(), self.stored
        for partition, found in enumerate(await self._store.pending(self._name)):
            if not isinstance(found, Unavailable):
                self._parts[partition] = found, at
            elif at - self._parts.get(partition, (0, float("-inf")))[1] > KEPT_S:
                raise found
        self._found, self._read_at = sum(found for found, _ in self._parts.values()), at
        self.stored -= stored


class Admission:
    """What was let in, until it is stored.

    Attributes:
        refusals: by place, those that were not let in.
    """

    def __init__(
        self,
        refusals: Mapping[int, TooManyPending] = MappingProxyType({}),
        count: _UnfinishedCount | None = None,
        under_way: int = 0,
    ) -> None:
        self.refusals = refusals
        self._count, self._under_way = count, under_way

    def ended(self, stored: int) -> None:
        """Nothing of what was let in is under way any more. So many tasks are stored anew, or may be: until the store is asked again they count."""
        if self._count is not None:
            self._count.under_way -= self._under_way
            self._count.stored += stored


class PendingLimits:
    """The counts of all lambdas that have a bound.

    Args:
        store: where tasks are counted.
        runtime: its clock.
        parts: into how many the room is cut that was found.
    """

    def __init__(self, store: Store, runtime: Runtime, parts: int = PARTS) -> None:
        self._store, self._runtime, self._parts = store, runtime, parts
        self._counts: dict[str, _UnfinishedCount] = {}

    async def enter(
        self,
        known: KnownLambda,
        stored_ids: Sequence[str],
        stored: Callable[[], Awaitable[Sequence[bool]]] | None = None,
    ) -> Admission:
        """Lets tasks of a lambda in, or not. Of what is let in `ended` MUST be told.

        Args:
            known: the lambda.
            stored_ids: of the tasks; one that is stored already is let in, so that its caller learns so.
            stored: tells which are, where their ids alone don't.
        """
        name, most = known.record.name, known.in_force.max_pending
        if not most:
            self._counts.pop(name, None)
            return Admission()
        count = self._counts.setdefault(name, _UnfinishedCount(self._store, self._runtime, name, self._parts))
        held = len(stored_ids)
        count.under_way += held  # at once: calls beside this one must see them
        refusals: dict[int, TooManyPending] = {}
        try:
            await count.freshen(most)
            if count.pending > most:
                known_ids = await (stored or (lambda: self._stored(stored_ids)))()
                count.under_way -= sum(known_ids)
                held -= sum(known_ids)
                for place in reversed(range(len(stored_ids))):  # the first ones get the room that there is
                    if count.pending > most and not known_ids[place]:
                        refusals[place] = too_many(known)
                        count.under_way -= 1
                        held -= 1
        except BaseException:
            count.under_way -= held
            raise
        return Admission(refusals, count, held)

    async def _stored(self, ids: Sequence[str]) -> list[bool]:
        return [each is not None for each in await self._store.get_tasks(ids)]


def too_many(known: KnownLambda) -> TooManyPending:
    """The refusal of one more task of a lambda."""
    rate, most = known.in_force.rate, known.in_force.max_pending
    error = TooManyPending(
        f"{known.record.name} has as many unfinished tasks as it may have, {most} (max_pending): try again when some have ended"
    )
    error.retry_after_s = min(max(1 / rate, 0.1), _MOST_RETRY_AFTER_S) if rate else RETRY_AFTER_S
    return error
