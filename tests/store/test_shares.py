"""Shares: of what a lambda is given, each priority with tasks that wait has its part at least; the rest goes strictly by priority."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from atf.store.values.claims import Outcome
from atf.store.values.lambdas import LambdaRecord
from atf.task import US
from tests.claiming import serve_queues

from .conftest import OpenStore
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, Clock, World, dump, held

QUEUES = [[f"{LAMBDA}:{priority}"] for priority in range(10)]
"""As a controller asks for them: the most urgent first."""


async def declare(world: World, settings: str, name: str = LAMBDA, limit: int = 10_000) -> None:
    await world.store.register_lambdas([LambdaRecord(name, b"", limit, ENQUEUE_TIMEOUT_US, False, settings)])


async def flood(world: World, *priorities: int, count: int = 200, name: str = LAMBDA) -> None:
    for priority in priorities:
        tasks = (f"{name[-4:]}{priority}-{number}" for number in range(count))
        await world.schedule(*tasks, priority=priority, lambda_name=name)


async def popped(world: World, want: int, groups: list[list[str]] = QUEUES) -> dict[int, int]:
    """How many tasks of each priority one pop took."""
    found = await serve_queues(world.store, 0, groups, want)
    return {int(queue[-1]): len(ids) for queue, ids in found if ids}


# --- pops -------------------------------------------------------------------------------------------------------------


async def test_a_low_priority_has_its_share_of_each_pop_beside_a_flood(world: World) -> None:
    await declare(world, "shares=2:0.1")
    await flood(world, 0, 2)
    await world.passes()
    assert [await popped(world, 10) for _ in range(5)] == [{0: 9, 2: 1}] * 5


@pytest.mark.parametrize(("settings", "every"), [("shares=2:0.1", 10), ("", 20), ("shares=0:0.5", 40)])
async def test_a_share_holds_where_tasks_are_taken_one_by_one(world: World, settings: str, every: int) -> None:
    """Without a share of its own, a priority has a twentieth of what the declared ones leave."""
    await declare(world, settings)
    await flood(world, 0, 2, count=100)
    await world.passes()
    taken = [next(iter(await popped(world, 1))) for _ in range(2 * every)]
    assert [number + 1 for number, priority in enumerate(taken) if priority == 2] == [every, 2 * every]


async def test_a_share_holds_among_priorities_that_have_aged_into_one_group(world: World) -> None:
    """A pop for one task need look no further than at the first of them, and still each of the others has its part."""
    await declare(world, "shares=2:0.1")
    await flood(world, 0, 2, count=100)
    await world.passes()
    queues, taken = [f"{LAMBDA}:2", f"{LAMBDA}:0"], Counter[int]()
    for _ in range(100):
        (priority,) = await popped(world, 1, [queues])
        taken[priority] += 1
        queues.sort(key=f"{LAMBDA}:{priority}".__eq__)  # who was served goes behind
    assert taken == {0: 90, 2: 10}


async def test_what_nobody_has_a_share_in_goes_strictly_by_priority(world: World) -> None:
    await declare(world, "shares=9:0.25,0:0.25")
    await flood(world, 0, 1, 9, count=30)
    await world.passes()
    assert await popped(world, 20) == {0: 15, 9: 5}
    assert await popped(world, 20) == {0: 14, 1: 1, 9: 5}  # a fortieth is owed to priority 1
    assert await popped(world, 20) == {0: 1, 1: 14, 9: 5}, "priority 0 is empty now"


async def test_an_unused_share_goes_to_the_others_and_is_not_saved_up(world: World) -> None:
    await declare(world, "shares=0:0.5,2:0.5")
    await flood(world, 0, count=60)
    await world.passes()
    assert await popped(world, 20) == {0: 20}
    await flood(world, 2, count=60)
    await world.passes()
    assert await popped(world, 20) == {0: 10, 2: 10}
    assert await popped(world, 20, [[f"{LAMBDA}:2"]]) == {2: 20}, (
        "and a controller that asks for the low priority alone"
    )


async def test_shares_change_nothing_between_lambdas(world: World) -> None:
    await declare(world, "shares=2:0.25")
    await flood(world, 0, 2)
    await flood(world, 0, name="shop/bill")
    await world.passes()
    found = await serve_queues(world.store, 0, [[f"{LAMBDA}:0", "shop/bill:0"], ["shop/bill:1"], [f"{LAMBDA}:2"]], 16)
    assert {queue: len(ids) for queue, ids in found} == {f"{LAMBDA}:0": 6, f"{LAMBDA}:2": 2, "shop/bill:0": 8}


async def test_a_pop_names_those_that_had_to_stand_back(world: World) -> None:
    await declare(world, "shares=2:0.1")
    await flood(world, 0, 2, count=5)
    await flood(world, 1, name="shop/bill", count=5)
    await world.passes()
    found = await serve_queues(world.store, 0, [[f"{LAMBDA}:0"], [f"{LAMBDA}:1", "shop/bill:1"], [f"{LAMBDA}:2"]], 4)
    assert {queue: len(ids) for queue, ids in found} == {f"{LAMBDA}:0": 4, f"{LAMBDA}:2": 0, "shop/bill:1": 0}


async def test_other_shares_hold_at_once(world: World) -> None:
    await declare(world, "shares=2:0.1")
    await flood(world, 0, 2)
    await world.passes()
    assert await popped(world, 10) == {0: 9, 2: 1}
    await declare(world, "shares=2:0.6")
    assert await popped(world, 10) == {0: 4, 2: 6}


async def test_no_priority_is_ever_short_of_its_share_by_more_than_there_are_priorities(world: World) -> None:
    shares = {0: 0.31, 1: 0.07, 2: 0.4, 5: 0.013, 9: 0.2}
    await declare(world, "shares=" + ",".join(f"{priority}:{share}" for priority, share in shares.items()))
    await flood(world, *shares, count=250)
    await world.passes()
    chance, taken = random.Random(7), Counter[int]()
    while taken.total() < 500:
        taken.update(await popped(world, chance.choice((1, 1, 2, 3, 17))))
        for priority, share in shares.items():
            assert taken[priority] > share * taken.total() - len(shares), taken


@pytest.mark.parametrize("shares", [{0: 1.0}, {9: 1.0}, {0: 0.5, 9: 0.499}, {0: 0.001, 9: 0.999}])
async def test_where_shares_leave_nothing_each_other_priority_has_one_place_in_a_thousand(
    world: World, shares: dict[int, float]
) -> None:
    await declare(world, "shares=" + ",".join(f"{priority}:{share}" for priority, share in shares.items()))
    await flood(world, *range(1, 9), count=5)
    await flood(world, 0, 9, count=3100)
    while (await world.store.enqueue(0, 0)).enqueued:
        pass
    taken = Counter[int]()
    for _ in range(150):
        taken.update(await popped(world, 20))
    others = set(range(1, 10)) - set(shares)  # priority 0 also has what is left over
    assert all(2 <= taken[priority] <= 3 for priority in others), taken
    for priority, share in shares.items():
        assert taken[priority] >= 3000 * share * 0.99 - 10, taken


async def test_nothing_is_written_where_one_priority_waits(world: World) -> None:
    await flood(world, 0, count=20)
    await world.passes()
    before = (await dump(world.store)).hash(f"atf:{{0}}:l:{LAMBDA}")
    await popped(world, 5)
    assert (await dump(world.store)).hash(f"atf:{{0}}:l:{LAMBDA}") == before
    assert set(before) == {"limit", "timeout"}


# --- passes -----------------------------------------------------------------------------------------------------------


async def pushed(world: World) -> dict[int, int]:
    """How many tasks of each priority one pass pushed."""
    before = await lengths(world)
    await world.store.enqueue(0, 0)
    after = await lengths(world)
    return {priority: after[priority] - before[priority] for priority in after if after[priority] != before[priority]}


async def lengths(world: World) -> Counter[int]:
    found = await dump(world.store)
    return Counter({priority: len(found.list(f"rq:queue:{{0}}{LAMBDA}:{priority}")) for priority in range(10)})


async def test_a_pass_pushes_by_shares(world: World) -> None:
    await declare(world, "shares=2:0.25")
    await world.passes()
    await flood(world, 0, 2)
    assert await pushed(world) == {0: 48, 2: 16}
    assert await pushed(world) == {0: 48, 2: 16}
    await flood(world, 1, count=4)
    assert await pushed(world) == {0: 46, 1: 2, 2: 15}, "of 63 places now"


async def test_places_of_a_pass_that_one_priority_does_not_use_go_to_the_others(world: World) -> None:
    await declare(world, "shares=0:0.5,2:0.5")
    await world.passes()
    await flood(world, 0, count=2)
    await flood(world, 2)
    assert await pushed(world) == {0: 2, 2: 62}


async def test_leases_of_a_low_priority_end_beside_a_flood(world: World) -> None:
    await world.run(*(f"r{number}" for number in range(20)), priority=2)
    await flood(world, 0)
    world.clock.advance(20)
    made = await world.store.enqueue(0, 0)
    assert (made.lost, made.enqueued_again, made.enqueued) == (20, 12, 32), "64 in all"
    await world.passes()
    await world.check()


@pytest.mark.parametrize("limit", ["running=1", "rate=10"])
async def test_priorities_share_the_limits_of_their_lambda(open_store: OpenStore, clock: Clock, limit: str) -> None:
    world = World(await open_store(1), clock)
    await declare(world, f"{limit} shares=2:0.2")
    await flood(world, 0, 2, count=60)
    taken = []
    for number in range(40):
        await world.schedule(f"live-{number}", priority=0)  # which has that queue looked at before any other
        for _ in range(3):
            await world.store.enqueue(0, 0)
        found = await serve_queues(world.store, 0, QUEUES, 100)
        taken += [int(queue[-1]) for queue, ids in found for _ in ids]
        ids = [task_id for _, ids in found for task_id in ids]
        if limit == "running=1":
            assert len(ids) == 1
        await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*ids)))
        world.clock.advance(0.1)
    first = taken[:40]
    assert first.count(2) == 8
    assert 2 in first[:5]
    await world.check()


@pytest.mark.parametrize("gone", [0, 2])
async def test_what_nobody_pops_keeps_nothing_of_the_rate_from_a_low_priority(
    open_store: OpenStore, clock: Clock, gone: int
) -> None:
    """It only gets a new instant; what was popped and never claimed does need a place, before what is less urgent."""
    world = World(await open_store(1), clock)
    await declare(world, "")
    await flood(world, 1)
    await world.passes()
    if gone:
        assert len(await world.pop(f"{LAMBDA}:1", want=gone)) == gone
    await declare(world, "rate=10 burst=13")
    world.clock.advance(ENQUEUE_TIMEOUT_US / US)
    await flood(world, 5, count=60)
    assert await pushed(world) == ({1: 2, 5: 1} if gone else {5: 3})
    for _ in range(10):
        world.clock.advance(0.1)
        assert await pushed(world) == {5: 1}
    await world.check()


async def test_a_permit_that_a_low_priority_does_not_use_is_used(open_store: OpenStore, clock: Clock) -> None:
    """What is left of its record is nothing: somebody has deleted it."""
    world = World(await open_store(1), clock)
    await declare(world, "running=4 shares=2:0.5")
    await flood(world, 0, 2, count=10)
    found = await dump(world.store)
    for task_id, task in found.tasks().items():
        if task["q"].endswith(":2"):
            await world.store.link.command("DEL", f"atf:{{0}}:t:{task_id}", key="atf:{0}")
    assert await pushed(world) == {0: 4}


async def test_what_is_due_at_once_is_pushed_at_once_whatever_the_shares(world: World) -> None:
    await flood(world, 0, 1, 2, count=5)
    assert await pushed(world) == {0: 5, 1: 5, 2: 5}
    assert (await world.store.enqueue(0, 0)).next_in_us == 10 * US
