"""Writes the items of a batch to the store: several calls at once, and no more items in memory than these can use.

Each partition has a coalescer: an idle store gets items at once, and a busy one gets them in few, large calls. Where a whole call's worth
waits behind a call, it leaves too: else the store would wait while we read one answer and write the next call.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from atf.calls.coalescing import CallLimits, KeyedCoalescer
from atf.durability import Durability
from atf.runtime import Runtime
from atf.store.calls import CALL_BYTES
from atf.store.store import Store
from atf.store.values.batches import ItemTerms, NewItem

CALLS: Final = 4
"""Calls of one batch that are under way: what others ask the store waits behind all of them."""
LIMITS: Final = CallLimits(size=CALL_BYTES, calls=2)
"""Of the calls to one partition."""
MAX_ITEMS: Final = 8_192
"""Items that are on their way; then whoever sends more waits."""
MAX_BYTES: Final = 8 << 20
_NOTED_EACH: Final = 8_192
"""Items after which the batch's prefix is noted."""


class BatchWriter:
    """The items of one call of ScheduleBatch. `close` it.

    Args:
        store: that they go to.
        runtime: spawns the calls.
        batch_id: whose items they are.
        terms: what they have in common.
        durability: of each of them, at least.
        first: the number of the first item; None: numbers leave gaps, so there is no prefix.

    Attributes:
        stored: items that were not stored before.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        batch_id: str,
        terms: ItemTerms,
        durability: Durability,
        first: int | None,
    ) -> None:
        self.stored = 0
        self._store, self._runtime = store, runtime
        self._batch_id, self._terms, self._durability = batch_id, terms, durability
        self._calls: KeyedCoalescer[int, NewItem, bool] = KeyedCoalescer(
            self._store_items, size=_size, limits=LIMITS, runtime=runtime, name="schedule items", calls=CALLS
        )
        self._items = self._bytes = 0
        self._moved = asyncio.Event()
        self._failed: Exception | None = None
        self._lost: list[int] = []
        """The first numbers of calls that failed, or were not made since another one had."""
        self._next = first
        self._noted = first or 0

    async def add(self, items: Iterable[tuple[int, NewItem]]) -> None:
        """Sends items on their way, by partition, in the order of their numbers; waits while there are too many.

        Raises:
            AtfError: items could not be stored.
        """
        by_partition: defaultdict[int, list[NewItem]] = defaultdict(list)
        for partition, item in items:
            by_partition[partition].append(item)
            self._items += 1
            self._bytes += len(item.spec)
            if self._next is not None:
                self._next = item.number + 1
        for partition, some in by_partition.items():
            self._calls.of(partition).add(some)
        await self._until(MAX_ITEMS, MAX_BYTES)
        if self.prefix is not None and self.prefix - self._noted >= _NOTED_EACH:
            await self.note()

    async def flush(self) -> None:
        """Waits until all are stored. Raises as `add`."""
        await self._until(0, 0)

    async def _until(self, items: int, size: int) -> None:
        await asyncio.sleep(0)  # the calls must have a turn, however fast items come
        while self._failed is None and (self._items > items or self._bytes > size):
            self._moved.clear()
            await self._moved.wait()
        if self._failed is not None:
            raise self._failed

    @property
    def prefix(self) -> int | None:
        """All items with smaller numbers are stored."""
        if self._next is None:
            return None
        oldest = (each.oldest() for each in self._calls.all())
        return min([self._next, *self._lost, *(item.number for item in oldest if item is not None)])

    async def note(self) -> None:
        """Notes the prefix where another frontend finds it."""
        prefix = self.prefix
        if prefix is not None and prefix > self._noted:
            await self._store.note_prefix(self._batch_id, prefix)
            self._noted = prefix

    async def _store_items(self, partition: int, items: list[NewItem], _until: float) -> list[bool]:
        existed = [True] * len(items)
        try:
            if self._failed is None:
                existed = await self._store.schedule_items(
                    partition, self._batch_id, self._terms, items, self._durability
                )
                self._items -= len(items)
                self._bytes -= sum(map(_size, items))
                self.stored += existed.count(False)
            else:
                self._lost.append(items[0].number)
        except Exception as error:  # noqa: BLE001  whoever adds gets it, whatever it is
            self._lost.append(items[0].number)
            self._failed = self._failed or error
        finally:
            self._moved.set()
        return existed

    async def wait(self) -> None:
        """Waits until nothing is under way: all is stored, or no more of it will be."""
        for each in self._calls.all():
            await each.idle()

    async def close(self) -> None:
        """Ends what is under way."""
        for each in self._calls.all():
            await each.close()


def _size(item: NewItem) -> int:
    return len(item.spec)
