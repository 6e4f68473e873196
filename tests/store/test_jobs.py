"""Jobs in the store: a tick makes one task however often it is tried, waits for the one before where it should, and is looked at in time."""

from __future__ import annotations

from typing import Any, cast

import pytest

from atf.errors import Unavailable
from atf.store import keys
from atf.store.library import JOB_RETRY_US, JOB_WAIT_US, JOBS_PER_PASS
from atf.store.values.claims import Outcome
from atf.store.values.jobs import DueJob, JobAnswer, JobRecord, MadeJob, NewJob, ReplaceJob, Tick
from atf.store.values.tasks import NewTask
from atf.task import DEFAULT_RETENTION_US, US, Status

from .world import EPOCH_US, LAMBDA, World, dump, held

DAY_US = 86_400 * US
NAME = "shop/nightly"  # of partition 0


def job(name: str = NAME, *, overlap: str = "queue", first_us: int = EPOCH_US, **more: Any) -> NewJob:
    request_id, replace = more.pop("request_id", ""), more.pop("replace", ReplaceJob.NOT)
    rhythm = more.pop("rhythm", f"from {first_us}")
    return NewJob(name, request_id, replace, b"spec", overlap, first_us, EPOCH_US, rhythm, **more)


def task(name: str = "tick-1") -> NewTask:
    return NewTask(name, 0, LAMBDA, 1, b"task", b"", None, 0, 3, 3, DEFAULT_RETENTION_US)


def tick(due: DueJob, *, next_us: int | None = EPOCH_US + DAY_US, make: str = "tick-1", **more: Any) -> Tick:
    made = task(make)._replace(at_us=due.due_us) if make else None
    passed, why = more.get("passed", 0), more.get("why", "")
    return Tick(due.name, due.generation, due.due_us, next_us, passed, why, DAY_US, due.due_us, made)


async def make(world: World, asked: NewJob) -> MadeJob:
    (made,) = await world.store.schedule_jobs([asked])
    assert isinstance(made, MadeJob)
    return made


async def known(world: World) -> JobRecord:
    (record,) = await world.store.get_jobs([NAME])
    assert record is not None
    return record


async def due(world: World) -> list[DueJob]:
    return (await world.store.enqueue(0, 0)).jobs


async def ends(world: World, task_id: str = "0-tick-1", outcome: Outcome = Outcome.SUCCEEDED) -> None:
    await world.passes()
    assert await world.pop() == [task_id]
    assert await world.finish(outcome, *held(await world.claim(task_id)))


async def test_a_tick_becomes_a_task_at_its_instant_and_the_job_goes_on(world: World) -> None:
    assert await make(world, job(first_us=EPOCH_US + 5 * US)) == (JobAnswer.MADE, 1, EPOCH_US)
    early = await world.store.enqueue(0, 0)
    assert (early.jobs, early.next_in_us) == ([], 5 * US)

    world.clock.advance(5)
    (one,) = await due(world)
    assert one == DueJob(NAME, 1, EPOCH_US + 5 * US, 0, "", 0, EPOCH_US, b"spec")
    assert await world.store.tick(0, [tick(one)]) == [True]

    record = await world.get("0-tick-1")
    assert (record.status.name, record.scheduled_at_us, record.spec) == ("NEW", EPOCH_US + 5 * US, b"task")
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert (known.ticks, known.next_us, known.last_us) == (1, EPOCH_US + DAY_US, EPOCH_US + 5 * US)
    assert (known.last_task, known.running, known.last_outcome) == ("0-tick-1", "0-tick-1", "")
    await world.check()

    await ends(world)
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert (known.running, known.last_outcome) == ("", "SUCCESS")
    await world.check()


async def test_of_two_consumers_one_makes_the_task(world: World) -> None:
    await make(world, job())
    (one,) = await due(world)
    assert await world.store.tick(0, [tick(one)]) == [True]
    assert await world.store.tick(0, [tick(one)]) == [False]
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert known.ticks == 1


async def test_a_tick_that_nobody_dealt_with_is_told_of_again(world: World) -> None:
    await make(world, job())
    (one,) = await due(world)
    assert await due(world) == []
    world.clock.advance(JOB_RETRY_US / US)
    assert await due(world) == [one]


async def test_a_replaced_job_makes_no_more_ticks_of_the_old_one(world: World) -> None:
    await make(world, job())
    (old,) = await due(world)
    assert (await make(world, job(replace=ReplaceJob.GO_ON)))[:2] == (JobAnswer.REPLACED, 2)
    assert await world.store.tick(0, [tick(old)]) == [False]
    (new,) = await due(world)
    assert (new.generation, new.ticks) == (2, 0)


async def test_a_name_is_taken_once_and_a_repeated_request_finds_its_job(world: World) -> None:
    assert (await make(world, job(request_id="r1")))[:2] == (JobAnswer.MADE, 1)
    assert (await make(world, job(request_id="r1")))[:2] == (JobAnswer.BEFORE, 1)
    assert (await make(world, job(request_id="r2")))[:2] == (JobAnswer.TAKEN, 1)
    assert (await make(world, job()))[:2] == (JobAnswer.TAKEN, 1)


async def test_many_jobs_are_made_by_one_call_of_each_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(world, job("shop/taken"))
    called: list[str] = []
    direct = world.store.link.call

    async def call(verb: str, record: str, args: Any, **more: Any) -> Any:
        called.append(record)
        return await direct(verb, record, args, **more)

    monkeypatch.setattr(world.store.link, "call", call)
    names = ["shop/taken", "shop/twice", *(f"shop/{number}" for number in range(8)), "shop/twice"]
    answers = await world.store.schedule_jobs([job(name) for name in names])
    assert sorted(called) == [keys.record(0), keys.record(1)]
    taken = [name for name, each in zip(names, answers, strict=True) if cast("MadeJob", each).made is JobAnswer.TAKEN]
    assert taken == ["shop/taken", "shop/twice"]
    assert all(await world.store.get_jobs(names))


async def test_jobs_of_a_partition_that_is_away_take_no_other_along(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = world.store.link.call

    async def call(verb: str, record: str, args: Any, **more: Any) -> Any:
        if record == keys.record(1):
            raise Unavailable("it is away")
        return await direct(verb, record, args, **more)

    monkeypatch.setattr(world.store.link, "call", call)
    names = [f"shop/{number}" for number in range(8)]
    answers = await world.store.schedule_jobs([job(name) for name in names])
    away = [name for name, each in zip(names, answers, strict=True) if isinstance(each, Unavailable)]
    assert away == [name for name in names if world.store.job_partition(name) == 1]
    assert 0 < len(away) < 8


@pytest.mark.parametrize("overlap", ["queue", "cancel_running"])
async def test_a_tick_waits_for_the_one_before(world: World, overlap: str) -> None:
    await make(world, job(overlap=overlap))
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=EPOCH_US + US)])
    world.clock.advance(1)

    told = await due(world)
    if overlap == "queue":
        assert told == []
    else:  # told, so that the consumer cancels what runs
        assert [each.running for each in told] == ["0-tick-1"]
    await ends(world)
    (two,) = await due(world)
    assert (two.due_us, two.ticks, two.running) == (EPOCH_US + US, 1, "")


@pytest.mark.parametrize("overlap", ["allow", "skip"])
async def test_a_tick_is_told_of_though_the_one_before_runs(world: World, overlap: str) -> None:
    await make(world, job(overlap=overlap))
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=EPOCH_US + US)])
    world.clock.advance(1)
    (two,) = await due(world)
    assert (two.running, two.ticks) == ("0-tick-1", 1)
    await world.store.tick(0, [tick(two, make="", passed=1, why="overlap")])
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert (known.ticks, known.passed_over, known.why) == (1, 1, "overlap")


@pytest.mark.parametrize("end", ["cancel", "lose", "fatal", "delete the record"])
async def test_however_a_tick_ends_the_next_one_comes(world: World, end: str) -> None:
    await make(world, job())
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=EPOCH_US + US)])
    world.clock.advance(1)
    assert await due(world) == []
    if end == "cancel":
        await world.store.cancel_tasks(["0-tick-1"])
    elif end == "delete the record":
        await world.store.link.client.delete("atf:{0}:t:0-tick-1")
        world.clock.advance(JOB_WAIT_US / US)
    elif end == "lose":
        for _ in range(3):  # as often as it may be
            await world.passes()
            await world.pop()
            await world.store.report_loss(held(await world.claim("0-tick-1")), "killed")
        assert (await world.get("0-tick-1")).status.name == "FATAL_FAILURE"
    else:
        await ends(world, outcome=Outcome.FAILED_FATAL)
    (two,) = await due(world)
    assert two.ticks == 1


async def test_somebody_waiting_for_a_tick_s_end_does_not_hide_it_from_the_job(world: World) -> None:
    await make(world, job())
    (one,) = await due(world)
    await world.store.tick(0, [tick(one)])
    await world.store.watch_tasks(["0-tick-1"])
    await ends(world)
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert known.last_outcome == "SUCCESS"


async def test_a_paused_job_does_not_tick_and_goes_on_where_it_was(world: World) -> None:
    await make(world, job(first_us=EPOCH_US + US))
    assert (await world.store.pause_job(NAME)).found
    world.clock.advance(10)
    assert await due(world) == []
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert known.paused
    assert (await world.store.resume_job(NAME)).found
    (one,) = await due(world)
    assert one.due_us == EPOCH_US + US
    assert not (await world.store.pause_job("shop/other")).found


async def test_a_tick_that_was_told_of_before_a_pause_is_not_made_in_it(world: World) -> None:
    await make(world, job())
    (one,) = await due(world)
    await world.store.pause_job(NAME)
    assert await world.store.tick(0, [tick(one)]) == [False]


async def test_a_job_that_has_ended_leaves_the_list_and_its_record_stays_for_its_retention(world: World) -> None:
    await make(world, job())
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=None)])
    assert await world.store.list_jobs("", 0, "", 10) == []
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert known.next_us is None
    await ends(world)
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert known.last_outcome == "SUCCESS"

    world.clock.advance(DAY_US / US + 1)
    await world.store.sweep(0, 1_000_000)
    assert await world.store.get_jobs([NAME]) == [None]
    assert not [key for key in (await dump(world.store)).data if ":j" in key]


async def test_a_name_is_free_once_its_job_has_ended(world: World) -> None:
    await make(world, job())
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=None)])
    assert (await make(world, job(first_us=EPOCH_US + US)))[:2] == (JobAnswer.MADE, 2)
    world.clock.advance(1)
    assert await due(world) == [], "the last tick of the job before still runs"
    await ends(world)
    (again,) = await due(world)
    assert again.generation == 2


async def test_names_are_listed_by_prefix_in_pages(world: World) -> None:
    for name in ("shop/b", "shop/a", "shop/c", "sho/x", "shop2/y"):
        await make(world, job(name))
    assert await world.store.list_jobs("shop/", 0, "", 2) == ["shop/a", "shop/b"]
    assert await world.store.list_jobs("shop/", 0, "shop/b", 2) == ["shop/c"]
    assert len(await world.store.list_jobs("", 0, "", 10)) == 5


async def test_more_jobs_than_one_pass_tells_of_come_in_several(world: World) -> None:
    names = [name for number in range(350) if world.store.job_partition(name := f"shop/j{number}") == 0]
    for name in names:
        await make(world, job(name))
    seen = [len(await due(world)) for _ in range(3)]
    assert seen == [JOBS_PER_PASS, len(names) - JOBS_PER_PASS, 0]


async def test_a_pass_that_wants_no_jobs_leaves_them_as_they_are(world: World) -> None:
    await make(world, job())
    passed = await world.store.enqueue(0, 0, 0)
    assert (passed.jobs, passed.next_in_us) == ([], None)
    assert len(await due(world)) == 1, "it was told of to nobody yet"


async def test_a_name_that_looks_like_a_task_s_key_does_not_hide_the_tasks_from_an_export(world: World) -> None:
    await make(world, job("shop/a}:t:x"))
    await world.schedule("a")
    found, cursor = [], ""
    while True:
        cursor, records = await world.store.scan(cursor)
        found += [record.id for record in records]
        if not cursor:
            break
    assert found == ["0-a"]


async def test_a_job_may_be_made_paused(world: World) -> None:
    await make(world, job()._replace(paused=True))
    assert await due(world) == []
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert known.paused
    await world.store.resume_job(NAME)
    assert len(await due(world)) == 1


async def test_a_replaced_job_stays_paused(world: World) -> None:
    await make(world, job())
    await world.store.pause_job(NAME)
    await make(world, job(replace=ReplaceJob.GO_ON))
    assert await due(world) == []
    (known,) = await world.store.get_jobs([NAME])
    assert known is not None
    assert known.paused


async def test_a_job_made_anew_makes_no_tick_of_the_one_that_was_deleted(world: World) -> None:
    await make(world, job())
    (old,) = await due(world)
    await world.store.delete_jobs([NAME])
    await make(world, job())
    assert await world.store.tick(0, [tick(old)]) == [False]


async def test_a_job_that_is_replaced_in_the_same_rhythm_goes_on_where_it_stands(world: World) -> None:
    first_us = EPOCH_US + 14 * US
    await make(world, job(first_us=first_us, rhythm="14 s"))
    world.clock.advance(14)
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=first_us + 14 * US, passed=2, why="misfire")])
    before = await known(world)
    world.clock.advance(5)
    again = job(first_us=world.clock() + 14 * US, rhythm="14 s", replace=ReplaceJob.GO_ON, overlap="allow")
    assert await make(world, again._replace(base_us=world.clock(), spec=b"other")) == (JobAnswer.REPLACED, 2, EPOCH_US)
    assert await known(world) == before._replace(generation=2, spec=b"other", overlap="allow")
    world.clock.advance(9)
    (two,) = await due(world)
    assert (two.due_us, two.ticks, two.base_us) == (first_us + 14 * US, 1, EPOCH_US)


async def test_a_job_that_is_replaced_in_another_rhythm_begins_anew(world: World) -> None:
    await make(world, job(rhythm="14 s"))
    (one,) = await due(world)
    await world.store.tick(0, [tick(one)])
    again = job(first_us=EPOCH_US + 9 * US, rhythm="9 s", replace=ReplaceJob.GO_ON)
    assert (await make(world, again)).made is JobAnswer.REPLACED
    after = await known(world)
    assert (after.next_us, after.ticks, after.last_task, after.running) == (EPOCH_US + 9 * US, 0, "", "0-tick-1")


async def test_a_job_of_the_code_that_has_ended_stays_ended_in_the_same_rhythm(world: World) -> None:
    await make(world, job(rhythm="once"))
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=None)])
    again = job(first_us=EPOCH_US + US, rhythm="once", replace=ReplaceJob.GO_ON_ENDED)
    assert (await make(world, again)).made is JobAnswer.REPLACED
    assert (await known(world)).next_us is None
    assert (await make(world, again._replace(replace=ReplaceJob.GO_ON))).made is JobAnswer.MADE, (
        "its name is free for others"
    )
    assert (await known(world)).next_us == EPOCH_US + US


async def test_by_another_policy_a_tick_no_longer_waits_for_the_one_before(world: World) -> None:
    await make(world, job(rhythm="1 s"))
    (one,) = await due(world)
    await world.store.tick(0, [tick(one, next_us=EPOCH_US + US)])
    world.clock.advance(1)
    assert await due(world) == []
    await make(world, job(rhythm="1 s", replace=ReplaceJob.GO_ON, overlap="allow"))
    (two,) = await due(world)
    assert two.running == "0-tick-1"


async def test_the_ticks_of_a_replaced_job_are_those_of_the_new_one(world: World) -> None:
    await make(world, job(rhythm="1 s"))
    (one,) = await due(world)
    await world.store.tick(0, [tick(one)])
    await make(world, job(rhythm="2 s", replace=ReplaceJob.GO_ON))
    assert await world.store.delete_jobs([NAME]) == [True]
    assert (await world.get("0-tick-1")).status.name == "CANCELLED"


async def test_a_job_made_anew_cancels_the_tasks_of_the_one_before(world: World) -> None:
    many = 600
    await make(world, job(overlap="allow"))
    for number in range(many):
        world.clock.advance(2)
        (one,) = await due(world)
        await world.store.tick(0, [tick(one, next_us=world.clock(), make=f"t{number}")])
    answer = await make(world, job(replace=ReplaceJob.ANEW, first_us=world.clock() + US))
    assert answer.made is JobAnswer.REPLACED
    assert (await world.store.counts(LAMBDA))[Status.CANCELLED] == many
    assert (await known(world)).ticks == 0
    await world.check()
