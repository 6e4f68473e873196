"""Jobs at the frontend: what is refused with nothing stored, what is filled in, and how they are found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from atf.errors import AlreadyExists, InvalidArgument, NotFound, Unavailable, UnknownLambda
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.schedule.instants import text_of
from atf.store.values.jobs import NewJob
from atf.store.values.tasks import NewTask, Scheduled
from atf.task import DEFAULT_RETENTION_US, US

from .conftest import START_US, Bench

NAME = "photos/nightly"


def job(name: str = NAME, **fields: Any) -> j.JobSpec:
    task = t.TaskSpec(**{"lambda": "photos/thumbnail", "payload": b"{}", **fields.pop("task", {})})
    fields = fields or {"schedule": "@every 10s"}
    return j.JobSpec(name=name, task=task, **fields)


async def make(bench: Bench, spec: j.JobSpec | None = None, **more: Any) -> j.Job:
    return await bench.frontend.schedule_job(f.ScheduleJobRequest(job=spec or job(), **more))


async def names(bench: Bench, **asked: Any) -> list[str]:
    found, token = [], ""
    while True:
        page = await bench.frontend.list_jobs(f.ListJobsRequest(page_token=token, **asked))
        found += [each.spec.name for each in page.jobs]
        token = page.next_page_token
        if not token:
            return found


async def test_a_job_is_stored_with_everything_filled_in(bench: Bench) -> None:
    await bench.register(options=t.TaskOptions(priority=3, timeout_us=US))
    made = await make(bench)
    assert (made.next_tick_at_us, made.ticks, made.generation) == (START_US + 10 * US, 0, 1)
    options = made.spec.task.options
    assert (options.priority, options.timeout_us, options.max_attempts) == (3, US, 4)
    assert options.backoff == t.Backoff(base_us=US, factor=1, max_us=US)
    assert (made.spec.retention_us, made.spec.base_at_us) == (DEFAULT_RETENTION_US, START_US)
    assert await bench.frontend.get_job(f.GetJobRequest(name=NAME)) == made


async def test_what_a_job_says_of_retries_is_nothing_to_other_tasks(bench: Bench) -> None:
    await bench.register(options=t.TaskOptions(max_attempts=7))
    await make(bench, job(schedule="@every 10s", failure_policy=j.FailurePolicy(max_retries=1, interval_us=US)))

    task = await bench.stored(await bench.schedule())

    assert (task.spec.options.max_attempts, task.spec.options.backoff.factor) == (7, 2)


async def test_each_of_many_jobs_is_made_or_refused_by_itself(bench: Bench) -> None:
    await bench.register()
    await make(bench, job("photos/taken"))
    before = await make(bench, job("photos/before"), request_id="r")
    jobs = [job("photos/taken"), job(schedule="0 61 * * * *"), job("photos/new"), job("photos/before")]
    requests = [f.ScheduleJobRequest(job=each, request_id="r") for each in jobs]
    requests.append(f.ScheduleJobRequest(job=job("photos/other", task={"lambda": "photos/none"})))
    requests.append(f.ScheduleJobRequest(job=job("photos/taken", schedule="@daily"), overwrite=True))
    reply = await bench.frontend.schedule_jobs(f.ScheduleJobsRequest(requests=requests))
    taken, bad, new, same, unknown, replaced = reply.results
    assert [each.error.reason for each in (taken, bad, unknown)] == [
        "AlreadyExists",
        "InvalidArgument",
        "UnknownLambda",
    ]
    assert "61" in bad.error.message
    assert new.job == await bench.frontend.get_job(f.GetJobRequest(name="photos/new"))
    assert same.job == before
    assert (replaced.job.generation, replaced.job.spec.schedule) == (before.generation + 1, "@daily")
    assert sorted(await names(bench)) == ["photos/before", "photos/new", "photos/taken"]


async def test_what_else_is_wrong_is_said_before_that_there_is_no_such_lambda(bench: Bench) -> None:
    unknown = {"lambda": "photos/none"}
    with pytest.raises(InvalidArgument, match="61"):  # so that whoever registers the lambda now does not do it in vain
        await make(bench, job(schedule="0 61 * * * *", task=unknown))
    with pytest.raises(UnknownLambda):
        await make(bench, job(task=unknown))


async def test_many_jobs_are_refused_as_one_where_the_store_is_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.register()

    async def away(jobs: Sequence[NewJob]) -> list[Unavailable]:
        return [Unavailable("it is away")] * len(jobs)

    monkeypatch.setattr(bench.store, "schedule_jobs", away)
    requests = [f.ScheduleJobRequest(job=job(f"photos/{number}")) for number in range(3)]
    with pytest.raises(Unavailable, match="it is away"):
        await bench.frontend.schedule_jobs(f.ScheduleJobsRequest(requests=requests))
    requests.append(f.ScheduleJobRequest(job=job(schedule="nonsense")))  # which no repetition mends
    reply = await bench.frontend.schedule_jobs(f.ScheduleJobsRequest(requests=requests))
    assert [each.error.code for each in reply.results] == ["UNAVAILABLE"] * 3 + ["INVALID_ARGUMENT"]
    assert (await bench.frontend.schedule_jobs(f.ScheduleJobsRequest())).results == []


@pytest.mark.parametrize(
    ("policy", "attempts", "interval_us"),
    [
        (j.FailurePolicy(drop=True), 1, 0),
        (j.FailurePolicy(interval_us=5, max_retries=0), 1, 5),
        (j.FailurePolicy(max_retries=9), 10, US),
    ],
)
async def test_a_failure_policy_says_how_a_tick_is_retried(
    bench: Bench, policy: j.FailurePolicy, attempts: int, interval_us: int
) -> None:
    made = await make(bench, job(schedule="@daily", failure_policy=policy))
    options = made.spec.task.options
    assert (options.max_attempts, options.backoff.base_us, options.backoff.max_us) == (
        attempts,
        interval_us,
        interval_us,
    )


async def test_a_name_is_taken_until_told_to_overwrite(bench: Bench) -> None:
    await make(bench, request_id="r1")
    assert (await make(bench, request_id="r1")).generation == 1, "its answer was lost; it asks again"
    with pytest.raises(AlreadyExists, match="overwrite"):
        await make(bench, request_id="r2")
    assert (await make(bench, job(schedule="@daily"), overwrite=True)).spec.schedule == "@daily"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"schedule": "61 * * * * *"}, r"schedule(.|\n)*61"),
        ({"schedule": "@every 0s"}, "schedule"),
        ({"schedule": "0 0 0 30 2 *"}, "schedule"),
        ({"due_time": "tomorrow"}, "due_time"),
        ({"schedule": "@daily", "ttl": "-1s"}, "ttl"),
        ({"schedule": "@daily", "repeats": 0}, "repeats"),
        ({"due_time": "1s", "repeats": 2}, "repeats"),
        ({"due_time": "1s", "ttl": "5s"}, "ttl"),
        ({"schedule": "@daily", "tz": "Mars/Olympus"}, "Mars/Olympus"),
        ({"schedule": "@daily", "gap": "jump"}, "gap"),
        ({"schedule": "@daily", "misfire": 9}, "misfire"),
        ({"schedule": "@daily", "overlap": 9}, "overlap"),
        ({"schedule": "@daily", "grace_us": -1}, "grace_us"),
        ({"schedule": "@daily", "failure_policy": j.FailurePolicy(max_retries=-1)}, "max_retries"),
        ({"schedule": "@daily", "failure_policy": j.FailurePolicy(interval_us=-1)}, "interval_us"),
        ({"schedule": "@daily", "task": {"ordering_key": "k"}}, "ordering_key"),
        ({"schedule": "@daily", "task": {"concurrency": {"key": "k"}}}, "task.concurrency"),
        ({"schedule": "@daily", "task": {"unique": {"key": "k", "window_us": 1000}}}, "task.unique"),
        ({"schedule": "@daily", "task": {"options": t.TaskOptions(max_attempts=2)}}, "failure_policy"),
        ({"schedule": "@daily", "task": {"tick": t.TickInfo(job="x")}}, "tick"),
        ({"task": {}}, "schedule"),
    ],
)
async def test_a_malformed_job_is_refused_and_leaves_the_old_one_as_it_was(
    bench: Bench, fields: dict[str, Any], says: str
) -> None:
    before = await make(bench)
    spec = job(**fields) if set(fields) - {"task"} else j.JobSpec(name=NAME, task=job().task)
    with pytest.raises(InvalidArgument, match=says):
        await make(bench, spec, overwrite=True)
    assert await bench.frontend.get_job(f.GetJobRequest(name=NAME)) == before


@pytest.mark.parametrize(
    "name",
    ["", "nightly", "/nightly", "photos/", "photos/a/b", "photos/a\\b", "photos/a#b", "photos/a?b", "photos/a\nb", "photos/.",
     "photos/..", "photos/" + "x" * 256, "ph tos/x"],
)  # fmt: skip
async def test_a_name_without_form_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(InvalidArgument, match="job"):
        await make(bench, job(name))


async def test_a_job_of_an_unknown_lambda_is_refused(bench: Bench) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await make(bench, job(task={"lambda": "photos/nowhere"}, schedule="@daily"))


@pytest.mark.parametrize("code", ["", "release1"])
async def test_a_job_before_its_last_tick_goes_on_where_its_ttl_leaves_a_new_one_none(bench: Bench, code: str) -> None:
    timing = {"schedule": "@every 1h", "ttl": text_of(START_US + 90 * 60 * US), "code": code}
    made = await make(bench, job(**timing))
    bench.clock.advance(40 * 60)
    again = await make(bench, job(**timing, jitter_us=US), overwrite=True)
    assert (again.next_tick_at_us, again.spec.jitter_us) == (made.next_tick_at_us, US)
    with pytest.raises(InvalidArgument, match="ttl: it ends before the first tick"):
        await make(bench, job(**timing | {"schedule": "@every 2h"}), overwrite=True)
    assert await bench.frontend.get_job(f.GetJobRequest(name=NAME)) == again


async def test_jobs_are_listed_by_prefix_over_all_partitions_in_pages(bench: Bench) -> None:
    made = [f"photos/{number:02}" for number in range(30)] + ["other/x"]
    for name in made:
        await make(bench, job(name))
    assert sorted(await names(bench, prefix="photos/", page_size=7)) == made[:-1]
    assert sorted(await names(bench)) == sorted(made)
    with pytest.raises(InvalidArgument, match="page_token"):
        await bench.frontend.list_jobs(f.ListJobsRequest(page_token="9:"))


async def test_deleting_needs_no_job_and_by_prefix_needs_a_prefix(bench: Bench) -> None:
    for name in ("photos/a", "photos/b", "other/x"):
        await make(bench, job(name))
    assert (await bench.frontend.delete_job(f.DeleteJobRequest(name="photos/a"))).existed
    assert not (await bench.frontend.delete_job(f.DeleteJobRequest(name="photos/a"))).existed
    with pytest.raises(InvalidArgument, match="prefix"):
        await bench.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest())
    reply = await bench.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="photos/"))
    assert (reply.deleted, await names(bench)) == (1, ["other/x"])
    assert (await bench.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="*"))).deleted == 1


async def test_a_job_that_does_not_exist_is_not_found(bench: Bench) -> None:
    for call in (
        bench.frontend.get_job(f.GetJobRequest(name=NAME)),
        bench.frontend.pause_job(f.PauseJobRequest(name=NAME)),
        bench.frontend.resume_job(f.ResumeJobRequest(name=NAME)),
        bench.frontend.run_job_now(f.RunJobNowRequest(name=NAME)),
    ):
        with pytest.raises(NotFound, match="no job"):
            await call


async def test_a_job_is_paused_and_goes_on(bench: Bench) -> None:
    await make(bench)
    assert (await bench.frontend.pause_job(f.PauseJobRequest(name=NAME))).paused
    assert not (await bench.frontend.resume_job(f.ResumeJobRequest(name=NAME))).paused


async def test_a_job_is_run_by_hand_beside_its_ticks(bench: Bench) -> None:
    await make(bench)
    ran = await bench.frontend.run_job_now(f.RunJobNowRequest(name=NAME, task_id="now"))
    assert ran.id.endswith("-now")
    task = await bench.stored(ran.id)
    assert (task.spec.tick.job, task.spec.tick.number, task.spec.payload) == (NAME, 0, b"{}")
    assert (await bench.frontend.get_job(f.GetJobRequest(name=NAME))).ticks == 0


async def test_a_job_that_is_run_by_hand_and_deleted_runs_no_more(bench: Bench) -> None:
    await make(bench)
    ran = await bench.frontend.run_job_now(f.RunJobNowRequest(name=NAME, task_id="now"))
    again = await bench.frontend.run_job_now(f.RunJobNowRequest(name=NAME, task_id="now"))
    assert again.id == ran.id
    assert (await bench.frontend.delete_job(f.DeleteJobRequest(name=NAME))).existed
    assert (await bench.stored(ran.id)).status == t.CANCELLED
    assert await bench.claim(ran.id) == []


async def test_a_job_that_is_deleted_while_it_is_run_by_hand_is_not_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(bench)
    direct = bench.store.run_job_now

    async def late(name: str, task: NewTask, generation: int | None) -> Scheduled | None:
        await bench.frontend.delete_job(f.DeleteJobRequest(name=name))
        return await direct(name, task, generation)

    monkeypatch.setattr(bench.store, "run_job_now", late)
    with pytest.raises(NotFound, match="no job"):
        await bench.frontend.run_job_now(f.RunJobNowRequest(name=NAME, task_id="now"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "overlap": j.ALLOW, "jitter_us": US}),
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "misfire": j.ALL, "grace_us": 5 * US}),
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "failure_policy": j.FailurePolicy(drop=True)}),
        ({"schedule": "@every 14s"}, {"schedule": "PT14S", "retention_us": US, "code": "c1"}),
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "task": {"payload": b"[]", "labels": {"a": "b"}}}),
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "task": {"options": t.TaskOptions(timeout_us=9)}}),
        (
            {"schedule": "@every 14s", "due_time": "3s"},
            {"schedule": "@every 14s", "due_time": "PT3S", "overlap": j.ALLOW},
        ),
        ({"schedule": "@every 14s", "ttl": "1h", "repeats": 9}, {"schedule": "R9/PT14S", "ttl": "60m", "jitter_us": 1}),
        ({"due_time": "5m", "code": "c1"}, {"due_time": "5m", "code": "c2"}),
    ],
)
async def test_a_job_whose_timing_is_the_same_goes_on_where_it_stood(
    bench: Bench, before: dict[str, Any], after: dict[str, Any]
) -> None:
    made = await make(bench, job(**before))
    bench.clock.advance(1)
    again = await make(bench, job(**after), overwrite=True)
    assert (again.next_tick_at_us, again.created_at_us) == (made.next_tick_at_us, START_US)
    assert (again.generation, again.spec.base_at_us) == (2, START_US)
    assert again.spec.overlap == after.get("overlap", 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"schedule": "@every 14s"}, {"schedule": "@every 13s"}),
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "due_time": "3s"}),
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "ttl": "3h"}),
        ({"schedule": "@every 14s"}, {"schedule": "@every 14s", "repeats": 3}),
        ({"due_time": "5m"}, {"due_time": "5m"}),  # said by hand, it is five minutes from now on
    ],
)
async def test_a_job_whose_timing_is_another_begins_anew(
    bench: Bench, before: dict[str, Any], after: dict[str, Any]
) -> None:
    await make(bench, job(**before))
    bench.clock.advance(1)
    again = await make(bench, job(**after), overwrite=True)
    assert (again.created_at_us, again.spec.base_at_us) == (START_US + US,) * 2
    assert again.next_tick_at_us == (await make(bench, job("photos/other", **after))).next_tick_at_us


async def test_a_preview_shows_ticks_and_stores_nothing(bench: Bench) -> None:
    asked = f.PreviewScheduleRequest(job=j.JobSpec(schedule="@every 10s", repeats=3), count=9)
    assert list((await bench.frontend.preview_schedule(asked)).ticks_at_us) == [
        START_US + seconds * US for seconds in (10, 20, 30)
    ]
    assert await names(bench) == []
    with pytest.raises(InvalidArgument, match="count"):
        await bench.frontend.preview_schedule(f.PreviewScheduleRequest(job=asked.job, count=101))


@pytest.mark.parametrize("from_at_us", [-1, 253_402_300_800_000_000, 2**63 - 1, -(2**63)])
async def test_a_preview_from_no_year_is_refused(bench: Bench, from_at_us: int) -> None:
    asked = f.PreviewScheduleRequest(job=j.JobSpec(schedule="@daily", due_time="P1M"), from_at_us=from_at_us)
    with pytest.raises(InvalidArgument, match=f"from_at_us {from_at_us}: "):
        await bench.frontend.preview_schedule(asked)
