"""The record of a pool's cores, its members, and which lambdas have tasks that wait for executors."""

from __future__ import annotations

from typing import Any

import pytest

from atf.store.capacity import CapacityRecord, KnownCapacity, WaitingTasks
from atf.store.values.claims import Outcome
from atf.store.values.lambdas import LambdaRecord
from atf.task import US

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, World, dump, held


async def read(world: World, *args: Any, **fields: Any) -> CapacityRecord:
    found = await world.store.get_capacity("gpu", *args, **fields)
    assert found is not None
    return found


async def test_a_pool_without_cores_costs_nothing(world: World) -> None:
    before = await dump(world.store)
    assert await world.store.get_capacity("gpu", here=["executor-1"], gone=["executor-2"]) is None
    assert await world.store.list_capacity() == []
    assert (await dump(world.store)).data == before.data


async def test_only_who_has_read_the_record_as_it_is_replaces_it(world: World) -> None:
    first = await world.store.set_capacity("gpu", 0, b"one")
    assert await world.store.set_capacity("gpu", 0, b"other") == 0
    assert (await read(world)).state == b"one"
    second = await world.store.set_capacity("gpu", first, b"two")
    assert second > first
    assert await world.store.set_capacity("gpu", first, b"") == 0
    assert (await read(world)).state == b"two"
    assert await world.store.list_capacity() == ["gpu"]
    assert await world.store.set_capacity("gpu", second, b"") > second
    assert await world.store.get_capacity("gpu") is None
    assert await world.store.list_capacity() == []


async def test_what_is_known_is_not_told_again(world: World) -> None:
    version = await world.store.set_capacity("gpu", 0, b"state", ([["e1"], ["e2"]], 0))
    found = await read(world)
    assert (found.state, found.groups, found.deal) == (b"state", [["e1"], ["e2"]], version)
    again = await read(world, KnownCapacity(found.version, found.deal))
    assert (again.state, again.groups, again.version) == (b"", None, version)
    later = await world.store.set_capacity("gpu", version, b"more")
    after = await read(world, KnownCapacity(found.version, found.deal))
    assert (after.state, after.groups, after.version, after.deal) == (b"more", None, later, version)


async def test_the_groups_are_stale_until_they_are_dealt_to_the_members_there_are(world: World) -> None:
    version = await world.store.set_capacity("gpu", 0, b"s", deal_anew=True)
    found = await read(world, here=["e1", "e2"], stay_us=10 * US)
    assert found.to_deal == ["e1", "e2"]
    version = await world.store.set_capacity("gpu", version, b"s", ([["e1", "e2"]], found.membership))
    world.clock.advance(6)
    assert (await read(world, here=["e1"], stay_us=10 * US)).to_deal is None
    world.clock.advance(4)  # e2 was not named again
    assert (await read(world)).to_deal == ["e1"]
    assert (await read(world, here=["e3"], gone=["e1"], stay_us=10 * US)).to_deal == ["e3"]
    found = await read(world, gone=["e3"])
    assert found.to_deal == []
    version = await world.store.set_capacity("gpu", version, b"s", ([[]], found.membership))
    assert (await read(world)).to_deal is None
    await world.store.set_capacity("gpu", version, b"s", deal_anew=True)
    assert (await read(world)).to_deal == []


async def test_more_members_than_one_call_takes(world: World) -> None:
    await world.store.set_capacity("gpu", 0, b"s", deal_anew=True)
    names = [f"e{number:03}" for number in range(300)]
    found = await read(world, here=names, stay_us=US)
    assert sorted(found.to_deal or []) == names


@pytest.mark.parametrize("paused", [False, True])
async def test_what_waits_of_a_lambda(world: World, paused: bool) -> None:
    assert await world.store.waiting(0, "", ["no/such"]) == [WaitingTasks.UNKNOWN]
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 6, ENQUEUE_TIMEOUT_US, paused=False)])
    assert await world.store.waiting(0, "", [LAMBDA]) == [WaitingTasks.NOTHING]
    await world.schedule("a")
    assert await world.store.waiting(0, "", [LAMBDA]) == [WaitingTasks.NOTHING]  # not due for executors yet
    await world.passes()
    await (world.store.pause_lambda if paused else world.store.resume_lambda)(LAMBDA)
    assert await world.store.waiting(0, "", [LAMBDA]) == [WaitingTasks.TAKEN if paused else WaitingTasks.QUEUED]
    assert await world.store.waiting(0, "gpu", [LAMBDA]) == [WaitingTasks.TAKEN]  # that pool does not run it
    await world.store.resume_lambda(LAMBDA)
    await world.pop()
    assert await world.store.waiting(0, "", [LAMBDA]) == [WaitingTasks.TAKEN]
    (claim,) = held(await world.claim("0-a"))
    await world.beat(claim)
    assert await world.store.waiting(0, "", [LAMBDA]) == [WaitingTasks.TAKEN]
    await world.finish(Outcome.SUCCEEDED, claim)
    assert await world.store.waiting(0, "", [LAMBDA]) == [WaitingTasks.NOTHING]
