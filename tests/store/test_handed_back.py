"""Runs that are handed back, since an ordered stop cut them or they asked for it: they count nothing, and the task runs again."""

from __future__ import annotations

import pytest

from atf.store import keys
from atf.store.values.claims import HeldClaim, Outcome, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.task import MAX_WHY_CHARS, US, Status
from tests.claiming import claim_ids
from tests.store_calls import call_function

from .conftest import OpenStore
from .test_permits import limited
from .world import BACKOFF_US, ENQUEUE_TIMEOUT_US, LAMBDA, Clock, World, held

WAIT_US = 7 * US
QUEUED, SKIP, CANCEL_RUNNING = range(3)


async def hand_back(world: World, *claims: HeldClaim, wait_us: int = 0, why: str = "drained") -> list[Verdict]:
    return await world.finish(Outcome.HANDED_BACK, *claims, error=why, retry_in_us=wait_us, ran_us=US)


async def claim(world: World, *, started: bool = True) -> list[HeldClaim]:
    """Claims what stands in the queue by now."""
    await world.passes()
    ids = await world.pop()
    claims = held(await world.claim(*ids)) if ids else []
    if started:
        await world.beat(*claims)
    return claims


@pytest.mark.parametrize("started", [True, False])
async def test_a_run_that_is_handed_back_counts_nothing_however_often(world: World, started: bool) -> None:
    await world.schedule("a", max_attempts=1, max_losses=1)
    for number in range(20):
        (token,) = await claim(world, started=started)
        assert await hand_back(world, token) == [Verdict.OK]
        record = await world.get("0-a")
        assert (record.status, record.attempts, record.losses, record.runs) == (Status.ENQUEUED, 0, 0, number + 1)
        assert record.next_at_us == world.clock.us
        await world.check()
    record = await world.get("0-a")
    assert (record.ended_runs[-1].why, record.ended_runs[-1].attempt) == ("handed_back: drained", 1)
    assert record.owner == record.error == ""
    (token,) = await claim(world)
    await world.finish(Outcome.SUCCEEDED, token)
    record = await world.get("0-a")
    assert (record.status, record.attempts, record.losses, record.runs) == (Status.SUCCESS, 1, 0, 21)


async def test_it_runs_again_before_what_waits_in_its_queue(world: World) -> None:
    await world.schedule("a")
    (token,) = await claim(world)
    await world.schedule("b")
    await world.passes()
    await hand_back(world, token)
    await world.passes()
    assert await world.queued() == ["0-a", "0-b"]


async def test_attempts_and_losses_of_before_stay(world: World) -> None:
    await world.schedule("a")
    (token,) = await claim(world)
    await world.fail(token)
    world.clock.advance(BACKOFF_US / US)
    await world.store.report_loss(await claim(world), "killed")
    await hand_back(world, *(await claim(world)))
    record = await world.get("0-a")
    assert (record.attempts, record.losses, record.error) == (1, 1, "it rained")
    (given,) = await world.claim(*(await _pushed(world)))
    assert (given.attempt, given.losses, given.run) == (2, 1, 4)


async def _pushed(world: World) -> list[str]:
    await world.passes()
    return await world.pop()


async def test_the_same_report_again_is_answered_alike_until_the_next_claim(world: World) -> None:
    await world.schedule("a")
    (token,) = await claim(world)
    assert await hand_back(world, token, token) == [Verdict.OK, Verdict.OK]
    assert await hand_back(world, token, wait_us=WAIT_US) == [Verdict.OK]
    record = await world.get("0-a")
    assert (record.status, len(record.ended_runs)) == (Status.ENQUEUED, 1)
    await claim(world)
    assert await hand_back(world, token) == [Verdict.LOST]


@pytest.mark.parametrize("wait_us", [0, WAIT_US])
async def test_one_whose_cancellation_was_asked_for_is_cancelled(world: World, wait_us: int) -> None:
    await world.schedule("a")
    (token,) = await claim(world)
    await world.store.cancel_tasks(["0-a"])
    await hand_back(world, token, wait_us=wait_us)
    record = await world.get("0-a")
    assert (record.status, record.attempts, record.losses) == (Status.CANCELLED, 0, 0)
    await world.check()


async def test_why_is_one_line_of_bounded_length(world: World) -> None:
    await world.schedule("a", "b")
    first, second = await claim(world)
    await hand_back(world, first, why="out of\tspace\n\x1con\u2028disk " + "x" * 1000)
    await hand_back(world, second, why="")
    (run,) = (await world.get(first.task_id)).ended_runs
    assert run.why.startswith("handed_back: out of space on disk xxx")
    assert len(run.why) == len("handed_back: ") + MAX_WHY_CHARS
    assert [each.why for each in (await world.get(second.task_id)).ended_runs] == ["handed_back"]


# --- with a wait ------------------------------------------------------------------------------------------------------


async def test_with_a_wait_it_does_not_run_before(world: World) -> None:
    await world.schedule("a")
    (token,) = await claim(world)
    await hand_back(world, token, wait_us=WAIT_US)
    record = await world.get("0-a")
    assert (record.status, record.next_at_us) == (Status.NEW, world.clock.us + WAIT_US)
    late = await claim_ids(world.store, "executor-2", "a late copy", ["0-a"])
    assert late.lost == ["0-a"]
    world.clock.advance((WAIT_US - 1) / US)
    assert await claim(world) == []
    world.clock.us += 1
    assert [each.task_id for each in await claim(world)] == ["0-a"]
    record = await world.get("0-a")
    assert (record.attempts, record.losses, record.runs, record.scheduled_at_us) == (0, 0, 2, world.clock.us - WAIT_US)


async def test_a_later_one_of_its_ordering_key_does_not_overtake_it(world: World) -> None:
    await world.schedule("a", "b", ordering_key="key")
    for wait_us in (0, WAIT_US):
        (token,) = await claim(world)
        assert token.task_id == "0-a"
        await hand_back(world, token, wait_us=wait_us)
        await world.check()
        world.clock.advance(wait_us / US)
    (token,) = await claim(world)
    await world.finish(Outcome.SUCCEEDED, token)
    assert [each.task_id for each in await claim(world)] == ["0-b"]


@pytest.mark.parametrize("policy", [QUEUED, SKIP, CANCEL_RUNNING])
async def test_it_keeps_its_slot_at_once_and_lets_go_of_it_for_a_wait(world: World, policy: int) -> None:
    await world.schedule("a", concurrency=keys.concurrency(LAMBDA, "anna", 1, policy))
    (token,) = await claim(world)
    await hand_back(world, token)
    (token,) = await claim(world)
    await hand_back(world, token, wait_us=WAIT_US)
    await world.schedule("b", concurrency=keys.concurrency(LAMBDA, "anna", 1, QUEUED))
    (other,) = await claim(world)
    assert other.task_id == "0-b"
    world.clock.advance(WAIT_US / US)
    assert await claim(world) == []
    await world.check()
    assert (
        await world.get("0-a")
    ).status is Status.NEW  # it was let in once: it waits in line, whatever the policy says
    await world.finish(Outcome.SUCCEEDED, *([] if policy == CANCEL_RUNNING else [other]))
    if policy == CANCEL_RUNNING:
        await world.finish(Outcome.STOPPED, other)
    assert [each.task_id for each in await claim(world)] == ["0-a"]
    await world.check()


async def test_it_keeps_its_permit_at_once_and_lets_go_of_it_for_a_wait(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=1")
    await world.schedule("a", "b")
    (token,) = await claim(world)
    await hand_back(world, token)
    (token,) = await claim(world)
    assert token.task_id == "0-a"
    await hand_back(world, token, wait_us=WAIT_US)
    (other,) = await claim(world)
    assert other.task_id == "0-b"
    world.clock.advance(WAIT_US / US)
    assert await claim(world) == []
    await world.finish(Outcome.SUCCEEDED, other)
    assert [each.task_id for each in await claim(world)] == ["0-a"]
    await world.check()


async def test_what_counts_nothing_says_nothing_of_its_lambda(world: World) -> None:
    """Else a deploy could keep an automatic gate open, or close it."""
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 99, ENQUEUE_TIMEOUT_US, False, "fatal=0.5")])
    await world.schedule(*(f"t{number}" for number in range(6)))
    for _ in range(5):
        await hand_back(world, *(await claim(world)))
    claims = await claim(world)
    await world.finish(Outcome.FAILED_FATAL, *claims[:2])
    await world.finish(Outcome.SUCCEEDED, *claims[2:])
    assert (await call_function(world.store, "judge", 0, [LAMBDA]))[:2] == [6, 2]
