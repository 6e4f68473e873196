"""Batches: what a batch counts is what its items are, and its end is known once per round, in however many partitions they lie."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import partial
from hashlib import md5
from typing import Any

import msgspec
import pytest

from atf.errors import FailedPrecondition
from atf.store import keys
from atf.store.library import BATCH_CHECK_US, BATCH_PATIENCE_US
from atf.store.values.batches import BatchAnswer, BatchCommandAnswer, BatchPlace, BatchRecord, ItemTerms, NewItem
from atf.store.values.claims import ClaimRenewal, HeldClaim, Outcome, RunResult
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.lists import ListedTask, TaskQuery
from atf.store.values.passes import OutboxRecord
from atf.task import TOMBSTONE_US, US, Status
from tests.claiming import claim_ids, serve_queues, take
from tests.store_calls import call_function, list_outbox

from .conftest import OpenStore
from .world import LAMBDA, QUEUE, Clock, Dump, World, dump, held

pytestmark = pytest.mark.sweep(1)  # real servers are what it is about

COUNTED = {
    Status.NEW: "created",
    Status.ENQUEUED: "created",
    Status.CLAIMED: "in_progress",
    Status.PROCESSING: "in_progress",
    Status.SUCCESS: "done",
    Status.RETRIABLE_FAILURE: "failed",
    Status.FATAL_FAILURE: "permanently_failed",
    Status.CANCELLED: "cancelled",
}
RETENTION_US = 3600 * US


class Batch:
    """A batch in a store, and short ways to say what happens to it."""

    def __init__(self, world: World, name: str = "crawl", **options: Any) -> None:
        self.world, self.store, self.name = world, world.store, name
        self.terms = ItemTerms(LAMBDA, 1, max_attempts=2)
        self.terms = self.terms._replace(**{name: options.pop(name) for name in self.terms._fields if name in options})
        self.options = options
        self.ends: list[OutboxRecord] = []

    async def open(self, **options: Any) -> None:
        found = (await self.store.open_batch(self.name, b"d", b"spec", LAMBDA, RETENTION_US, **options)).found
        assert found in {BatchAnswer.NEW, BatchAnswer.SAME}

    def item(self, number: int, text: str = "") -> NewItem:
        key = md5((text or str(number)).encode(), usedforsecurity=False).hexdigest()
        return NewItem(number, key, b"long" * 20, **self.options)

    def partition_of(self, item: NewItem) -> int:
        return self.store.partition_for(f"{self.name}.{item.md5}")

    async def put(self, *items: NewItem, alone: bool = False) -> list[bool]:
        """Stores items where they belong, whether each had been stored before."""
        existed = {}
        for partition in range(self.store.partitions):
            mine = [
                each
                for each in items
                if (self.store.batch_partition(self.name) if alone else self.partition_of(each)) == partition
            ]
            if mine:
                answers = await self.store.schedule_items(partition, self.name, self.terms, mine)
                for each, answer in zip(mine, answers, strict=True):
                    existed[each.number] = answer
        return [existed[each.number] for each in items]

    async def make(self, count: int, text: str = "", **options: Any) -> None:
        await self.open(**options)
        await self.put(
            *(self.item(number, text) for number in range(count)), alone=options.get("single_partition", False)
        )
        await self.store.close_batch(self.name, count)

    async def deliver(self) -> None:
        """Delivers all that partitions owe each other; ends are kept in `ends`."""
        moved = True
        while moved:
            moved = False
            for partition in range(self.store.partitions):
                for record in await list_outbox(self.store, partition):
                    if record.kind == "batch_ended":
                        self.ends.append(record)
                        await self.store.acknowledge_outbox(record)
                    else:
                        await self.store.apply_outbox(record)
                    moved = True

    async def record(self) -> BatchRecord:
        record = await self.store.get_batch(self.name)
        assert record is not None
        return record

    async def take(self, most: int = 10_000) -> list[HeldClaim]:
        """Pushes, pops and claims due items."""
        claims: list[HeldClaim] = []
        for partition in range(self.store.partitions):
            while len(claims) < most:
                await self.store.enqueue(partition, 0)
                found = await take(self.store, QUEUE, want=min(256, most - len(claims)), partition=partition)
                if not found:
                    break
                claims += held(found)
        return claims

    async def work(self, outcome: Outcome = Outcome.SUCCEEDED) -> int:
        """Runs all that is due."""
        claims = await self.take()
        for start in range(0, len(claims), 256):
            await self.world.finish(outcome, *claims[start : start + 256], error="no", result=b"1")
        await self.deliver()
        return len(claims)

    async def check(self) -> BatchRecord:
        """Holds the counts against what a full scan finds."""
        found = await self.world.check()
        record = await self.record()
        assert scanned(found, self.name) == counts(record)
        return record


def many(world: World, count: int) -> int:
    """On a real server so many; fakeredis is slow."""
    return min(count, 70) if world.store.link.in_process else count


def not_on_fakeredis(world: World) -> None:
    if world.store.link.in_process:
        pytest.skip(
            "thousands of calls, which take fakeredis minutes: run on the real server alone, in the same test run"
        )


def counts(record: BatchRecord) -> dict[str, int]:
    named = {name: getattr(record, name) for name in set(COUNTED.values())}
    assert sum(named.values()) == record.items
    return {name: count for name, count in named.items() if count}


def scanned(found: Dump, name: str) -> dict[str, int]:
    """What items of a batch there are, by their records."""
    mine = (task for task_id, task in found.tasks().items() if task_id.partition("-")[2].startswith(f"{name}."))
    return dict(Counter(COUNTED[Status[task["s"]]] for task in mine))


@pytest.fixture
async def world(request: pytest.FixtureRequest, open_store: OpenStore, clock: Clock) -> World:
    return World(await open_store(partitions=getattr(request, "param", 2)), clock)


spread = pytest.mark.parametrize("world", [1, 4], ids=["1 partition", "4 partitions"], indirect=True)
"""In one partition, where the batch partition and its only part sync in the very call, and in several."""


@spread
async def test_a_batch_ends_with_its_last_item(world: World) -> None:
    batch = Batch(world)
    await batch.make(20)
    await batch.deliver()
    made = await batch.check()
    assert (made.items, made.created, made.total, made.prefix, made.begun) == (20, 20, 20, 20, False)
    claims = await batch.take()
    await world.finish(Outcome.SUCCEEDED, *claims[1:])
    await batch.deliver()
    running = await batch.check()
    assert (running.done, running.in_progress, running.ended, running.begun) == (19, 1, False, True)
    assert batch.ends == []
    world.clock.advance(1)
    await world.finish(Outcome.SUCCEEDED, claims[0])
    if world.store.partitions == 1:
        assert (await batch.record()).ended  # in the very call
    await batch.deliver()
    ended = await batch.check()
    assert (ended.ended, ended.ended_at_us, ended.done) == (True, world.clock.us, 20)
    assert len(batch.ends) == 1
    assert batch.ends[0].body == f'1\n["batch_ended","crawl","1","{world.clock.us}","20 20 0 0"]'.encode()
    await batch.deliver()
    assert len(batch.ends) == 1


async def test_a_batch_that_has_ended_is_read_from_its_home_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(world)
    await batch.make(20)
    await batch.deliver()
    await batch.work()
    asked: list[str] = []
    call = world.store.link.call

    async def noted(verb: str, *args: Any, **more: Any) -> Any:
        asked.append(verb)
        return await call(verb, *args, **more)

    monkeypatch.setattr(world.store.link, "call", noted)
    assert (await batch.record()).done == 20
    assert asked == ["get_batch"]


async def test_a_batch_that_is_not_closed_does_not_end(world: World) -> None:
    batch = Batch(world)
    await batch.open()
    await batch.put(batch.item(0), batch.item(1))
    await batch.store.close_batch("crawl", 2, keep_open=True)
    assert await batch.work() == 2
    assert not (await batch.check()).ended
    await batch.put(batch.item(2))
    await batch.store.close_batch("crawl", 3)
    await batch.deliver()
    assert not (await batch.check()).ended
    assert await batch.work() == 1
    assert (await batch.check()).ended


async def test_a_batch_of_nothing_ends_at_once(world: World) -> None:
    batch = Batch(world)
    await batch.make(0)
    await batch.deliver()
    assert (await batch.check()).ended
    assert len(batch.ends) == 1


async def test_a_batch_ends_only_when_all_that_was_announced_is_stored(world: World) -> None:
    batch = Batch(world)
    await batch.open()
    await batch.store.close_batch("crawl", 2)
    await batch.put(batch.item(0))
    await batch.work()
    assert not (await batch.check()).ended
    await batch.put(batch.item(1))
    await batch.work()
    assert (await batch.check()).ended


@spread
async def test_identical_items_are_all_there_and_none_twice(world: World) -> None:
    batch = Batch(world)
    await batch.open()
    count = many(world, 1000)
    items = [batch.item(number, "the same") for number in range(count)]
    assert await batch.put(*items[:60]) == [False] * 60
    assert await batch.put(*items) == [True] * 60 + [False] * (count - 60)
    await batch.store.close_batch("crawl", count)
    assert await batch.work() == count
    record = await batch.check()
    assert (record.done, record.ended) == (count, True)
    page = await batch.store.list_batch_items("crawl", 0, 1000)
    assert [each.number for each in page.items] == list(range(count))
    assert [each.task.number for each in page.items] == list(range(count))
    assert len({each.work_item_id for each in page.items}) == count
    assert page.items[0].work_item_id == items[0].md5
    assert page.items[7].work_item_id == f"{items[0].md5}-7"
    assert all(each.task.result == b"1" for each in page.items)


async def test_of_identical_items_the_first_stored_has_the_plain_id(world: World) -> None:
    batch = Batch(world)
    await batch.open()
    assert await batch.put(batch.item(5, "same")) == [False]
    assert await batch.put(batch.item(2, "same"), batch.item(5, "same")) == [False, True]
    assert await batch.put(batch.item(2, "same")) == [True]
    key = batch.item(5, "same").md5
    for item, number in ((key, 5), (f"{key}-2", 2)):
        found = await batch.store.get_batch_item("crawl", item)
        assert found is not None
        assert (found.number, found.work_item_id) == (number, item)
    assert await batch.store.get_batch_item("crawl", f"{key}-5") is None
    assert await batch.store.get_batch_item("other", key) is None


async def test_a_batch_is_opened_again_by_the_same_description_only(world: World) -> None:
    store, batch = world.store, Batch(world)

    async def found(digest: bytes, **options: Any) -> BatchAnswer:
        return (await store.open_batch("crawl", digest, b"spec", LAMBDA, 0, **options)).found

    assert await found(b"") is BatchAnswer.MISSING
    assert await found(b"d", extend=True) is BatchAnswer.MISSING
    assert await found(b"d", single_partition=True) is BatchAnswer.NEW
    again = await store.open_batch("crawl", b"d", b"another", LAMBDA, 0)
    assert (again.found, again.spec, again.single_partition, again.total, again.prefix) == (
        BatchAnswer.SAME,
        b"spec",
        True,
        -1,
        0,
    )
    assert await found(b"other") is BatchAnswer.OTHER
    assert await found(b"") is BatchAnswer.SAME
    assert await store.note_prefix("crawl", 7)
    assert await store.note_prefix("crawl", 5)
    assert (await store.open_batch("crawl", b"", b"", "", 0)).prefix == 7
    assert not await store.note_prefix("none", 5)
    assert await store.get_batch("none") is None
    await store.cancel_batch("crawl")
    assert await found(b"d") is BatchAnswer.CANCELLED
    assert (await batch.record()).cancel_requested


async def test_items_are_listed_by_number_from_all_partitions(world: World) -> None:
    batch = Batch(world)
    await batch.make(40)
    seen, first = [], 0
    while True:
        page = await batch.store.list_batch_items("crawl", first, 7)
        seen += [each.number for each in page.items]
        assert len(page.items) <= 7
        if page.next is None:
            break
        assert page.next > first
        first = page.next
    assert seen == list(range(40))
    assert (await batch.store.list_batch_items("crawl", 30, 256)).next is None
    assert [each.number for each in (await batch.store.list_batch_items("crawl", 38, 256)).items] == [38, 39]


async def test_items_are_listed_by_status(world: World) -> None:
    batch = Batch(world)
    await batch.make(60)
    claims = await batch.take()
    await world.finish(Outcome.FAILED_FATAL, *claims[::20], error="no")
    seen, first = [], 0
    while True:
        page = await batch.store.list_batch_items("crawl", first, 2, statuses=[Status.FATAL_FAILURE])
        seen += page.items
        if page.next is None:
            break
        first = page.next
    assert {each.task.id for each in seen} == {each.task_id for each in claims[::20]}
    assert [each.number for each in seen] == sorted(each.number for each in seen)


@spread
async def test_batches_are_listed_newest_first(world: World) -> None:
    """From all partitions together, some of them made at one instant; also behind one that is gone."""
    names = [f"b{number}" for number in range(12)]
    for number, name in enumerate(names):
        await world.store.open_batch(name, b"d", b"", LAMBDA, 0)
        world.clock.advance(number // 4 % 2)
    everything = await world.store.list_batches(None, 20)
    assert sorted(each.id for each in everything) == sorted(names)
    assert everything == sorted(everything, key=lambda each: (-each.created_at_us, each.partition))
    assert len({each.partition for each in everything}) == world.store.partitions
    assert {each.id for each in everything[:4]} == set(names[-4:])
    for size in (1, 5):
        seen: list[BatchPlace] = []
        while page := await world.store.list_batches(seen[-1] if seen else None, size):
            seen += page
        assert seen == everything
    gone = everything[0]._replace(id="gone", created_at_us=everything[0].created_at_us + 1)
    assert await world.store.list_batches(gone, 20) == everything


# --- commands ---------------------------------------------------------------------------------------------------------


@spread
async def test_a_cancelled_batch_ends_when_what_ran_has_ended(world: World) -> None:
    batch = Batch(world)
    await batch.make(12)
    claims = await batch.take(2)
    assert await batch.store.cancel_batch("crawl") is BatchCommandAnswer.DONE
    await batch.deliver()
    record = await batch.check()
    assert (record.cancelled, record.in_progress, record.ended, record.cancel_requested) == (10, 2, False, True)
    with pytest.raises(FailedPrecondition, match="cancelled"):
        await batch.put(batch.item(12))
    await world.finish(Outcome.SUCCEEDED, claims[0])
    await world.finish(Outcome.STOPPED, claims[1])
    await batch.deliver()
    record = await batch.check()
    assert (record.cancelled, record.done, record.ended) == (11, 1, True)
    assert [each.body.count(b'"12 1 0 11"') for each in batch.ends] == [1]
    assert await batch.store.cancel_batch("crawl") is BatchCommandAnswer.NOTHING
    assert await batch.store.retry_batch("crawl") is BatchCommandAnswer.CANCELLED


async def test_a_batch_is_cancelled_while_its_items_come(world: World) -> None:
    batch = Batch(world)
    await batch.open()
    await batch.put(batch.item(0), batch.item(1))
    assert await batch.store.cancel_batch("crawl") is BatchCommandAnswer.DONE
    await batch.deliver()
    record = await batch.check()
    assert (record.cancelled, record.ended) == (2, True)
    await batch.store.close_batch("crawl", 5)
    await batch.deliver()
    assert (await batch.check()).ended


@spread
async def test_a_retry_starts_what_failed_for_good_and_the_end_comes_once_more(world: World) -> None:
    batch = Batch(world)
    await batch.make(10)
    claims = await batch.take()
    await world.finish(Outcome.SUCCEEDED, *claims[:7])
    await world.finish(Outcome.FAILED_FATAL, *claims[7:], error="no")
    await batch.deliver()
    assert len(batch.ends) == 1
    assert await batch.store.retry_batch("crawl") is BatchCommandAnswer.DONE
    await batch.deliver()
    record = await batch.check()
    assert (record.done, record.created, record.ended, record.round) == (7, 3, False, 2)
    assert await batch.work() == 3
    record = await batch.check()
    assert (record.done, record.ended) == (10, True)
    assert len(batch.ends) == 2
    assert await batch.store.retry_batch("crawl") is BatchCommandAnswer.NOTHING
    await batch.deliver()
    assert len(batch.ends) == 2


async def test_an_item_that_is_retried_by_hand_has_the_batch_go_on_in_the_same_round(world: World) -> None:
    batch = Batch(world)
    await batch.make(6)
    assert await batch.work(Outcome.FAILED_FATAL) == 6
    assert (await batch.check()).ended
    (found,) = (await batch.store.list_batch_items("crawl", 3, 1)).items
    await batch.store.retry_tasks([found.task.id])
    assert not (await batch.check()).ended
    await batch.deliver()
    assert (await batch.record()).ended_at_us == 0
    assert await batch.store.delete_batch("crawl") is BatchCommandAnswer.NOT_ENDED
    assert await batch.work() == 1
    record = await batch.check()
    assert (record.done, record.permanently_failed, record.ended, record.round) == (1, 5, True, 1)
    assert len(batch.ends) == 1


async def test_a_deleted_batch_leaves_nothing_but_its_id_for_a_while(world: World) -> None:
    batch = Batch(world)
    await batch.make(many(world, 300))
    assert await batch.store.delete_batch("crawl") is BatchCommandAnswer.NOT_ENDED
    await batch.work()
    assert await batch.store.delete_batch("crawl") is BatchCommandAnswer.DONE
    assert (await batch.store.open_batch("crawl", b"d", b"spec", LAMBDA, 0)).found is BatchAnswer.DELETED
    await batch.deliver()
    assert await batch.store.get_batch("crawl") is None
    assert await batch.store.delete_batch("crawl") is BatchCommandAnswer.MISSING
    found = await dump(world.store)
    assert found.tasks() == {}
    assert [key for key in found.data if "crawl" in key] == [
        f"{keys.record(batch.store.batch_partition('crawl'))}:batch:crawl"
    ]
    assert (await batch.store.open_batch("crawl", b"d", b"spec", LAMBDA, 0)).found is BatchAnswer.DELETED
    world.clock.advance(TOMBSTONE_US / US)
    await sweep(world)
    assert not [
        key
        for key, value in (await dump(world.store)).data.items()
        if "crawl" in str((key, value)) and ":ask:" not in key
    ]
    assert (await batch.store.open_batch("crawl", b"d", b"spec", LAMBDA, 0)).found is BatchAnswer.NEW


async def sweep(world: World) -> None:
    for partition in range(world.store.partitions):
        while await world.store.sweep(partition, 1):
            pass


async def test_items_go_with_their_batch_when_its_retention_is_over(world: World) -> None:
    batch = Batch(world)
    await batch.make(10)
    await batch.work()
    world.clock.advance(RETENTION_US / US - 1)
    await sweep(world)
    await batch.deliver()
    assert (await batch.check()).items == 10
    world.clock.advance(1)
    await sweep(world)
    await batch.deliver()
    assert (await dump(world.store)).tasks() == {}
    assert await batch.store.get_batch("crawl") is None


@spread
async def test_a_command_that_was_cut_off_goes_on_where_it_was(world: World) -> None:
    """Whoever delivers it dies after each step; the next one goes on."""
    batch = Batch(world)
    not_on_fakeredis(world)
    count = 300 + 300 * world.store.partitions
    await batch.make(count)
    await batch.deliver()
    assert await batch.store.cancel_batch("crawl") is BatchCommandAnswer.DONE
    left = [(await batch.record()).created]
    for partition in range(world.store.partitions):
        for _ in range(20):
            for record in await list_outbox(world.store, partition):
                if record.kind == "batch":
                    assert b'"crawl"' in record.body
                    await world.store.sync_batch(record)
                    left.append((await batch.record()).created)
    assert left == sorted(left, reverse=True)
    assert len({*left}) >= count / 256
    await batch.deliver()
    found = await batch.check()
    assert (found.cancelled, found.ended) == (count, True)


# --- extensions -------------------------------------------------------------------------------------------------------


async def test_an_extension_has_a_batch_go_on_in_its_next_round(world: World) -> None:
    batch = Batch(world)
    await batch.make(3)
    await batch.work()
    assert len(batch.ends) == 1
    reserved = await batch.store.reserve_items("crawl", "more", 0, 2)
    assert reserved == (BatchAnswer.NEW, 3)
    assert await batch.store.reserve_items("crawl", "more", 0, 2) == reserved
    assert (await batch.store.reserve_items("crawl", "more", 0, 3)).found is BatchAnswer.OTHER
    assert (await batch.store.reserve_items("crawl", "other", 0, 1)).first == 5
    record = await batch.record()
    assert (record.ended, record.round, record.total) == (False, 2, 6)
    await batch.put(*(batch.item(number) for number in (3, 4)))
    await batch.work()
    assert not (await batch.record()).ended
    await batch.put(batch.item(5))
    await batch.work()
    record = await batch.check()
    assert (record.ended, record.done) == (True, 6)
    assert len(batch.ends) == 2


async def test_a_batch_is_extended_while_its_first_items_come(world: World) -> None:
    batch = Batch(world)
    await batch.open()
    await batch.put(batch.item(0))
    reserved = await batch.store.reserve_items("crawl", "", 0, 1)
    await batch.put(batch.item(reserved.first))
    await batch.put(batch.item(1))
    await batch.store.close_batch("crawl", 2)
    assert await batch.work() == 3
    record = await batch.check()
    assert (record.ended, record.total, record.done) == (True, 3, 3)
    assert [each.number for each in (await batch.store.list_batch_items("crawl", 0, 10)).items] == [
        0,
        1,
        reserved.first,
    ]
    assert (await batch.store.reserve_items("crawl", "", 0, 1)).first == reserved.first + 1
    assert (await batch.store.reserve_items("none", "", 0, 1)).found is BatchAnswer.MISSING
    await batch.store.cancel_batch("crawl")
    assert (await batch.store.reserve_items("crawl", "", 0, 1)).found is BatchAnswer.CANCELLED


async def stand_still(batch: Batch, seconds: float = BATCH_PATIENCE_US / US + BATCH_CHECK_US / US) -> None:
    """Time passes, in which batches are looked after as sweeps do."""
    until = batch.world.clock.us + seconds * US
    while batch.world.clock.us < until:
        batch.world.clock.advance(BATCH_CHECK_US / US)
        await sweep(batch.world)
        await batch.deliver()


@spread
async def test_an_extension_that_nobody_stores_holds_its_batch_up_for_minutes_and_not_for_ever(world: World) -> None:
    """Whoever asked for the numbers has died, perhaps behind some of the items."""
    batch = Batch(world)
    await batch.make(3)
    first = (await batch.store.reserve_items("crawl", "more", 0, 4)).first
    await batch.put(batch.item(first))
    assert await batch.work() == 4
    await stand_still(batch, BATCH_PATIENCE_US / US - 1)
    assert not (await batch.check()).ended, "they may be on their way"
    await stand_still(batch)
    record = await batch.check()
    assert (record.ended, record.items, record.total, record.round) == (True, 4, 4, 1)
    assert len(batch.ends) == 1
    assert await batch.store.reserve_items("crawl", "other", 0, 1) == (BatchAnswer.NEW, first + 4), (
        "their numbers stay taken"
    )
    await batch.put(batch.item(first + 4))
    await batch.work()
    assert (await batch.check()).ended
    assert len(batch.ends) == 2


async def test_what_is_stored_of_an_extension_that_was_given_up_comes_in_a_round_of_its_own(world: World) -> None:
    batch = Batch(world)
    await batch.make(2)
    await batch.work()
    first = (await batch.store.reserve_items("crawl", "more", 0, 3)).first
    await batch.put(batch.item(first))
    await batch.work()
    await stand_still(batch)
    assert ((await batch.record()).round, len(batch.ends)) == (2, 2)
    for _ in range(2):
        assert (await batch.store.reserve_items("crawl", "more", 0, 3)).first == first
    record = await batch.record()
    assert (record.ended, record.round, record.total) == (True, 2, 3), "nothing more is there yet"
    await batch.put(*(batch.item(first + each) for each in range(3)))
    await batch.deliver()
    assert not (await batch.record()).ended
    await batch.work()
    record = await batch.check()
    assert (record.ended, record.done, record.round, len(batch.ends)) == (True, 5, 3, 3)
    assert (await batch.store.reserve_items("crawl", "more", 0, 3)).first == first
    assert (await batch.record()).ended, "all of them are there"


async def test_numbers_that_are_asked_for_meanwhile_are_waited_for(world: World) -> None:
    """Also between the check and what the parts answer; and one that is asked for again counts as new."""
    batch = Batch(world)
    await batch.make(4)
    await batch.work()
    await batch.store.reserve_items("crawl", "more", 0, 1)
    for _ in range(3):
        await stand_still(batch, BATCH_PATIENCE_US / US - 1)
        await batch.store.reserve_items("crawl", "more", 0, 1)
    await stand_still(batch, BATCH_PATIENCE_US / US)
    world.clock.advance(BATCH_CHECK_US / US)
    await sweep(world)
    await batch.store.reserve_items("crawl", "other", 0, 1)
    await batch.deliver()
    assert not (await batch.record()).ended
    await stand_still(batch)
    record = await batch.check()
    assert (record.ended, record.total) == (True, 4)


async def test_an_item_that_comes_after_it_was_given_up_counts_all_the_same(world: World) -> None:
    batch = Batch(world)
    await batch.make(1)
    first = (await batch.store.reserve_items("crawl", "", 0, 2)).first
    await batch.work()
    await stand_still(batch)
    assert (await batch.record()).total == 1
    ends = len(batch.ends)
    await batch.put(batch.item(first))
    await batch.deliver()
    assert not (await batch.record()).ended
    await batch.work()
    record = await batch.check()
    assert (record.ended, record.total, record.done) == (True, 2, 2)
    assert len(batch.ends) == ends + 1, "its callbacks are told of that item, too"


async def test_an_extension_that_is_there_and_is_asked_for_again_changes_nothing(world: World) -> None:
    """Although another one was given up."""
    batch = Batch(world)
    await batch.make(1)
    first = (await batch.store.reserve_items("crawl", "there", 0, 2)).first
    await batch.put(batch.item(first), batch.item(first + 1))
    await batch.store.reserve_items("crawl", "broken off", 0, 2)
    await batch.work()
    await stand_still(batch)
    before = await batch.check()
    assert (before.ended, before.total) == (True, 3)
    assert (await batch.store.reserve_items("crawl", "there", 0, 2)).first == first
    assert await batch.put(batch.item(first), batch.item(first + 1)) == [True] * 2
    await stand_still(batch)
    assert (await batch.check())._replace(now_us=before.now_us) == before
    assert len(batch.ends) == before.round


async def test_items_that_a_batch_is_made_of_are_never_given_up(world: World) -> None:
    batch = Batch(world)
    await batch.open()
    await batch.put(batch.item(0))
    await batch.store.close_batch("crawl", 2)
    await batch.store.reserve_items("crawl", "", 0, 3)
    await batch.work()
    await stand_still(batch)
    assert ((await batch.check()).ended, (await batch.record()).total) == (False, 5)
    await batch.put(batch.item(1))
    await batch.work()
    await stand_still(batch)
    assert ((await batch.check()).ended, (await batch.record()).total) == (True, 2)


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_a_pause_lies_between_the_items_of_a_target(world: World) -> None:
    batch = Batch(world, ordering_key="crawl.site", pause_us=2 * US)
    await batch.make(3, single_partition=True)
    starts = []
    for _ in range(12):
        claims = await batch.take()
        assert len(claims) <= 1
        if claims:
            starts.append(world.clock.us)
            world.clock.advance(0.5)
            await world.finish(Outcome.SUCCEEDED, *claims)
        world.clock.advance(0.5)
    assert [after - before for before, after in itertools.pairwise(starts)] == [2_500_000] * 2
    await batch.put(batch.item(3), alone=True)
    world.clock.advance(10)
    assert len(await batch.take()) == 1


async def test_a_pause_holds_for_an_item_that_comes_later_and_for_one_that_fails(world: World) -> None:
    batch = Batch(world, ordering_key="crawl.site", pause_us=5 * US)
    await batch.make(1, single_partition=True)
    await world.finish(Outcome.FAILED, *await batch.take(), error="no", retry_in_us=0)
    assert await batch.take() == []
    world.clock.advance(5)
    await world.finish(Outcome.SUCCEEDED, *await batch.take())
    await batch.put(batch.item(1), alone=True)
    assert await batch.take() == []
    world.clock.advance(4.9)
    assert await batch.take() == []
    world.clock.advance(0.1)
    assert len(await batch.take()) == 1
    assert (await batch.check()).items == 2


# --- whatever happens -------------------------------------------------------------------------------------------------


DIGESTS = ("first", "second", "third")
"""Of signatures that executors run."""


class Chance:
    """Any verbs about the items of a batch, with stale tokens and ids; what partitions owe each other comes late, twice, or in any order."""

    def __init__(self, batch: Batch, seed: int) -> None:
        self.batch, self.world, self.store = batch, batch.world, batch.store
        self.chance = random.Random(seed)
        self.ids: list[str] = []
        self.tokens: list[HeldClaim] = [HeldClaim("0-crawl." + "0" * 32, 1, "nobody's")]
        self.stored = 0
        self.owed: list[OutboxRecord] = []
        self.rounds: set[int] = set()
        self.ends: list[str] = []

    def some(self) -> list[str]:
        return self.chance.sample(self.ids, min(len(self.ids), self.chance.randrange(1, 6)))

    def mine(self) -> list[HeldClaim]:
        return [self.chance.choice(self.tokens[-20:]) for _ in range(self.chance.randrange(1, 8))]

    async def step(self) -> None:
        store, chance, partition = self.store, self.chance, self.chance.randrange(self.store.partitions)
        match chance.randrange(15):
            case 0 | 1:
                await self.put(chance.randrange(1, 6))
            case 2 | 3:
                await store.enqueue(partition, 0)
            case 4 | 5 | 6:
                digests = chance.sample(DIGESTS, 2)
                await store.serve("", 10, "", None, [f"{LAMBDA} {each}" for each in digests])
                signed = {LAMBDA: digests[0]}
                found = await serve_queues(store, partition, [[QUEUE]], 8, signatures=signed)
                ids = [each for _, some in found for each in some] + self.some()[:1]
                claims = await claim_ids(store, "executor-1", f"n{chance.random()}", ids, signatures=signed)
                self.tokens += held(claims.claims)
            case 7 | 8 | 9:
                more: dict[str, Any] = {"retry_in_us": 5 * US, "signature": chance.choice(DIGESTS), "grace_us": 5 * US}
                ends = [(each, chance.choice(list(Outcome))) for each in self.mine()]
                await store.set_results([RunResult(each, how, **more) for each, how in ends])
            case 10:
                await store.report_loss(self.mine(), "killed", shared=chance.random() < 0.5)
                await store.hand_back(self.mine())
            case 11:
                await (store.cancel_tasks if chance.random() < 0.5 else store.retry_tasks)(self.some())
                await store.redrive([(each, 0) for each in self.some()], 0)
                await store.heartbeat([ClaimRenewal(each, True, "") for each in self.mine()])
            case 12:
                await self.gate()
            case 13:
                self.world.clock.advance(chance.choice([0.5, 3, 17]))
                await store.sweep(partition, 1)
            case 14:
                if chance.random() < 0.3:
                    await store.retry_batch("crawl")
                await self.deliver(chance.randrange(6))

    async def put(self, count: int) -> None:
        again = self.chance.randrange(3)
        items = [
            self.batch.item(number, f"{number % 7}")
            for number in range(max(self.stored - again, 0), self.stored + count)
        ]
        await self.batch.put(*items)
        self.stored += count
        page = await self.store.list_batch_items("crawl", 0, 10_000)
        assert len(page.items) == self.stored
        self.ids = [each.task.id for each in page.items]

    async def gate(self) -> None:
        if self.chance.random() < 0.5:
            await self.world.gate(self.chance.choice(["pause", "delay", "drop"]), amount=US, seconds=3)
        else:
            await self.world.lift()
        for partition in range(self.store.partitions):
            for record in (await self.store.enqueue(partition, 0)).outbox:
                if b'["batch' not in record.body:
                    await self.store.apply_outbox(record)

    async def deliver(self, most: int) -> None:
        """Delivers some of what is owed, some of it without striking it off."""
        for partition in range(self.store.partitions):
            self.owed += [each for each in await list_outbox(self.store, partition) if each.kind.startswith("batch")]
        for record in self.chance.choices(self.owed, k=most) if self.owed else []:
            if record.kind == "batch_ended":
                continue
            if record.kind == "batch":
                await self.store.sync_batch(record)
            else:
                await call_function(
                    self.store, "report_batch", record.target, msgspec.json.decode(record.body.partition(b"\n")[2])[1:]
                )


@spread
@pytest.mark.parametrize("seed", range(2))
async def test_the_counts_never_drift_and_the_end_is_told_once_a_round(world: World, seed: int) -> None:
    if seed or world.store.partitions > 1:
        not_on_fakeredis(world)
    name = "few" if seed else ""
    batch = Batch(world, **({"concurrency": keys.concurrency(LAMBDA, name, 2, 2)} if name else {}))
    await batch.open()
    chance = Chance(batch, seed)
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 100, US, paused=False)])
    await chance.put(5)
    for number in range(60):
        await chance.step()
        world.clock.advance(0.01)
        if number % 15 == 14:
            await batch.check()
    await batch.store.close_batch("crawl", chance.stored)
    for _ in range(40):
        chance.chance.random()
        if chance.chance.randrange(15) > 1:
            await chance.deliver(4)
    await world.lift("pause", "delay", "drop")
    for _ in range(5):  # nobody says any more what it runs: what fits nobody is soon a failed attempt
        await batch.deliver()
        world.clock.advance(30)
        for partition in range(world.store.partitions):
            await world.passes(partition)
        await batch.work()
    ended = await batch.check()
    assert ended.ended, ended
    assert len(batch.ends) == 1
    retried = await batch.store.retry_batch("crawl")
    await batch.deliver()
    await batch.work()
    assert len(batch.ends) == (2 if retried is BatchCommandAnswer.DONE else 1)
    for record in chance.owed:  # all of it once more
        if record.kind in {"batch", "batch_report"}:
            await batch.store.apply_outbox(record)
    await batch.deliver()
    assert (await batch.check()).ended
    assert len(batch.ends) == (2 if retried is BatchCommandAnswer.DONE else 1)


# --- what goes astray -------------------------------------------------------------------------------------------------


async def test_a_home_that_has_forgotten_what_it_heard_asks_again(world: World) -> None:
    """A server that took over may lack the newest reports, which their senders will not send again."""
    batch = Batch(world)
    await batch.make(8)
    await batch.deliver()
    claims = await batch.take()
    partition = keys.record(batch.store.batch_partition("crawl"))
    there = partial(world.store.link.command, key=partition)
    record, still_open, ended = (f"{partition}:{each}" for each in ("batch:crawl", "batches:open", "batches:ended"))
    before = (await dump(world.store)).hash(record)
    open_before = (await dump(world.store)).zset(still_open)
    await world.finish(Outcome.SUCCEEDED, *claims)
    await batch.deliver()
    assert (await batch.record()).ended
    await there("DEL", record, ended)
    await there("HSET", record, *(each.encode("latin-1") for pair in before.items() for each in pair))
    await there("ZADD", still_open, *(each for member, at in open_before.items() for each in (int(at), member)))
    batch.ends.clear()
    await batch.deliver()
    assert not (await batch.record()).ended
    world.clock.advance(BATCH_CHECK_US / US)
    await sweep(world)
    await batch.deliver()
    assert (await batch.check()).ended
    assert len(batch.ends) == 1


async def test_a_check_changes_nothing_while_items_live(world: World) -> None:
    batch = Batch(world)
    await batch.make(12)
    await batch.deliver()
    claims = await batch.take(5)
    await world.finish(Outcome.SUCCEEDED, *claims[:3])
    before = counts(await batch.check())
    world.clock.advance(BATCH_CHECK_US / US)
    await sweep(world)
    await batch.deliver()
    assert counts(await batch.check()) == before
    await world.beat(*claims[3:])
    await world.finish(Outcome.SUCCEEDED, *claims[3:])
    await batch.work()
    assert (await batch.check()).ended
    assert len(batch.ends) == 1


async def test_items_are_found_among_the_tasks_of_their_lambda(world: World) -> None:
    """In pages of one, whose tokens hold ids with dots."""
    batch = Batch(world)
    await batch.make(6)
    await world.finish(Outcome.FAILED_FATAL, *(await batch.take())[:3], error="no")
    for statuses, count in (([Status.FATAL_FAILURE], 3), ([], 6)):
        found = list[ListedTask]()
        page = await world.store.list_tasks(TaskQuery(LAMBDA, statuses=statuses), 1)
        while page.tasks:
            found += page.tasks
            page = await world.store.list_tasks(TaskQuery(LAMBDA, statuses=statuses), 1, page.tasks[-1])
        assert len({each.id for each in found}) == len(found) == count


async def test_an_item_keeps_its_affinity_key(world: World) -> None:
    batch = Batch(world, affinity="cat")
    await batch.open()
    await batch.put(batch.item(0))
    assert [each["af"] for each in (await dump(world.store)).tasks().values()] == ["cat"]
