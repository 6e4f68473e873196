"""How items get into the store: in few calls, several at once, with no more of them in memory than the store can use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from atf.durability import Durability
from atf.errors import Unavailable
from atf.frontend.batch_writer import CALLS, LIMITS, MAX_BYTES, MAX_ITEMS, BatchWriter
from atf.runtime import SystemRuntime
from atf.store.values.batches import ItemTerms, NewItem
from atf.task import MAX_BATCH

PARTITIONS = 16


class Shelf:
    """Stands for the store: its calls end when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[int]]] = []
        self.under_way = 0
        self.most = 0
        self.open = asyncio.Event()
        self.gates: list[asyncio.Event] = []
        """Of the calls to come, each its own, instead of `open`."""
        self.broken: set[int] = set()
        self.stuck: set[int] = set()
        self.notes: list[int] = []
        self.known: set[int] = set()

    async def schedule_items(
        self, partition: int, _batch_id: str, _terms: ItemTerms, items: Sequence[NewItem], _durability: Durability
    ) -> list[bool]:
        self.calls.append((partition, [each.number for each in items]))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await (self.gates.pop(0) if self.gates else self.open).wait()
            if partition in self.stuck:
                await asyncio.Event().wait()
            if partition in self.broken:
                raise Unavailable(f"partition {partition} is away")
        finally:
            self.under_way -= 1
        return [each.number in self.known for each in items]

    async def note_prefix(self, _batch_id: str, prefix: int) -> bool:
        self.notes.append(prefix)
        return True


def items(first: int, count: int, size: int = 10) -> list[tuple[int, NewItem]]:
    return [(each % PARTITIONS, NewItem(each, "md5", b"s" * size)) for each in range(first, first + count)]


def writer(shelf: Shelf, first: int | None = 0) -> BatchWriter:
    return BatchWriter(shelf, SystemRuntime(), "b", ItemTerms("a/b", 1), Durability.RELAXED, first)  # type: ignore[arg-type]


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_items_are_stored_once_in_order_and_in_few_calls() -> None:
    shelf = Shelf()
    feed = writer(shelf)
    for first in range(0, 8_000, 1_000):
        await feed.add(items(first, 1_000))
    assert shelf.most == CALLS
    shelf.open.set()
    await feed.flush()
    assert shelf.most == CALLS
    for partition in range(PARTITIONS):
        mine = [number for where, some in shelf.calls for number in some if where == partition]
        assert mine == list(range(partition, 8_000, PARTITIONS))
    assert max(len(some) for _, some in shelf.calls) == MAX_BATCH
    assert len(shelf.calls) <= 8_000 / MAX_BATCH + 2 * PARTITIONS
    assert (feed.stored, feed.prefix) == (8_000, 8_000)


async def test_a_partition_alone_has_a_call_waiting_behind_the_one_it_carries_out() -> None:
    shelf = Shelf()
    feed = writer(shelf)
    await feed.add([(0, item) for _, item in items(0, 10)])
    await turns()
    await feed.add([(0, item) for _, item in items(10, 10)])
    await turns()
    assert [len(some) for _, some in shelf.calls] == [10], "what is no whole call's worth waits and grows"
    await feed.add([(0, item) for _, item in items(20, 4 * MAX_BATCH)])
    await turns()
    assert [len(some) for _, some in shelf.calls] == [10, MAX_BATCH]
    assert shelf.most == LIMITS.calls
    assert feed.prefix == 0
    shelf.open.set()
    await feed.flush()
    assert shelf.most == LIMITS.calls
    assert [number for _, some in shelf.calls for number in some] == list(range(20 + 4 * MAX_BATCH))
    assert [len(some) for _, some in shelf.calls] == [10, *[MAX_BATCH] * 4, 10]
    assert feed.prefix == feed.stored == 20 + 4 * MAX_BATCH


async def test_the_prefix_waits_for_the_earlier_call_whichever_ends_first() -> None:
    shelf = Shelf()
    first, second = asyncio.Event(), asyncio.Event()
    feed = writer(shelf)
    shelf.gates = [first, second]
    for start in (0, MAX_BATCH):
        await feed.add([(0, item) for _, item in items(start, MAX_BATCH)])
        await turns()
    second.set()
    await turns()
    assert (feed.stored, feed.prefix) == (MAX_BATCH, 0)
    first.set()
    await feed.flush()
    assert feed.prefix == 2 * MAX_BATCH


async def test_an_idle_store_gets_items_at_once() -> None:
    shelf = Shelf()
    shelf.open.set()
    feed = writer(shelf)
    await feed.add(items(0, 1))
    await turns()
    assert shelf.calls == [(0, [0])]


@pytest.mark.parametrize(("size", "most"), [(10, MAX_ITEMS), (100_000, MAX_BYTES // 100_000)])
async def test_who_sends_more_than_the_store_can_use_waits(size: int, most: int) -> None:
    shelf, added = Shelf(), 0
    feed = writer(shelf)

    async def send() -> None:
        nonlocal added
        for first in range(0, 3 * MAX_ITEMS, 64):
            await feed.add(items(first, 64, size))
            added += 64

    sending = asyncio.ensure_future(send())
    await turns(1_000)
    assert most - 64 <= added <= most
    assert not sending.done()
    sending.cancel()
    await feed.close()


async def test_a_call_is_bounded_in_bytes() -> None:
    shelf = Shelf()
    feed = writer(shelf)
    shelf.open.set()
    await feed.add([(0, item) for _, item in items(0, 10, LIMITS.size // 3)])
    await feed.flush()
    assert [len(some) for _, some in shelf.calls] == [3, 3, 3, 1]


async def test_the_prefix_is_what_is_stored_without_a_gap_and_is_noted_now_and_then() -> None:
    shelf = Shelf()
    shelf.open.set()
    feed = writer(shelf, 100)
    await feed.add(items(100, 10))
    await feed.flush()
    assert feed.prefix == 110
    shelf.stuck.add(3)
    await feed.add(items(110, 40))
    await turns()
    assert feed.prefix == 115, "the first item of partition 3"
    shelf.notes.clear()
    await feed.note()
    await feed.note()
    assert shelf.notes == [115]
    await feed.close()
    plenty = writer(shelf, 0)
    shelf.stuck.clear()
    for first in range(0, 20_000, 1_000):
        await plenty.add(items(first, 1_000))
        await plenty.flush()
    assert shelf.notes[1:] == [9_000, 18_000]


async def test_items_that_were_stored_before_do_not_count() -> None:
    shelf = Shelf()
    shelf.known = set(range(5))
    shelf.open.set()
    feed = writer(shelf)
    await feed.add(items(0, 8))
    await feed.flush()
    assert feed.stored == 3


async def test_a_partition_that_is_away_ends_it_and_what_the_others_have_begun_is_done() -> None:
    shelf = Shelf()
    shelf.broken.add(2)
    feed = writer(shelf)
    await feed.add(items(0, 64))
    shelf.open.set()
    with pytest.raises(Unavailable, match="partition 2 is away"):
        await feed.flush()
    with pytest.raises(Unavailable, match="partition 2 is away"):
        await feed.add(items(64, 1))
    await feed.wait()
    assert shelf.under_way == 0
    assert feed.prefix == 2
    await feed.close()


async def test_where_the_caller_is_gone_nothing_is_left_under_way() -> None:
    shelf = Shelf()
    feed = writer(shelf)
    await feed.add(items(0, 64))
    await turns()
    assert shelf.under_way == CALLS
    await feed.close()
    assert shelf.under_way == 0


async def test_an_extension_has_no_prefix() -> None:
    shelf = Shelf()
    shelf.open.set()
    feed = writer(shelf, None)
    await feed.add(items(50_000_000, 10))
    await feed.flush()
    await feed.note()
    assert shelf.notes == []
