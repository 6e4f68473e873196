"""Items of batches: executors that have not said that they take them get none, and wait no longer for anything else."""

from __future__ import annotations

import asyncio

from atf.store.types import NewTask
from atf.task import US, Status
from tests.virtual import virtual

from .world import World, ids_of, world

MD5 = "268a4145a50ade48aed2b1147d3518c6"


async def enqueue_items(w: World, count: int, name: str = "shop/mail") -> list[str]:
    """Brings items of a batch into their queue."""
    ids = []
    for first in range(0, count, 256):
        made = [
            NewTask(f"b.{MD5}-{number}", 0, name, 1, b"spec", b"digest", None, 0, 3, 3, 3600 * US)
            for number in range(first, min(first + 256, count))
        ]
        ids += [each.id for each in await w.store.schedule(made)]
        await w.consume()
    return ids


async def statuses(w: World, ids: list[str]) -> set[Status]:
    return {(await w.record(each)).status for each in ids}


@virtual(world())
async def test_an_executor_that_announced_batches_gets_items_like_any_task(w: World) -> None:
    items = await enqueue_items(w, 2)
    (plain,) = await w.enqueue(1)
    assert ids_of(await w.ask(features=["batches"])) == [*items, plain]


@virtual(world())
async def test_one_that_did_not_gets_none_and_they_are_handed_back_at_once(w: World) -> None:
    items = await enqueue_items(w, 3)
    reply = await w.ask("old", wait=0.2)
    assert ids_of(reply) == []
    await w.consume()
    assert w.runtime.monotonic() < 0.25
    assert sorted(ids_of(await w.ask("new", features=["batches"]))) == sorted(items)


@virtual(world())
async def test_what_stands_behind_many_items_comes_at_once(w: World) -> None:
    await enqueue_items(w, 1000)
    (plain,) = await w.enqueue(1)
    assert ids_of(await w.ask("old", most=4)) == [plain]
    assert w.runtime.monotonic() == 0


@virtual(world())
async def test_other_lambdas_are_not_held_up(w: World) -> None:
    await enqueue_items(w, 300)
    asking = w.asking("old", lambdas=["shop/mail", "shop/bill"], wait=60)
    await asyncio.sleep(0.01)
    (bill,) = await w.enqueue(1, "shop/bill", priority=9)
    assert ids_of(await asking) == [bill]
    assert w.runtime.monotonic() == 0.01


@virtual(world(partitions=2))
async def test_items_that_nobody_may_have_cost_a_few_pops_a_second(w: World) -> None:
    await enqueue_items(w, 10)
    asking = w.asking("old", wait=10)
    for _ in range(100):  # the store consumer pushes again what was handed back
        await asyncio.sleep(0.1)
        await w.consume()
    await asking
    handed_back = sum(len(each.unclaimed) for each in w.hsc.requests["hand_back"])
    assert 10 < w.pops[0] < 10 * (4 + 1 + 1) * 1.5
    assert 100 <= handed_back <= 10 * 10 * 4


@virtual(world())
async def test_a_plain_task_in_the_same_queue_waits_a_quarter_of_a_second_at_most(w: World) -> None:
    await enqueue_items(w, 3)
    asking = w.asking("old", wait=60)
    await asyncio.sleep(0.1)
    await w.consume()
    (plain,) = await w.enqueue(1)
    assert ids_of(await asking) == [plain]
    assert w.runtime.monotonic() <= 0.25


@virtual(world())
async def test_items_of_a_call_that_went_away_are_not_given_to_an_executor_without_batches(w: World) -> None:
    items = await enqueue_items(w, 2)
    asking = w.asking("new", features=["batches"], wait=60)
    while w.pops[0] < 2:  # the scan, and the pop of what it has named
        await asyncio.sleep(0)
    asking.cancel()
    assert ids_of(await w.ask("old", wait=0.2)) == []
    assert await statuses(w, items) == {Status.ENQUEUED}
    assert ids_of(await w.ask("another", features=["batches"], wait=2)) == items
