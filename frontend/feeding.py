"""Writes the items of a batch to the store: several calls at once, and no more items in memory than these can use.

Each partition has a lane. A lane sends when it has something and one of the calls is free, and what arrives meanwhile leaves with its next
call; so an idle store gets items at once, and a busy one gets them in few, large calls. Where a whole call's worth waits behind a call, it
leaves too: else the store would wait while we read one answer and write the next call.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final

from atf.durability import Durability
from atf.runtime import Runtime, end
from atf.store.store import Store
from atf.store.types import ItemTerms, NewItem
from atf.task import MAX_BATCH

CALLS: Final = 4
"""Calls of one batch that are under way: what others ask the store waits behind all of them."""
PARTITION_CALLS: Final = 2
"""Of these, to one partition."""
MAX_ITEMS: Final = 8_192
"""Items that are on their way; then whoever sends more waits."""
MAX_BYTES: Final = 8 << 20
CALL_BYTES: Final = 1 << 20
"""Where a call stops to grow: its last item may have 1 MiB."""
_NOTED_EACH: Final = 8_192
"""Items after which the batch's prefix is noted."""


class _PartitionItems:
    """The items of one partition."""

    def __init__(self) -> None:
        self.waiting: deque[NewItem] = deque()
        self.under_way: list[list[NewItem]] = []
        """By call, in the order of their items."""
        self.tasks: set[asyncio.Task[None]] = set()

    def first(self) -> int | None:
        """The number of the first item that is not stored yet; they came in order."""
        if self.under_way:
            return self.under_way[0][0].number
        return self.waiting[0].number if self.waiting else None

    def sends(self, others: int) -> bool:
        """Whether one more call is to leave beside so many."""
        return bool(self.waiting) and (others == 0 or (others < PARTITION_CALLS and len(self.waiting) >= MAX_BATCH))

    def take(self) -> list[NewItem]:
        """The items of the next call."""
        size = 0
        items: list[NewItem] = []
        while self.waiting and len(items) < MAX_BATCH and size < CALL_BYTES:
            items.append(self.waiting.popleft())
            size += len(items[-1].spec)
        if items:
            self.under_way.append(items)
        return items


class BatchWriter:
    """The items of one call of ScheduleBatch. `close` it.

    Args:
        store: that they go to.
        runtime: spawns the lanes.
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
        self._partitions: defaultdict[int, _PartitionItems] = defaultdict(_PartitionItems)
        self._free = asyncio.Semaphore(CALLS)
        self._items = self._bytes = 0
        self._moved = asyncio.Event()
        self._failed: Exception | None = None
        self._next = first
        self._noted = first or 0

    async def add(self, items: Iterable[tuple[int, NewItem]]) -> None:
        """Sends items on their way, by partition, in the order of their numbers; waits while there are too many.

        Raises:
            AtfError: items could not be stored.
        """
        for partition, item in items:
            lane = self._partitions[partition]
            lane.waiting.append(item)
            self._items += 1
            self._bytes += len(item.spec)
            if self._next is not None:
                self._next = item.number + 1
        for lane_of, lane in self._partitions.items():
            if lane.sends(len(lane.tasks)):
                lane.tasks.add(self._runtime.spawn(self._send(lane_of, lane), name="schedule items"))
        await self._until(MAX_ITEMS, MAX_BYTES)
        if self.prefix is not None and self.prefix - self._noted >= _NOTED_EACH:
            await self.note()

    async def flush(self) -> None:
        """Waits until all are stored. Raises as `add`."""
        await self._until(0, 0)

    async def _until(self, items: int, size: int) -> None:
        await asyncio.sleep(0)  # the lanes must have a turn, however fast items come
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
        return min(
            (first for lane in self._partitions.values() if (first := lane.first()) is not None), default=self._next
        )

    async def note(self) -> None:
        """Notes the prefix where another frontend finds it."""
        prefix = self.prefix
        if prefix is not None and prefix > self._noted:
            await self._store.note_prefix(self._batch_id, prefix)
            self._noted = prefix

    async def _send(self, partition: int, lane: _PartitionItems) -> None:
        me = asyncio.current_task()
        assert me is not None
        try:
            while self._failed is None and lane.sends(len(lane.tasks) - 1):
                async with self._free:
                    if not (items := lane.take()):
                        break  # the other call took them meanwhile
                    existed = await self._store.schedule_items(
                        partition, self._batch_id, self._terms, items, self._durability
                    )
                self.stored += existed.count(False)
                self._items -= len(items)
                self._bytes -= sum(len(each.spec) for each in items)
                lane.under_way.remove(items)
                self._moved.set()
        except Exception as error:  # noqa: BLE001  whoever adds gets it, whatever it is
            self._failed = self._failed or error
        finally:
            lane.tasks.discard(me)
            self._moved.set()

    async def wait(self) -> None:
        """Waits until nothing is under way: all is stored, or no more of it will be."""
        while any(lane.tasks for lane in self._partitions.values()):
            self._moved.clear()
            await self._moved.wait()

    async def close(self) -> None:
        """Ends what is under way."""
        await end([task for lane in self._partitions.values() for task in lane.tasks])
