"""The tasks of a job in the store: a deletion ends them, a pause keeps them until the job goes on, and they are known for as long as they live."""

from __future__ import annotations

from typing import Any, Final

import pytest

from atf.store.library import JOB_ENDS_US, TICKS_PER_CALL
from atf.store.values.claims import Outcome, Verdict
from atf.store.values.explained import ExplainedTask
from atf.store.values.jobs import JobAnswer, MadeJob, ReplaceJob
from atf.task import US, Status
from tests.claiming import claim_ids

from .test_jobs import DAY_US, NAME, due, ends, job, known, make, tick
from .world import BACKOFF_US, EPOCH_US, LAMBDA, World, dump, held

TASK: Final = "0-tick-1"


async def ticks(world: World, *names: str, next_us: int | None = None, late_us: int = 0, **of_job: str) -> None:
    """Makes the job, and has it tick, once for each name; its last tick may end it."""
    await make(world, job(**of_job))  # type: ignore[arg-type]
    world.clock.advance(2)
    (one,) = await due(world)
    made = []
    for place, name in enumerate(names or ("tick-1",), 1):
        due_us = one.due_us + place - 1
        each = tick(one._replace(due_us=due_us), next_us=next_us if place >= len(names) else due_us + 1, make=name)
        assert each.task is not None
        made.append(each._replace(task=each.task._replace(at_us=due_us + late_us)))
    assert all(await world.store.tick(0, made))


async def status(world: World, task_id: str = TASK) -> str:
    return (await world.get(task_id)).status.name


async def nobody_claims(world: World, *ids: str) -> None:
    answer = await claim_ids(world.store, "executor-1", "nonce", ids)
    assert (answer.claims, answer.lost) == ([], list(ids))


async def nobody_runs(world: World) -> None:
    await world.passes()
    if ids := await world.pop():
        await nobody_claims(world, *ids)


async def explained(world: World, task_id: str = TASK) -> ExplainedTask:
    found = await world.store.explain_task(task_id)
    assert found is not None
    return found


async def waits(world: World, how: str) -> None:
    """Brings the job's only tick to where it waits."""
    await ticks(world, late_us=DAY_US if how == "jitter" else 0, next_us=None if how == "ended" else EPOCH_US + DAY_US)
    if how == "queued":
        await world.passes()
    elif how == "popped":
        await world.passes()
        assert await world.pop() == [TASK]
    elif how == "retry":
        await world.passes()
        await world.pop()
        assert await world.fail(*held(await world.claim(TASK))) == [Verdict.OK]
    elif how == "lost":
        await world.passes()
        await world.pop()
        await world.store.report_loss(held(await world.claim(TASK)), "killed")


WAITING: Final = ("jitter", "due", "queued", "popped", "retry", "lost", "ended")


@pytest.mark.parametrize("how", WAITING)
async def test_a_deletion_cancels_a_tick_that_waits(world: World, how: str) -> None:
    await waits(world, how)
    assert await world.store.delete_jobs([NAME, "shop/none"]) == [True, False]
    assert await status(world) == "CANCELLED"
    await nobody_claims(world, TASK)  # an id that stands in a queue, or was popped
    world.clock.advance(DAY_US / US + 1)
    await nobody_runs(world)
    assert await world.store.delete_jobs([NAME]) == [False]
    found = await world.check()
    assert not [key for key in found.data if ":j:" in key or ":ticks:" in key or ":ticking" in key]


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("end", ["succeed", "fail", "fatal", "lose", "hand back", "expire"])
async def test_a_tick_that_runs_has_no_run_after_its_job_was_deleted(world: World, end: str, started: bool) -> None:
    await ticks(world, next_us=EPOCH_US + DAY_US)
    await world.passes()
    await world.pop()
    claims = held(await world.claim(TASK))
    await world.beat(*claims, started=started)
    assert await world.store.delete_jobs([NAME]) == [True]
    assert await world.beat(*claims, started=started) == [Verdict.OK], "nobody asks it to stop"
    assert not (await world.get(TASK)).cancel_requested
    await world.check()
    if end == "succeed":
        await world.finish(Outcome.SUCCEEDED, *claims)
    elif end in {"fail", "fatal"}:
        await world.finish(Outcome.FAILED if end == "fail" else Outcome.FAILED_FATAL, *claims, error="no")
    elif end == "lose":
        await world.store.report_loss(claims, "killed")
    elif end == "hand back":
        if started:
            return  # that has no such end
        await world.store.hand_back(claims)
    else:
        world.clock.advance(17)
        await world.passes()
    assert await status(world) == ("SUCCESS" if end == "succeed" else "CANCELLED")
    found = await world.check()
    assert not [key for key in found.data if ":j:" in key or ":ticks:" in key or ":ticking" in key]


async def test_whoever_is_to_stop_a_run_is_still_told_so_after_the_job_was_deleted(world: World) -> None:
    await ticks(world)
    await world.passes()
    await world.pop()
    claims = held(await world.claim(TASK))
    await world.store.cancel_tasks([TASK])
    await world.store.delete_jobs([NAME])
    assert await world.beat(*claims) == [Verdict.CANCEL]


async def test_a_tick_that_is_retried_by_hand_is_a_task_of_its_own(world: World) -> None:
    await waits(world, "jitter")
    await world.store.pause_job(NAME)
    await world.store.delete_jobs([NAME])
    await world.store.retry_tasks([TASK])
    await world.check()
    await ends(world)
    assert await status(world) == "SUCCESS"


async def test_a_deletion_of_many_tasks_takes_several_calls_and_is_done_when_it_answers(world: World) -> None:
    names = [f"t{number}" for number in range(2 * TICKS_PER_CALL + 10)]
    await ticks(world, *names, overlap="allow", next_us=EPOCH_US + DAY_US)
    calls = 0
    direct = world.store.link.call

    async def call(verb: str, *args: object, **more: object) -> object:
        nonlocal calls
        calls += verb == "delete_jobs"
        if verb == "delete_jobs" and calls == 2:
            assert (await known(world)).next_us, "until all are cancelled it is there, and can be deleted again"
        return await direct(verb, *args, **more)  # type: ignore[arg-type]

    world.store.link.call = call  # type: ignore[method-assign]
    assert await world.store.delete_jobs([NAME]) == [True]
    assert calls == 3
    assert (await world.store.counts(LAMBDA))[Status.CANCELLED] == len(names)
    await world.check()


async def test_jobs_that_are_made_anew_cancel_no_more_in_one_call_than_a_deletion_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ticks(world, *(f"t{number}" for number in range(TICKS_PER_CALL)), overlap="allow")
    other = next(name for number in range(99) if not world.store.job_partition(name := f"shop/other{number}"))
    await make(world, job(other))
    await world.store.run_job_now(other, world.task("beside"))
    direct, cancelled = world.store.link.call, []

    async def call(verb: str, *args: Any, **more: Any) -> Any:
        answer = await direct(verb, *args, **more)
        cancelled.append((await world.store.counts(LAMBDA))[Status.CANCELLED] if verb == "schedule_jobs" else -1)
        return answer

    monkeypatch.setattr(world.store.link, "call", call)
    anew = [job(name, replace=ReplaceJob.ANEW, first_us=world.clock()) for name in (NAME, other)]
    answers = await world.store.schedule_jobs(anew)
    assert [each.made for each in answers if isinstance(each, MadeJob)] == [JobAnswer.MADE, JobAnswer.REPLACED]
    assert [each for each in cancelled if each >= 0] == [TICKS_PER_CALL, TICKS_PER_CALL + 1]
    await world.check()


async def test_a_job_with_very_many_tasks_is_made_anew_by_as_many_calls_as_it_takes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([[[JobAnswer.NOT_YET, 0, b"0"]]] * 2_000)
    direct = world.store.link.call

    async def call(*args: Any, **more: Any) -> Any:
        return next(answers, None) or await direct(*args, **more)

    monkeypatch.setattr(world.store.link, "call", call)
    assert (await make(world, job(replace=ReplaceJob.ANEW))).made is JobAnswer.MADE


@pytest.mark.parametrize("how", WAITING)
async def test_a_pause_keeps_a_tick_that_waits_until_the_job_goes_on(world: World, how: str) -> None:
    await waits(world, how)
    assert (await world.store.pause_job(NAME)).found
    assert (await world.store.pause_job(NAME)).found, "again"
    record = await world.get(TASK)
    assert (record.status.name, record.held, record.next_at_us) == (
        "RETRIABLE_FAILURE" if how == "retry" else "NEW",
        True,
        0,
    )
    await world.check()
    await nobody_claims(world, TASK)
    world.clock.advance(2 * DAY_US / US)
    await nobody_runs(world)

    assert (await world.store.resume_job(NAME)).found
    assert not (await world.get(TASK)).held
    await world.check()
    await ends(world)
    assert await status(world) == "SUCCESS"


async def test_a_tick_that_goes_on_is_not_due_before_it_would_have_been(world: World) -> None:
    await waits(world, "jitter")
    due_us = (await world.get(TASK)).next_at_us
    await world.store.pause_job(NAME)
    await world.store.resume_job(NAME)
    found = await world.get(TASK)
    assert (found.next_at_us, found.waited) == (due_us, f"g{world.clock.us}")
    assert await world.passes() == (0, 0, 0)


async def test_ticks_that_stood_in_a_queue_go_on_in_their_order(world: World) -> None:
    names = ["t9", "t1", "t5", "t0"]
    await ticks(world, *names, overlap="allow", next_us=EPOCH_US + DAY_US)
    await world.passes()
    stood = await world.pop()
    await world.store.pause_job(NAME)
    await world.store.resume_job(NAME)
    await world.passes()
    assert await world.pop() == stood == [f"0-{each}" for each in names]
    await world.check()


@pytest.mark.parametrize("end", ["fail", "lose", "hand back", "expire"])
async def test_a_run_that_has_begun_goes_on_in_a_pause_and_its_retry_waits(world: World, end: str) -> None:
    await ticks(world, next_us=EPOCH_US + DAY_US)
    await world.passes()
    await world.pop()
    claims = held(await world.claim(TASK))
    await world.beat(*claims, started=end != "hand back")
    await world.store.pause_job(NAME)
    assert await status(world) == ("CLAIMED" if end == "hand back" else "PROCESSING")
    await world.check()
    if end == "fail":
        await world.fail(*claims)
    elif end == "lose":
        await world.store.report_loss(claims, "killed")
    elif end == "hand back":
        await world.store.hand_back(claims)
    else:
        world.clock.advance(17)
        await world.passes()
    assert (await world.get(TASK)).held
    await world.check()
    world.clock.advance(BACKOFF_US / US)
    assert await world.passes() == (0, 0, 0)
    await world.store.resume_job(NAME)
    await world.check()
    await ends(world)
    assert await status(world) == "SUCCESS"


async def test_a_deletion_cancels_what_a_pause_keeps(world: World) -> None:
    await waits(world, "queued")
    await world.store.pause_job(NAME)
    assert await world.store.delete_jobs([NAME]) == [True]
    assert await status(world) == "CANCELLED"
    await world.check()


async def test_many_ticks_are_kept_and_let_go_on_by_several_calls(world: World) -> None:
    names = [f"t{number}" for number in range(TICKS_PER_CALL + 10)]
    await ticks(world, *names, overlap="allow", next_us=EPOCH_US + DAY_US)
    assert await world.store.pause_job(NAME) == (True, len(names))
    assert all([(await world.get(f"0-{name}")).held for name in names])
    await world.check()
    assert await world.store.resume_job(NAME) == (True, len(names))
    assert not any([(await world.get(f"0-{name}")).held for name in names])
    await world.check()


async def test_a_pause_and_a_gate_each_keep_a_tick_for_themselves(world: World) -> None:
    await ticks(world)
    gate = await world.gate("delay", 5 * US)
    await world.passes()
    assert (await explained(world)).gate == gate
    await world.store.pause_job(NAME)
    await world.lift("delay")
    await world.passes()
    assert (await world.get(TASK)).held
    await world.check()
    await world.store.resume_job(NAME)
    await world.check()
    await ends(world)

    await make(world, job(first_us=world.clock(), rhythm="more"))
    gate = await world.gate("delay", 5 * US)
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, make="two")])
    await world.passes()
    await world.store.pause_job(NAME)
    await world.store.resume_job(NAME)
    assert (await explained(world, "0-two")).gate == gate, "it still waits for its gate"
    await world.check()
    world.clock.advance(5)
    await world.passes()
    await ends(world, "0-two")


async def test_a_job_that_has_ended_is_paused_and_deleted_for_as_long_as_it_has_live_ticks(world: World) -> None:
    await ticks(world, late_us=3 * DAY_US)
    assert (await known(world)).next_us is None
    world.clock.advance(DAY_US / US + 1)
    await world.store.sweep(0, 1_000_000)
    assert await known(world), "its record waits for its tick"
    assert (await world.store.pause_job(NAME)).found
    assert (await world.get(TASK)).held
    await world.store.resume_job(NAME)
    world.clock.advance(2 * DAY_US / US)
    await ends(world)
    assert not (await world.store.pause_job(NAME)).found
    world.clock.advance(JOB_ENDS_US / US)
    await world.store.sweep(0, 1_000_000)
    assert await world.store.get_jobs([NAME]) == [None]


async def test_a_new_job_stays_paused_while_a_tick_of_the_one_before_is_kept(world: World) -> None:
    await waits(world, "ended")
    await world.store.pause_job(NAME)
    await make(world, job(first_us=world.clock() + US))
    assert (await known(world)).paused
    await world.check()
    await world.store.resume_job(NAME)
    assert not (await known(world)).paused
    await ends(world)


async def test_jobs_are_listed_by_their_live_tasks_also_when_they_have_ended(world: World) -> None:
    await ticks(world)
    assert await world.store.list_jobs("shop/", 0, "", 9) == []
    assert await world.store.list_jobs("shop/", 0, "", 9, with_tasks=True) == [NAME]
    await ends(world)
    assert await world.store.list_jobs("shop/", 0, "", 9, with_tasks=True) == []


@pytest.mark.parametrize("overlap", ["queue", "skip", "cancel_running", "allow"])
async def test_the_ticks_of_a_new_job_count_the_run_of_the_one_that_was_deleted(world: World, overlap: str) -> None:
    await ticks(world, next_us=EPOCH_US + DAY_US)
    await world.passes()
    await world.pop()
    claims = held(await world.claim(TASK))
    await world.store.delete_jobs([NAME])
    await make(world, job(overlap=overlap, first_us=world.clock()))
    told = await due(world)
    assert [each.running for each in told] == ([] if overlap == "queue" else [TASK])
    await world.check()
    await world.finish(Outcome.SUCCEEDED, *claims)
    if overlap == "queue":
        (one,) = await due(world)
        assert one.running == ""
    assert (await known(world)).running == ""


async def test_a_tick_waits_for_all_that_run_not_for_the_newest_alone(world: World) -> None:
    await ticks(world, "a", "b", overlap="allow", next_us=EPOCH_US + DAY_US)
    await make(world, job(replace=ReplaceJob.GO_ON, first_us=world.clock(), rhythm="other"))
    assert await due(world) == []
    await world.store.cancel_tasks(["0-b"])
    assert await due(world) == []
    await world.store.cancel_tasks(["0-a"])
    assert [each.running for each in await due(world)] == [""]


async def test_of_several_that_run_each_is_cancelled_as_soon_as_the_one_before_has_ended(world: World) -> None:
    await ticks(world, "a", "b", overlap="allow", next_us=EPOCH_US + DAY_US)
    await make(world, job(replace=ReplaceJob.GO_ON, overlap="cancel_running", first_us=world.clock(), rhythm="other"))
    for task_id in ("0-a", "0-b"):
        assert [each.running for each in await due(world)] == [task_id]
        await world.store.cancel_tasks([task_id])
    assert [each.running for each in await due(world)] == [""]


async def test_a_task_made_beside_the_ticks_is_the_job_s_but_none_of_its_ticks(world: World) -> None:
    await make(world, job())
    beside = world.task("beside", digest=b"d")
    made = await world.store.run_job_now(NAME, beside)
    assert made is not None
    assert (made.id, made.new) == ("0-beside", True)
    again = await world.store.run_job_now(NAME, beside)
    assert again is not None
    assert (again.existed, again.conflict) == (True, False)
    other = await world.store.run_job_now(NAME, beside._replace(digest=b"e"))
    assert other is not None
    assert other.conflict
    assert [each.running for each in await due(world)] == [""], "no tick waits for it"
    await world.store.pause_job(NAME)
    assert not (await world.get("0-beside")).held, "somebody asked for it"
    await world.check()
    await world.store.delete_jobs([NAME])
    assert await status(world, "0-beside") == "CANCELLED"
    assert await world.store.run_job_now(NAME, world.task("late")) is None
    await world.check()


async def test_the_end_of_a_task_made_beside_the_ticks_is_no_tick_s_end(world: World) -> None:
    """Else the time until then would not count for the grace of the ticks that were missed."""
    await make(world, job(first_us=world.clock() + US))
    await world.store.run_job_now(NAME, world.task("beside"))
    await ends(world, "0-beside")
    await world.check()
    world.clock.advance(1)
    assert [each.ended_us for each in await due(world)] == [0]


async def test_a_task_made_beside_the_ticks_that_runs_has_no_further_run_after_a_deletion(world: World) -> None:
    await make(world, job())
    await world.store.run_job_now(NAME, world.task("beside"))
    await world.passes()
    await world.pop()
    claims = held(await world.claim("0-beside"))
    await world.store.delete_jobs([NAME])
    await world.check()
    await world.fail(*claims)
    assert await status(world, "0-beside") == "CANCELLED"
    assert not [key for key in (await dump(world.store)).data if ":ticks:" in key or ":ticking" in key]


async def test_a_name_that_looks_like_a_task_s_key_does_not_hide_tasks_while_it_ticks(world: World) -> None:
    name = "shop/a}:t:x"
    partition = world.store.job_partition(name)
    await make(world, job(name))
    (one,) = (await world.store.enqueue(partition, 0)).jobs
    made = world.task("a", partition=partition, at_us=one.due_us)
    assert await world.store.tick(partition, [tick(one, make="")._replace(tick_us=one.due_us, task=made)]) == [True]
    found, cursor = [], ""
    while True:
        cursor, records = await world.store.scan(cursor)
        found += [record.id for record in records]
        if not cursor:
            break
    assert found == [f"{partition}-a"]
