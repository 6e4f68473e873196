"""Finished tasks: kept for their retention, bounded in number, and their ids for ten minutes whatever the retention."""

from __future__ import annotations

import pytest

from atf.store.library import EXACT_LISTS
from atf.store.values.claims import HeldClaim, Outcome
from atf.task import TOMBSTONE_US, US, Status

from .world import LAMBDA, World, dump

PLENTY = 1_000_000


async def finish(world: World, *names: str, retention_us: int, outcome: Outcome = Outcome.SUCCEEDED) -> list[HeldClaim]:
    claims = await world.run(*names, retention_us=retention_us)
    await world.finish(outcome, *claims, error="x")
    return claims


async def sweep(world: World, max_finished: int = PLENTY) -> int:
    swept = 0
    while more := await world.store.sweep(0, max_finished):
        swept += more
        await world.check()
    return swept


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED_FATAL])
async def test_a_finished_task_stays_for_its_retention_and_then_goes(world: World, outcome: Outcome) -> None:
    await finish(world, "a", retention_us=3600 * US, outcome=outcome)
    world.clock.advance(3599)
    assert await sweep(world) == 0
    assert (await world.get("0-a")).status in {Status.SUCCESS, Status.FATAL_FAILURE}
    world.clock.advance(1)
    assert await sweep(world) == 1
    assert await world.store.get_tasks(["0-a"]) == [None]
    left = (await dump(world.store)).data.items()
    assert not any("0-a" in str(each) for each in left if ":ask:" not in each[0])  # these expire by themselves
    assert set((await world.store.counts(LAMBDA)).values()) == {0}


async def test_a_cancelled_task_goes_too(world: World) -> None:
    await world.schedule("a", retention_us=3600 * US)
    await world.store.cancel_tasks(["0-a"])
    world.clock.advance(3600)
    assert await sweep(world) == 1


async def test_live_tasks_are_never_swept(world: World) -> None:
    await world.run("a", retention_us=0)
    await world.schedule("b", retention_us=0)
    world.clock.advance(86_400 * 365)
    assert await sweep(world) == 0
    assert await world.statuses(["0-a", "0-b"]) == ["PROCESSING", "NEW"]


async def test_the_oldest_go_first_when_they_are_too_many(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        await finish(world, name, retention_us=3600 * US)
        world.clock.advance(1)
    assert await sweep(world, max_finished=2) == 2
    assert await world.statuses(["0-a", "0-b", "0-c", "0-d"]) == ["", "", "SUCCESS", "SUCCESS"]
    assert await sweep(world, max_finished=2) == 0


async def test_the_bound_is_per_lambda_and_status(world: World) -> None:
    await finish(world, "a", "b", retention_us=3600 * US)
    await finish(world, "c", "d", retention_us=3600 * US, outcome=Outcome.FAILED_FATAL)
    claims = await world.run("e", lambda_name="other/one", retention_us=3600 * US)
    await world.finish(Outcome.SUCCEEDED, *claims)
    assert await sweep(world, max_finished=1) == 2
    assert (await world.store.counts(LAMBDA))[Status.SUCCESS] == 1
    assert (await world.store.counts(LAMBDA))[Status.FATAL_FAILURE] == 1
    assert (await world.store.counts("other/one"))[Status.SUCCESS] == 1


async def test_a_sweep_takes_a_batch_at_a_time(world: World) -> None:
    await finish(world, *(f"t{number}" for number in range(300)), retention_us=3600 * US)
    world.clock.advance(3600)
    await world.passes()  # sees that the queue has nothing left
    assert [await world.store.sweep(0, PLENTY) for _ in range(3)] == [256, 44, 0]


async def test_a_sweep_takes_less_while_tasks_are_alive(world: World) -> None:
    """They wait behind it, and what it removes may be the ended tasks of one lambda that floods."""
    await finish(world, *(f"t{number}" for number in range(150)), retention_us=3600 * US)
    await world.store.schedule([world.task("alive", delay_us=7200 * US, lambda_name="other/one")])
    world.clock.advance(3600)
    assert [await world.store.sweep(0, PLENTY) for _ in range(4)] == [64, 64, 22, 0]


@pytest.mark.parametrize("retention_s", [0, 1, 300])
async def test_an_id_stays_taken_for_ten_minutes_whatever_the_retention(world: World, retention_s: int) -> None:
    """A Schedule whose answer was lost is sent again: it must find its task, although that is long swept."""
    (first,) = await world.store.schedule([world.task("a", at_us=world.clock.us, retention_us=retention_s * US)])
    await world.passes()
    await world.pop()
    await world.finish(
        Outcome.SUCCEEDED, *(HeldClaim(each.task_id, each.counter, each.nonce) for each in await world.claim("0-a"))
    )
    world.clock.advance(retention_s)
    assert await sweep(world) == 1
    assert await world.store.get_tasks(["0-a"]) == [None]
    world.clock.advance(TOMBSTONE_US / US - retention_s - 1)
    assert await sweep(world) == 0
    same, other = await world.store.schedule([world.task("a", delay_us=0), world.task("a", digest=b"other")])
    assert (same.existed, same.conflict, same.scheduled_at_us) == (True, False, first.scheduled_at_us)
    assert other.conflict
    assert await world.passes() == (0, 0, 0)  # and it does not run again
    world.clock.advance(1)
    assert await sweep(world) == 1
    (fresh,) = await world.store.schedule([world.task("a")])
    assert not fresh.existed
    await world.check()


async def test_a_record_kept_for_longer_leaves_no_tombstone(world: World) -> None:
    await finish(world, "a", retention_us=TOMBSTONE_US)
    world.clock.advance(TOMBSTONE_US / US)
    assert await sweep(world) == 1
    (fresh,) = await world.store.schedule([world.task("a")])
    assert not fresh.existed


async def test_retry_lifts_the_retention(world: World) -> None:
    await finish(world, "a", retention_us=60 * US, outcome=Outcome.FAILED_FATAL)
    world.clock.advance(59)
    assert (await world.store.retry_tasks(["0-a"]))[0].retried
    world.clock.advance(3600)
    assert await sweep(world) == 0
    assert await world.passes() == (1, 0, 0)
    await world.pop()
    claims = await world.claim("0-a")
    assert (claims[0].attempt, claims[0].losses) == (1, 0)
    await world.finish(Outcome.FAILED_FATAL, *(HeldClaim(each.task_id, each.counter, each.nonce) for each in claims))
    world.clock.advance(59)
    assert await sweep(world) == 0  # it counts from the new end
    world.clock.advance(1)
    assert await sweep(world) == 1


async def test_of_many_retentions_the_further_ones_are_rounded_up(world: World) -> None:
    """None is kept for less than was asked for, and a lambda has few finished sets."""
    ids = await world.retentions(EXACT_LISTS + 40)
    await world.store.retry_tasks(ids[-3:-1])  # leaves the set that it was in
    await world.check()
    await world.store.cancel_tasks(ids[-3:-1])
    found = await world.check()
    assert sum(":f:" in key for key in found.data) == EXACT_LISTS + 1
    world.clock.advance(60 + (EXACT_LISTS - 1) / US)
    assert await sweep(world) == EXACT_LISTS
    world.clock.advance(2**26 / US - 60)
    assert await sweep(world) == 40
    assert not [key for key in (await dump(world.store)).data if ":f:" in key or ":n:" in key or ":x:" in key]


async def test_when_they_are_too_many_the_oldest_of_all_retentions_go(world: World) -> None:
    for number in range(6):
        await finish(world, f"t{number}", retention_us=(3600 if number % 2 else 7200) * US)
        world.clock.advance(1)
    assert await sweep(world, max_finished=3) == 3
    assert await world.statuses([f"0-t{number}" for number in range(6)]) == ["", "", "", *["SUCCESS"] * 3]
