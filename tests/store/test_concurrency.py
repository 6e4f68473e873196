"""Concurrency keys: at most so many tasks of a key between their push and their end, whatever becomes of each."""

from __future__ import annotations

import math

import pytest

from atf.store import keys
from atf.store.library import LINE_CHECK_US
from atf.store.values.claims import HeldClaim, Outcome
from atf.store.values.keys import SlotsRecord
from atf.store.values.lambdas import LambdaRecord
from atf.task import US
from tests.claiming import claim_ids, take

from .test_ordering import swept
from .world import BACKOFF_US, ENQUEUE_TIMEOUT_US, LAMBDA, LEASE_US, World, dump, held, labelled

QUEUE, SKIP, CANCEL_RUNNING = range(3)
KEY = f"{LAMBDA}:anna"


async def add(
    world: World, *names: str, limit: int = 1, policy: int = QUEUE, key: str = "anna", delay: float = 0
) -> None:
    concurrency = keys.concurrency(LAMBDA, key, limit, policy)
    for name in names:
        await world.schedule(name, concurrency=concurrency, delay_us=round(delay * US))


async def start(world: World) -> list[HeldClaim]:
    """Claims what may run."""
    await world.passes()
    await world.check()
    ids = await world.pop()
    claims = held(await world.claim(*ids)) if ids else []
    await world.check()
    return claims


def names(claims: list[HeldClaim]) -> list[str]:
    return [each.task_id for each in claims]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_so_many_run_at_once_and_the_others_follow_in_turn(world: World, limit: int) -> None:
    await add(world, "a", "b", "c", "d", "e", limit=limit)
    running, order = await start(world), []
    while running:
        assert len(running) <= limit
        order += names(running[:1])
        await world.finish(Outcome.SUCCEEDED, running.pop(0))
        running += await start(world)
    assert order == ["0-a", "0-b", "0-c", "0-d", "0-e"]
    found = await world.check()
    assert not [key for key in found.data if ":slots:" in key or ":line:" in key or key.endswith(":lines")]


async def test_keys_whose_tasks_have_all_ended_leave_nothing(world: World) -> None:
    await world.finish(Outcome.SUCCEEDED, *(await world.run("without-a-key")))
    before = await swept(world)
    for number in range(90):
        tasks = [f"{number}-{each}" for each in "abc"]
        await add(
            world,
            *tasks,
            limit=1 + number % 2,
            policy=(QUEUE, SKIP, CANCEL_RUNNING)[number % 3],
            key=f"customer-{number}",
        )
    claims = await started(world)
    assert sum(":slots:" in key for key in (await world.check()).data) == 90
    await world.store.cancel_tasks([f"0-{number}-b" for number in range(0, 90, 7)])
    await world.fail(*claims[::4])
    await world.store.report_loss(claims[1::4], "killed")
    await world.finish(Outcome.FAILED_FATAL, *claims[2::4], error="no such account")
    await world.finish(Outcome.SUCCEEDED, *claims[3::4])
    while claims := await started(world):
        await world.finish(Outcome.SUCCEEDED, *claims)
        world.clock.advance(BACKOFF_US / US)
    after = await swept(world)
    assert set(after.data) == set(before.data)
    assert "customer-" not in str(after.data)


async def started(world: World) -> list[HeldClaim]:
    """Claims what may run; what was cancelled while it stood in its queue is passed over."""
    await world.passes()
    return held(await take(world.store, f"{LAMBDA}:1"))


async def test_keys_do_not_meet_and_tasks_without_one_are_free(world: World) -> None:
    await add(world, "a", "b")
    await add(world, "c", "d", key="bert")
    await world.schedule("e")
    assert sorted(names(await start(world))) == ["0-a", "0-c", "0-e"]


async def test_waiting_costs_one_look_each(world: World) -> None:
    await add(world, *(f"t{number}" for number in range(20)))
    await start(world)
    found = await dump(world.store)
    waiting = found.zset(f"atf:{{0}}:s:{LAMBDA}:1:NEW")
    assert set(waiting.values()) == {math.inf}
    assert len(waiting) == 19
    done = await world.store.enqueue(0, 0)
    assert done.next_in_us is not None
    assert done.next_in_us >= 10 * US, "nothing has to be looked at"


@pytest.mark.parametrize(
    "end", ["success", "fatal", "retry", "losses", "cancelled in its queue", "cancelled while due"]
)
async def test_a_slot_is_free_once_its_task_has_left(world: World, end: str) -> None:
    concurrency = keys.concurrency(LAMBDA, "anna", 1, QUEUE)
    await world.schedule("first", concurrency=concurrency, max_losses=1)
    await add(world, "second")
    match end:
        case "cancelled in its queue":
            await world.passes()
            await world.store.cancel_tasks(["0-first"])
            await world.pop()
        case "cancelled while due":
            await world.store.cancel_tasks(["0-first"])
        case _:
            (claim,) = await start(world)
            if end == "success":
                await world.finish(Outcome.SUCCEEDED, claim)
            elif end == "fatal":
                await world.finish(Outcome.FAILED_FATAL, claim)
            elif end == "retry":
                await world.fail(claim)
            else:
                await world.store.report_loss([claim], "killed")
    assert names(await start(world)) == ["0-second"]


@pytest.mark.parametrize("how", ["lost", "lease", "handed back", "popped and forgotten"])
async def test_a_task_that_is_pushed_again_keeps_its_slot(world: World, how: str) -> None:
    await add(world, "first", "second")
    if how == "popped and forgotten":
        await world.passes()
        await world.pop()
        world.clock.advance(11)
    else:
        (claim,) = await start(world)
        if how == "lost":
            await world.store.report_loss([claim], "killed")
        elif how == "lease":
            world.clock.advance(LEASE_US / US)
        else:
            await world.store.hand_back([claim])
    assert names(await start(world)) == ["0-first"]


async def test_a_task_that_failed_waits_its_turn_again(world: World) -> None:
    await add(world, "first", "second")
    (claim,) = await start(world)
    await world.fail(claim)
    (second,) = await start(world)
    world.clock.advance(BACKOFF_US / US)
    await world.beat(second)
    assert await start(world) == []
    await world.finish(Outcome.SUCCEEDED, second)
    assert names(await start(world)) == ["0-first"]


async def test_one_that_waits_may_be_cancelled(world: World) -> None:
    await add(world, "a", "b", "c")
    (claim,) = await start(world)
    await world.store.cancel_tasks(["0-b"])
    await world.check()
    await world.finish(Outcome.SUCCEEDED, claim)
    assert names(await start(world)) == ["0-c"]


async def test_skip_cancels_what_finds_no_slot(world: World) -> None:
    await add(world, "a", "b", policy=SKIP)
    (claim,) = await start(world)
    record = await world.get("0-b")
    assert (record.status.name, record.error) == (
        "CANCELLED",
        "skipped: 1 of 1 tasks of its concurrency key were under way",
    )
    await world.fail(claim)
    await add(world, "c", policy=SKIP)
    (third,) = await start(world)
    world.clock.advance(BACKOFF_US / US)
    await world.beat(third)
    assert await start(world) == []  # it was let in once, and waits
    await world.finish(Outcome.SUCCEEDED, third)
    assert names(await start(world)) == ["0-a"]


async def test_cancel_running_stops_the_oldest_and_waits_for_that(world: World) -> None:
    await add(world, "a", "b", limit=2, policy=CANCEL_RUNNING)
    first, second = await start(world)
    world.clock.advance(1)
    await add(world, "c", limit=2, policy=CANCEL_RUNNING)
    assert await start(world) == []
    assert (await world.get("0-a")).cancel_requested
    assert not (await world.get("0-b")).cancel_requested
    await world.finish(Outcome.STOPPED, first)
    assert names(await start(world)) == ["0-c"]
    await world.finish(Outcome.SUCCEEDED, second)


async def test_cancel_running_keeps_the_newest_of_those_that_wait(world: World) -> None:
    await add(world, "a", policy=CANCEL_RUNNING)
    (first,) = await start(world)
    await add(world, "b", "c", "d", policy=CANCEL_RUNNING)
    assert await start(world) == []
    assert await world.statuses(["0-a", "0-b", "0-c", "0-d"]) == ["CLAIMED", "CANCELLED", "CANCELLED", "NEW"]
    await world.finish(Outcome.STOPPED, first)
    assert names(await start(world)) == ["0-d"]


async def test_cancel_running_cancels_at_once_what_has_not_started(world: World) -> None:
    await add(world, "a", policy=CANCEL_RUNNING)
    await world.passes()
    await add(world, "b", policy=CANCEL_RUNNING)
    await world.passes()
    await world.check()
    assert await world.statuses(["0-a", "0-b"]) == ["CANCELLED", "ENQUEUED"]


async def test_a_lower_limit_stops_nothing_and_waits(world: World) -> None:
    await add(world, "a", "b", "c", limit=3)
    claims = await start(world)
    await add(world, "d", limit=1)
    await add(world, "e", limit=3)
    for number in range(3):
        assert await start(world) == []
        await world.finish(Outcome.SUCCEEDED, claims[number])
    assert names(await start(world)) == ["0-d", "0-e"]


async def test_an_ordering_key_and_a_concurrency_key_together(world: World) -> None:
    """The order within the key holds, and so does the limit over both."""
    concurrency = keys.concurrency(LAMBDA, "anna", 1, QUEUE)
    for name, ordering in (("a1", "x"), ("a2", "x"), ("b1", "y")):
        await world.schedule(name, ordering_key=ordering, concurrency=concurrency)
    order = []
    while claims := await start(world):
        (claim,) = claims
        order += names(claims)
        await world.finish(Outcome.SUCCEEDED, claim)
    assert order == ["0-a1", "0-b1", "0-a2"]


async def test_what_waits_is_explained(world: World) -> None:
    await add(world, "a", "b", "c")
    await start(world)
    around = await world.store.explain_task("0-c")
    assert around is not None
    assert (around.slots_taken, around.before, around.record.concurrency) == (1, 1, f"{KEY} 1 0")


async def test_one_that_waits_for_very_long_keeps_its_place(world: World) -> None:
    await add(world, "a", "b", "c")
    await start(world)
    begun = world.clock.us
    for _ in range(2):
        world.clock.advance(2 * LINE_CHECK_US / US)
        await world.passes(believed_us=begun)
        around = [await world.store.explain_task(task_id) for task_id in ("0-b", "0-c")]
        assert [each.before for each in around if each] == [0, 1]


async def test_a_slot_of_a_task_whose_record_somebody_deleted_is_free_after_a_while(world: World) -> None:
    await add(world, "a", "b")
    await start(world)
    await world.store.link.command("DEL", "atf:{0}:t:0-a", key="atf:{0}")
    await world.passes()
    assert await world.pop() == []
    world.clock.advance(LINE_CHECK_US / US)
    await world.passes()
    assert await world.pop() == ["0-b"]


@pytest.mark.parametrize("when", ["waits", "due", "pushed"])
async def test_what_a_gate_keeps_has_neither_slot_nor_place(world: World, when: str) -> None:
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 100, ENQUEUE_TIMEOUT_US, paused=False)])
    concurrency = keys.concurrency(LAMBDA, "anna", 1, QUEUE)
    await world.schedule("first", concurrency=concurrency)
    (claim,) = await start(world)
    await world.schedule("w", labels=labelled(team="web"), concurrency=concurrency)
    world.clock.advance(0.001)
    await world.schedule("a", concurrency=concurrency)
    await world.passes()
    if when == "waits":
        await world.gate("pause", team="web")
        await world.finish(Outcome.SUCCEEDED, claim)
    elif when == "due":
        await world.finish(Outcome.SUCCEEDED, claim)
        await world.gate("pause", team="web")
    else:
        await world.finish(Outcome.SUCCEEDED, claim)
        await world.passes()
        await world.gate("pause", team="web")
        (popped,) = await world.pop()
        await claim_ids(world.store, "executor-1", "n", [popped])
    assert names(await start(world)) == ["0-a"]
    assert await world.statuses(["0-w"]) == ["NEW"]
    await world.lift("pause", team="web")
    await world.passes()
    await world.check()
    assert (await world.store.explain_task("0-w")).before == 0  # type: ignore[union-attr]


async def test_what_is_cancelled_in_the_pass_that_would_push_it_is_not_pushed(world: World) -> None:
    await add(world, "a")
    await add(world, "b", "c", policy=CANCEL_RUNNING)
    assert names(await start(world)) == ["0-c"]
    assert await world.statuses(["0-a", "0-b", "0-c"]) == ["CANCELLED", "CANCELLED", "CLAIMED"]


async def test_keys_for_which_tasks_wait_are_paged_over_all_partitions_whoever_s_they_are(world: World) -> None:
    for lambda_name, count in ((LAMBDA, 5), ("shop/mailing", 4)):
        for number in range(count):
            text = keys.concurrency(lambda_name, f"k{number}", 1, 0)
            tasks = [f"{lambda_name[-4:]}{number}-{each}" for each in range(3)]
            partition = world.store.partition_for(f"k{number}")
            await world.schedule(*tasks, concurrency=text, partition=partition, lambda_name=lambda_name)
    for partition in range(2):
        await world.passes(partition)
    found: list[SlotsRecord] = []
    token, pages = "", 0
    while token or not pages:
        page, token = await world.store.list_concurrency_keys(LAMBDA, 2, token)
        found, pages = found + page, pages + 1
    assert sorted(found) == [(f"k{number}", 1, 1, 2) for number in range(5)]
    assert pages >= 5, "keys of others are looked at, too"
    assert await world.store.get_concurrency_key(LAMBDA, "k0") == ("k0", 1, 1, 2)
    assert await world.store.get_concurrency_key(LAMBDA, "none") is None
