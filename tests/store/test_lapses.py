"""Leases that expire and count nothing: of executors that had said that they drain, and of runs that had not said that they started."""

from __future__ import annotations

from typing import Any

import pytest

from atf.store.backup import exporting
from atf.store.backup.importing import import_tasks
from atf.store.values.claims import HeldClaim, Outcome, Verdict
from atf.store.values.tasks import TaskRecord
from atf.task import DEFAULT_MAX_LOSSES, US, Status

from .conftest import OpenStore
from .world import BACKOFF_US, Clock, World, held

LEASE_S = 16
DRAINED = "lost: lease expired while its executor drained"
UNSTARTED = "lost: lease expired before the run said that it started"


async def claim(world: World) -> list[HeldClaim]:
    await world.passes()
    ids = await world.pop()
    return held(await world.claim(*ids)) if ids else []


async def end_leases(world: World) -> None:
    world.clock.advance(LEASE_S)
    await world.passes()
    await world.check()


async def lapse(world: World, times: int = 1, *, started: bool = True, draining: bool = False) -> TaskRecord:
    """The task is claimed and its lease ends, so often in a row."""
    for _ in range(times):
        claims = held(await world.claim(*(await world.pop())))
        if started or draining:
            await world.beat(*claims, started=started, draining=draining)
        await end_leases(world)
    return await world.get("0-a")


async def begin(world: World, **options: Any) -> None:
    await world.schedule("a", **options)
    await world.passes()


async def alone(world: World) -> bool:
    (claim,) = await world.claim(*(await world.pop()))
    await world.store.hand_back(held([claim]))
    await world.passes()
    return claim.alone


# --- of executors that drain ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [True, False])
async def test_the_end_of_a_marked_lease_counts_nothing_three_times_in_a_row(world: World, started: bool) -> None:
    await begin(world)
    record = await lapse(world, 3, started=started, draining=True)
    assert (record.status, record.losses, record.attempts, record.runs) == (Status.ENQUEUED, 0, 0, 3)
    assert [each.why for each in record.ended_runs] == [f"{DRAINED} (not counted)"] * 3
    record = await lapse(world, started=started, draining=True)
    assert (record.losses, record.ended_runs[-1].why) == (1, DRAINED)
    assert not await alone(world)
    record = await lapse(world, 3, started=started, draining=True)
    assert record.losses == 1, "the row begins anew"


async def test_the_fourth_ends_a_task_that_has_no_losses_left(world: World) -> None:
    await begin(world, max_losses=1)
    record = await lapse(world, 3, draining=True)
    assert (record.status, record.losses) == (Status.ENQUEUED, 0)
    record = await lapse(world, draining=True)
    assert (record.status, record.losses) == (Status.FATAL_FAILURE, 1)
    assert record.error == "lost with its executor 1 times; last: lease expired while its executor drained"


@pytest.mark.parametrize("end", ["fail", "hand back", "put off", "loss", "shared loss", "reported loss", "retry"])
async def test_any_run_that_ends_otherwise_begins_the_row_anew(world: World, end: str) -> None:
    await begin(world, max_losses=9)
    await lapse(world, started=True)
    await lapse(world, 3, draining=True)
    (token,) = await claim(world)
    await world.beat(token)
    match end:
        case "fail":
            await world.fail(token)
        case "hand back":
            await world.finish(Outcome.HANDED_BACK, token)
        case "put off":
            await world.finish(Outcome.HANDED_BACK, token, retry_in_us=BACKOFF_US)
        case "loss":
            await end_leases(world)
        case "shared loss":
            await world.store.report_loss([token], "killed", shared=True)
        case "reported loss":
            await world.store.report_loss([token], "killed")
        case "retry":
            await world.finish(Outcome.FAILED_FATAL, token)
            await world.store.retry_tasks(["0-a"])
    world.clock.advance(BACKOFF_US / US)
    await world.passes()
    before = (await world.get("0-a")).losses
    assert (await lapse(world, 3, draining=True)).losses == before
    assert (await lapse(world, draining=True)).losses == before + 1


async def test_a_claim_that_is_handed_back_is_no_run_and_leaves_the_row_as_it_is(world: World) -> None:
    await begin(world)
    await lapse(world, 3, draining=True)
    assert not await alone(world)  # claims it and hands it back
    assert (await lapse(world, draining=True)).losses == 1


async def test_the_mark_is_the_claims_and_the_next_one_has_none(world: World) -> None:
    await begin(world)
    await lapse(world, draining=True)
    record = await lapse(world)
    assert (record.losses, record.ended_runs[-1].why) == (1, "lost: lease expired")


async def test_a_later_heartbeat_without_the_word_leaves_the_mark(world: World) -> None:
    """A late copy of one that was sent before the drain began."""
    await begin(world)
    (token,) = await world.claim(*(await world.pop()))
    await world.beat(*held([token]), draining=True)
    await world.beat(*held([token]))
    await end_leases(world)
    assert (await world.get("0-a")).losses == 0


async def test_who_holds_an_old_token_marks_nothing(world: World) -> None:
    await begin(world)
    (old,) = held(await world.claim(*(await world.pop())))
    await world.store.hand_back([old])
    (new,) = await claim(world)
    await world.beat(new)
    assert await world.beat(old, draining=True) == [Verdict.LOST]
    await end_leases(world)
    assert (await world.get("0-a")).losses == 1


async def test_a_crash_in_a_drain_is_a_loss(world: World) -> None:
    await begin(world)
    claims = held(await world.claim(*(await world.pop())))
    await world.beat(*claims, draining=True)
    await world.store.report_loss(claims, "killed by SIGSEGV")
    record = await world.get("0-a")
    assert (record.losses, record.ended_runs[-1].why) == (1, "lost: killed by SIGSEGV")


async def test_one_whose_cancellation_was_asked_for_is_cancelled_without_a_loss(world: World) -> None:
    await begin(world)
    claims = held(await world.claim(*(await world.pop())))
    await world.beat(*claims, draining=True)
    await world.store.cancel_tasks(["0-a"])
    await end_leases(world)
    record = await world.get("0-a")
    assert (record.status, record.losses) == (Status.CANCELLED, 0)


# --- of runs that never said that they started ------------------------------------------------------------------------


async def test_the_third_end_in_a_row_before_the_start_is_a_loss_and_the_task_runs_alone(world: World) -> None:
    await begin(world)
    record = await lapse(world, 2, started=False)
    assert (record.status, record.losses, record.runs) == (Status.ENQUEUED, 0, 2)
    assert [each.why for each in record.ended_runs] == [f"{UNSTARTED} (not counted)"] * 2
    assert not await alone(world)
    record = await lapse(world, started=False)
    assert (record.losses, record.ended_runs[-1].why) == (1, UNSTARTED)
    assert await alone(world)


async def test_a_task_that_takes_its_host_along_each_time_ends_as_a_dead_letter(world: World) -> None:
    await begin(world, max_losses=DEFAULT_MAX_LOSSES)
    hosts = 0
    while (await world.get("0-a")).status is not Status.FATAL_FAILURE:
        await lapse(world, started=False)
        hosts += 1
    assert hosts == 3 * DEFAULT_MAX_LOSSES


@pytest.mark.parametrize("draining", [True, False])
async def test_a_run_that_starts_begins_the_row_anew(world: World, draining: bool) -> None:
    await begin(world, max_losses=9)
    await lapse(world, 2, started=False)
    before = (await lapse(world, started=True, draining=draining)).losses
    assert (await lapse(world, 2, started=False)).losses == before
    assert (await lapse(world, started=False)).losses == before + 1


async def test_what_two_causes_take_turns_to_end_is_a_loss_in_the_end(world: World) -> None:
    """Neither begins the other's row anew, or a task could be lost for ever without counting anything."""
    await begin(world)
    for _ in range(2):
        await lapse(world, started=False)
        await lapse(world, started=False, draining=True)
    assert (await world.get("0-a")).losses == 0
    assert (await lapse(world, started=False)).losses == 1


async def test_a_reported_loss_of_a_claim_that_has_not_said_that_it_started_counts_at_once(world: World) -> None:
    """The guard knows that it had, and that it crashed: a poison task never gets that far."""
    await begin(world)
    await world.store.report_loss(held(await world.claim(*(await world.pop()))), "killed by SIGKILL")
    assert (await world.get("0-a")).losses == 1


async def test_rows_and_being_alone_go_along_with_an_export(
    open_store: OpenStore, world: World, clock: Clock, tmp_path: Any
) -> None:
    await begin(world)
    await lapse(world, 3, started=False)
    await lapse(world, 2, started=False)
    await lapse(world, 3, started=False, draining=True)
    file = tmp_path / "tasks.jsonl"
    await exporting.export_tasks(world.store, file)
    for partition in range(world.store.partitions):
        await world.store.link.command("FLUSHALL", key=f"atf:{{{partition}}}")
    other = World(await open_store(1), clock)
    await import_tasks(other.store, file)
    clock.advance(LEASE_S)
    await other.passes()
    assert await alone(other)
    assert (await lapse(other, started=False)).losses == 2
