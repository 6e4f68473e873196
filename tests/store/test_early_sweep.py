"""A store whose memory is too full makes room: finished tasks go before their retention is over, in a fixed order."""

from __future__ import annotations

import pytest

from atf.store import keys
from atf.store.servers.check_results import State
from atf.store.servers.settings import retention
from atf.store.values.claims import Outcome
from atf.task import US

from .test_batches import Batch
from .test_retention import PLENTY, finish
from .world import World

OTHER = "other/one"


async def early(world: World) -> int:
    swept = await world.store.sweep(0, PLENTY, early=True)
    await world.check()
    return swept


async def oldest(world: World, most: int) -> int:
    """A sweep of so many records at most."""
    return int(await world.store.link.call("sweep", keys.record(0), [world.clock.us, PLENTY, most, 1]))


async def test_what_succeeded_goes_first_and_dead_letters_last(world: World) -> None:
    await finish(world, "dead", retention_us=3600 * US, outcome=Outcome.FAILED_FATAL)
    await world.schedule("cancelled", delay_us=60 * US)
    await world.store.cancel_tasks(["0-cancelled"])
    world.clock.advance(1)
    await finish(world, "done", retention_us=3600 * US)
    names = ["0-done", "0-cancelled", "0-dead"]
    world.clock.advance(1)
    await world.passes()
    left = []
    for most in (1, 1, 1, 0):
        left.append(await world.statuses(names))
        assert await oldest(world, 1) == most
        await world.check()
    assert left == [
        ["SUCCESS", "CANCELLED", "FATAL_FAILURE"],
        ["", "CANCELLED", "FATAL_FAILURE"],
        ["", "", "FATAL_FAILURE"],
        ["", "", ""],
    ]


async def test_the_oldest_of_all_lambdas_go_first_whatever_their_retention(world: World) -> None:
    for number in range(4):
        retention_us = (3600 if number % 2 else 7200) * US
        name = OTHER if number < 2 else "photos/thumbnail"
        (claim,) = await world.run(f"t{number}", lambda_name=name, retention_us=retention_us)
        await world.finish(Outcome.SUCCEEDED, claim)
        world.clock.advance(1)
    await world.passes()
    assert await oldest(world, 3) == 3
    assert await world.statuses([f"0-t{number}" for number in range(4)]) == ["", "", "", "SUCCESS"]


async def test_what_is_over_goes_before_anything_goes_early(world: World) -> None:
    await finish(world, "over", retention_us=0)
    await finish(world, "kept", retention_us=3600 * US)
    assert await early(world) == 1
    assert await world.statuses(["0-over", "0-kept"]) == ["", "SUCCESS"]


async def test_items_of_a_batch_and_live_tasks_never_go_early(world: World) -> None:
    batch = Batch(world)
    await batch.make(3)
    await batch.work()
    await world.schedule("live", delay_us=3600 * US)
    before = (await world.check()).tasks()
    for partition in range(world.store.partitions):
        assert await world.store.sweep(partition, PLENTY, early=True) == 0
    assert (await world.check()).tasks().keys() == before.keys()


async def test_status_and_doctor_can_say_so(world: World) -> None:
    assert (await world.store.get_status([], 0)).early_us == 0
    await finish(world, "a", retention_us=3600 * US)
    await early(world)
    assert (await world.store.get_status([], 0)).early_us == world.clock.us


@pytest.mark.parametrize(
    ("early_us", "now_us", "state"),
    [(0, 10**15, State.OK), (10**15, 10**15 + 600 * US, State.WARN), (10**15, 10**15 + 601 * US, State.OK)],
)
def test_it_is_said_for_ten_minutes(early_us: int, now_us: int, state: State) -> None:
    found = retention(early_us, now_us)
    assert found.state is state
    assert (state is State.OK) or "retention_memory" in found.sentence
