"""Dapr's job calls at a frontend: what they make of it, whose they are, and how they are refused, with nothing stored."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.wrappers_pb2 import StringValue

from atf.config.settings import FrontendSettings
from atf.errors import AlreadyExists, AtfError, FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted
from atf.frontend.dapr import jobs, runtime as dapr
from atf.frontend.dapr.runtime import DaprRuntime
from atf.rpc import dapr_runtime_pb2 as d, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.store.values.jobs import Tick
from atf.task import MAX_AHEAD_US, US
from tests.frontend.conftest import START_US, Bench

ORDERS = {"dapr-app-id": "orders"}


def runtime(bench: Bench, app_id: str = "") -> DaprRuntime:
    return DaprRuntime(bench.frontend, FrontendSettings(dapr_app_id=app_id))


def carrying(text: str) -> AnyMessage:
    data = AnyMessage()
    data.Pack(StringValue(value=text))
    return data


def request(name: str = "report", *, overwrite: bool = False, **fields: Any) -> d.ScheduleJobRequest:
    return d.ScheduleJobRequest(job=d.Job(name=name, **(fields or {"schedule": "@daily"})), overwrite=overwrite)


def constant(**fields: Any) -> d.JobFailurePolicy:
    return d.JobFailurePolicy(constant=d.JobFailurePolicyConstant(**fields))


async def stored(bench: Bench, name: str = "dapr.orders/report") -> j.Job:
    return await bench.frontend.get_job(f.GetJobRequest(name=name))


async def read(bench: Bench, name: str = "report") -> d.Job:
    return (await runtime(bench).get_job(d.GetJobRequest(name=name), ORDERS)).job


async def names(bench: Bench, app_id: str = "orders") -> list[str]:
    found = await runtime(bench).list_jobs(d.ListJobsRequest(), {"dapr-app-id": app_id})
    return sorted(each.name for each in found.jobs)


async def refusal(call: Any, kind: type[AtfError]) -> AtfError:
    with pytest.raises(kind) as caught:
        await call
    assert caught.value.domain == "dapr.io"
    return caught.value


async def test_a_job_keeps_to_what_dapr_does_where_nothing_is_said(bench: Bench) -> None:
    await runtime(bench).schedule_job(request(), ORDERS)
    spec = (await stored(bench)).spec
    assert getattr(spec.task, "lambda") == "atf/dapr-job"
    assert (spec.misfire, spec.grace_us, spec.overlap) == (j.ALL, MAX_AHEAD_US, j.QUEUE)
    assert (spec.tz, spec.gap, spec.fold, spec.format) == ("", "", "", "")
    options = spec.task.options
    assert (options.max_attempts, options.backoff.base_us) == (4, US)


async def test_a_job_comes_back_as_it_was_sent(bench: Bench) -> None:
    sent = d.Job(
        name="report",
        schedule="@every 1m",
        repeats=4_294_967_295,
        due_time="10s",
        ttl="20s",
        data=carrying("x"),
        failure_policy=constant(interval=Duration(seconds=3, nanos=5_000), max_retries=5),
    )
    await runtime(bench).schedule_job(d.ScheduleJobRequest(job=sent), ORDERS)
    assert await read(bench) == sent
    assert (await stored(bench)).next_tick_at_us == START_US + 10 * US


@pytest.mark.parametrize(
    ("policy", "attempts", "interval_us"),
    [
        (d.JobFailurePolicy(drop=d.JobFailurePolicyDrop()), 1, 0),
        (constant(interval=Duration(seconds=2)), 100, 2 * US),  # for ever, as far as the operator lets it
        (constant(interval=Duration(), max_retries=0), 1, 0),
        (constant(interval=Duration(seconds=1), max_retries=7), 8, US),
    ],
)
async def test_a_failure_policy_is_kept_and_comes_back(
    bench: Bench, policy: d.JobFailurePolicy, attempts: int, interval_us: int
) -> None:
    await runtime(bench).schedule_job(request(schedule="@daily", failure_policy=policy), ORDERS)
    options = (await stored(bench)).spec.task.options
    assert (options.max_attempts, options.backoff.base_us) == (attempts, interval_us)
    assert (await read(bench)).failure_policy == policy


async def test_a_policy_without_an_interval_tries_again_at_once_and_one_that_says_nothing_is_the_default(
    bench: Bench,
) -> None:
    await runtime(bench).schedule_job(request(schedule="@daily", failure_policy=constant(max_retries=2)), ORDERS)
    assert (await stored(bench)).spec.task.options.backoff.base_us == 0
    again = request(schedule="@daily", failure_policy=d.JobFailurePolicy(), overwrite=True)
    await runtime(bench).schedule_job(again, ORDERS)
    assert (await stored(bench)).spec.task.options.max_attempts == 4
    assert not (await read(bench)).HasField("failure_policy")


async def test_applications_have_names_of_their_own(bench: Bench) -> None:
    both = runtime(bench, "billing")
    await both.schedule_job(request("a"), ORDERS)
    await both.schedule_job(request("a"), {})  # the frontend's own setting says whose it is
    await both.schedule_job(request("b"), {"dapr-app-id": "billing"})
    assert await names(bench) == ["a"]
    assert await names(bench, "billing") == ["a", "b"]
    await both.delete_job(d.DeleteJobRequest(name="a"), {})
    assert (await names(bench), await names(bench, "billing")) == (["a"], ["b"])


async def test_an_application_whose_id_begins_like_another_s_is_another(bench: Bench) -> None:
    for app_id in ("orders", "orders.eu", "orders-2"):
        await runtime(bench).schedule_job(request("a"), {"dapr-app-id": app_id})
    await runtime(bench).delete_jobs_by_prefix(d.DeleteJobsByPrefixRequest(), ORDERS)
    assert [await names(bench, each) for each in ("orders", "orders.eu", "orders-2")] == [[], ["a"], ["a"]]


async def test_jobs_are_deleted_by_prefix(bench: Bench) -> None:
    for name in ("aa", "ab", "b"):
        await runtime(bench).schedule_job(request(name), ORDERS)
    await runtime(bench).delete_jobs_by_prefix(d.DeleteJobsByPrefixRequest(name_prefix="a"), ORDERS)
    assert await names(bench) == ["b"]
    await runtime(bench).delete_jobs_by_prefix(d.DeleteJobsByPrefixRequest(name_prefix=""), ORDERS)
    assert await names(bench) == []


async def test_a_list_has_all_jobs_and_is_refused_where_no_answer_holds_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [f"n{number:02}" for number in range(12)]
    for name in wanted:
        await runtime(bench).schedule_job(request(name, schedule="@daily", data=carrying("x" * 50)), ORDERS)
    monkeypatch.setattr(jobs, "MAX_BATCH", 5)  # of a page
    assert await names(bench) == wanted
    monkeypatch.setattr(dapr, "MAX_BATCH_BYTES", 1_000)
    error = await refusal(runtime(bench).list_jobs(d.ListJobsRequest(), ORDERS), ResourceExhausted)
    assert "atf job ls dapr.orders/" in str(error)


async def test_a_name_is_taken_until_told_to_overwrite(bench: Bench) -> None:
    await runtime(bench).schedule_job(request(), ORDERS)
    error = await refusal(runtime(bench).schedule_job(request(schedule="@hourly"), ORDERS), AlreadyExists)
    assert error.reason == "DAPR_SCHEDULER_SCHEDULE_JOB"
    assert (await read(bench)).schedule == "@daily"
    await runtime(bench).schedule_job(request(schedule="@hourly", overwrite=True), ORDERS)
    assert (await read(bench)).schedule == "@hourly"


async def test_an_overwritten_job_begins_anew_as_in_dapr(bench: Bench) -> None:
    await runtime(bench).schedule_job(request(schedule="@every 14s"), ORDERS)
    name = "dapr.orders/report"
    ran = await bench.frontend.run_job_now(f.RunJobNowRequest(name=name))
    bench.clock.advance(5)
    await runtime(bench).schedule_job(request(schedule="@every 14s", overwrite=True), ORDERS)
    again = await bench.frontend.get_job(f.GetJobRequest(name=name))
    assert again.next_tick_at_us == again.created_at_us + 14_000_000
    assert again.generation == 2
    assert (await bench.stored(ran.id)).status == t.CANCELLED, "and what the one before had waiting is gone"


async def test_what_is_not_there_can_be_deleted_but_not_read(bench: Bench) -> None:
    await runtime(bench).delete_job(d.DeleteJobRequest(name="none"), ORDERS)
    error = await refusal(runtime(bench).get_job(d.GetJobRequest(name="none"), ORDERS), NotFound)
    assert error.reason == "DAPR_SCHEDULER_GET_JOB"


async def test_a_job_that_has_ended_is_not_there(bench: Bench) -> None:
    await runtime(bench).schedule_job(request(due_time="1s"), ORDERS)
    assert (await read(bench)).due_time == "1s"
    bench.clock.advance(1)
    job = await stored(bench)
    last = Tick(job.spec.name, job.generation, job.next_tick_at_us, None, 1, "misfire", US)
    partition = bench.store.partition_for(job.spec.name)
    assert await bench.store.tick(partition, [last]) == [True]
    assert (await stored(bench)).spec.due_time == "1s", "its record is kept"
    await refusal(runtime(bench).get_job(d.GetJobRequest(name="report"), ORDERS), NotFound)


@pytest.mark.parametrize(
    ("sent", "says", "reason"),
    [
        (d.ScheduleJobRequest(), "job", "DAPR_SCHEDULER_EMPTY"),
        (request(""), "name", "DAPR_SCHEDULER_JOB_NAME_EMPTY"),
        (request(ttl="1s"), "schedule", "DAPR_SCHEDULER_SCHEDULE_EMPTY"),
        (request("a/b"), r"name.*'/'", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request("x" * 256), "name.*255", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request(schedule="@every 0s"), "schedule", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request(schedule=""), "schedule", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request(due_time="soon"), "due_time", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request(schedule="@daily", ttl="-1s"), "ttl", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request(schedule="@daily", repeats=0), "repeats", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request(due_time="1s", repeats=2), "repeats", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (request(schedule="@daily", data=AnyMessage(value=bytes(1 << 20))), "data", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (
            request(schedule="@daily", failure_policy=constant(interval=Duration(seconds=-1))),
            "failure_policy.constant.interval",
            "DAPR_SCHEDULER_SCHEDULE_JOB",
        ),
        (
            request(schedule="@daily", failure_policy=constant(interval=Duration(seconds=1 << 40))),
            "failure_policy.constant.interval",
            "DAPR_SCHEDULER_SCHEDULE_JOB",
        ),
    ],
)
async def test_a_malformed_job_is_refused_and_leaves_the_old_one_as_it_was(
    bench: Bench, sent: d.ScheduleJobRequest, says: str, reason: str
) -> None:
    await runtime(bench).schedule_job(request(), ORDERS)
    before = await stored(bench)
    sent.overwrite = True
    error = await refusal(runtime(bench).schedule_job(sent, ORDERS), InvalidArgument)
    assert error.reason == reason
    with pytest.raises(InvalidArgument, match=says):
        raise error
    assert await stored(bench) == before
    assert await names(bench) == ["report"]


@pytest.mark.parametrize("app_id", ["a/b", "ä", "x" * 60, "x" * 6_000])
async def test_an_app_id_without_form_is_refused(bench: Bench, app_id: str) -> None:
    for call in (
        runtime(bench).schedule_job(request(), {"dapr-app-id": app_id}),
        runtime(bench).list_jobs(d.ListJobsRequest(), {"dapr-app-id": app_id}),
    ):
        assert "dapr-app-id" in str(await refusal(call, InvalidArgument))


async def test_a_call_of_nobody_s_says_how_to_say_whose_it_is(bench: Bench) -> None:
    error = await refusal(runtime(bench).schedule_job(request(), {}), FailedPrecondition)
    assert "--dapr-app-id" in str(error)


async def test_the_longest_app_id_has_jobs(bench: Bench) -> None:
    who = {"dapr-app-id": "x" * 59}
    await runtime(bench).schedule_job(request(), who)
    assert await names(bench, "x" * 59) == ["report"]


async def test_the_first_job_needs_no_executor_to_have_started(bench: Bench) -> None:
    await runtime(bench).schedule_job(request(), ORDERS)
    known = await bench.frontend.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": "atf/dapr-job"}))
    assert [each.spec.name for each in known.lambdas] == ["atf/dapr-job"]


async def test_a_job_made_by_another_way_is_shown_as_far_as_it_can_be(bench: Bench) -> None:
    task = t.TaskSpec(**{"lambda": "photos/thumbnail"}, payload=b'{"a": 1}')  # type: ignore[arg-type]
    spec = j.JobSpec(name="dapr.orders/report", task=task, schedule="@daily")
    await bench.frontend.schedule_job(f.ScheduleJobRequest(job=spec))
    assert await read(bench) == d.Job(name="report", schedule="@daily", data=AnyMessage())


async def test_the_frontend_tells_where_an_application_is(bench: Bench) -> None:
    frontend = bench.another_frontend(dapr_app="orders=10.0.0.1:50061")
    found = await frontend.find_dapr_app(f.FindDaprAppRequest(app_id="orders"))
    assert found.address == "10.0.0.1:50061"
    with pytest.raises(NotFound, match="--dapr-app billing=HOST:PORT"):
        await frontend.find_dapr_app(f.FindDaprAppRequest(app_id="billing"))
    with pytest.raises(InvalidArgument, match="app id"):
        await frontend.find_dapr_app(f.FindDaprAppRequest(app_id="a/b"))
