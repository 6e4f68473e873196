"""Ordering keys: the tasks of one key run one after another, as they were accepted, whatever becomes of each."""

from __future__ import annotations

import pytest

from atf.store.types import Held, Outcome
from atf.task import US, Status

from .world import World, held

KEY = "customer-7"


async def line_up(world: World, *names: str) -> list[str]:
    """Schedules tasks of one key, each accepted after the one before."""
    return await world.schedule(*names, ordering_key=KEY)


async def start(world: World) -> Held:
    """Claims the one task that is due."""
    await world.passes()
    ids = await world.pop()
    assert len(ids) == 1
    (claim,) = held(await world.claim(*ids))
    await world.check()
    return claim


async def due(world: World) -> list[str]:
    await world.passes()
    await world.check()
    return await world.pop()


async def test_they_run_in_the_order_in_which_they_were_accepted(world: World) -> None:
    ids = await line_up(world, "c", "a", "b")
    for task_id in ids:
        claim = await start(world)
        assert claim.task_id == task_id
        assert await due(world) == []
        await world.finish(Outcome.SUCCEEDED, claim)
    assert await due(world) == []


async def test_an_earlier_instant_does_not_overtake(world: World) -> None:
    await world.schedule("late", ordering_key=KEY, delay_us=60 * US)
    await world.schedule("soon", ordering_key=KEY)
    assert await due(world) == []
    world.clock.advance(60)
    claim = await start(world)
    assert claim.task_id == "0-late"
    await world.finish(Outcome.SUCCEEDED, claim)
    assert await due(world) == ["0-soon"]


async def test_the_next_one_still_waits_for_its_own_instant(world: World) -> None:
    await line_up(world, "now")
    await world.schedule("later", ordering_key=KEY, delay_us=60 * US)
    await world.finish(Outcome.SUCCEEDED, await start(world))
    assert await due(world) == []
    world.clock.advance(59)
    assert await due(world) == []
    world.clock.advance(1)
    assert await due(world) == ["0-later"]


@pytest.mark.parametrize("end", ["success", "fatal", "cancel", "lost for good", "cancelled before it ran"])
async def test_the_next_one_is_released_by(world: World, end: str) -> None:
    await world.schedule("first", ordering_key=KEY, max_losses=1)
    await line_up(world, "second")
    match end:
        case "success":
            await world.finish(Outcome.SUCCEEDED, await start(world))
        case "fatal":
            await world.finish(Outcome.FAILED_FATAL, await start(world))
        case "cancel":
            claim = await start(world)
            await world.store.cancel(["0-first"])
            assert await due(world) == []  # it runs until it is stopped
            await world.finish(Outcome.STOPPED, claim)
        case "lost for good":
            await start(world)
            world.clock.advance(16)
        case _:
            await world.store.cancel(["0-first"])
    assert await due(world) == ["0-second"]


async def test_a_head_in_backoff_holds_the_others_back(world: World) -> None:
    await line_up(world, "first", "second")
    await world.fail(await start(world))
    world.clock.advance(59)
    assert await due(world) == []
    world.clock.advance(1)
    claim = await start(world)
    assert claim.task_id == "0-first"


async def test_a_lost_head_runs_again_before_the_others(world: World) -> None:
    await line_up(world, "first", "second")
    claim = await start(world)
    await world.store.lose("executor-1", [claim], "killed")
    assert await due(world) == ["0-first"]


async def test_cancelling_one_in_the_middle_keeps_the_order(world: World) -> None:
    await line_up(world, "a", "b", "c")
    claim = await start(world)
    await world.store.cancel(["0-b"])
    assert await due(world) == []
    await world.finish(Outcome.SUCCEEDED, claim)
    assert await due(world) == ["0-c"]


async def test_a_retried_task_joins_the_end(world: World) -> None:
    await line_up(world, "a", "b", "c")
    await world.finish(Outcome.FAILED_FATAL, await start(world))
    await world.store.retry(["0-a"])
    order = []
    for _ in range(3):
        claim = await start(world)
        order.append(claim.task_id)
        await world.finish(Outcome.SUCCEEDED, claim)
    assert order == ["0-b", "0-c", "0-a"]


async def test_a_retried_task_alone_is_due_at_once(world: World) -> None:
    await line_up(world, "a")
    await world.store.cancel(["0-a"])
    await world.store.retry(["0-a"])
    assert await due(world) == ["0-a"]


async def test_a_whole_batch_may_be_cancelled_at_once(world: World) -> None:
    ids = await line_up(world, "a", "b", "c", "d")
    await world.store.cancel([ids[1], ids[0], ids[3]])
    assert await due(world) == ["0-c"]


async def test_one_key_orders_tasks_of_several_lambdas_and_keys_do_not_meet(world: World) -> None:
    await world.schedule("a", ordering_key=KEY, lambda_name="shop/charge")
    await world.schedule("b", ordering_key=KEY, lambda_name="shop/ship")
    await world.schedule("c", ordering_key="customer-8", lambda_name="shop/ship")
    await world.passes()
    assert await world.pop("shop/charge:1", "shop/ship:1") == ["0-a", "0-c"]
    await world.finish(Outcome.SUCCEEDED, *held(await world.claim("0-a")))
    await world.passes()
    assert await world.pop("shop/charge:1", "shop/ship:1") == ["0-b"]


async def test_what_waits_is_listed_counted_and_explained(world: World) -> None:
    await line_up(world, "a", "b", "c")
    records, _ = await world.store.list_tasks("shop/mail", Status.NEW, 10, "")
    assert [record.id for record in records] == ["0-a", "0-b", "0-c"]
    assert records[2].next_at_us == 0
    around = await world.store.explain("0-c")
    assert around is not None
    assert (around.behind, around.position, around.in_queue) == ("0-a", 2, False)
    await world.passes()
    head = await world.store.explain("0-a")
    assert head is not None
    assert (head.behind, head.position, head.in_queue) == ("", 0, True)
