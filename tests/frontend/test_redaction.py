"""What a frontend shows of payloads and errors, by what is registered: no code is there."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.sdk.redaction import MASK
from atf.store.values.claims import Outcome

from .conftest import Bench

PAYLOAD = b'{"user":"anna","password":"hunter2"}'
MASKED = b'{"user":"anna","password":"[redacted]"}'


async def test_jobs_are_shown_without_redacted_values_and_run_with_them(bench: Bench) -> None:
    await bench.register(redact=["password"])
    task: dict[str, Any] = {"lambda": "photos/thumbnail", "payload": PAYLOAD}
    spec = j.JobSpec(name="photos/nightly", schedule="@daily", task=task)
    made = await bench.frontend.schedule_job(f.ScheduleJobRequest(job=spec))
    many = await bench.frontend.schedule_jobs(
        f.ScheduleJobsRequest(requests=[f.ScheduleJobRequest(job=spec, overwrite=True)])
    )
    shown = [
        made,
        many.results[0].job,
        await bench.frontend.get_job(f.GetJobRequest(name=spec.name)),
        *(await bench.frontend.list_jobs(f.ListJobsRequest())).jobs,
        await bench.frontend.pause_job(f.PauseJobRequest(name=spec.name)),
        await bench.frontend.resume_job(f.ResumeJobRequest(name=spec.name)),
    ]
    assert [each.spec.task.payload for each in shown] == [MASKED] * 6
    job = await bench.frontend.get_job(f.GetJobRequest(name=spec.name, unredacted=True))
    assert job.spec.task.payload == PAYLOAD
    (listed,) = (await bench.frontend.list_jobs(f.ListJobsRequest(unredacted=True))).jobs
    assert listed.spec.task.payload == PAYLOAD

    ran = await bench.frontend.run_job_now(f.RunJobNowRequest(name=spec.name))
    (claim,) = await bench.claim(ran.id)
    assert t.TaskSpec.FromString(claim.spec).payload == PAYLOAD


async def test_errors_of_before_are_shown_without_the_values(bench: Bench) -> None:
    await bench.register()
    stored = await bench.schedule(payload=PAYLOAD, options=t.TaskOptions(max_attempts=1))
    await bench.finish(stored, Outcome.FAILED, error="bad hunter2 of anna")
    assert (await bench.stored(stored)).error == "bad hunter2 of anna"

    await bench.register(redact=["password"])
    of: dict[str, Any] = {"lambda": "photos/thumbnail"}
    said = [
        await bench.stored(stored),
        await bench.frontend.explain_task(f.ExplainTaskRequest(id=stored)),
        await bench.frontend.list_tasks(f.ListTasksRequest(filter=of)),
        await bench.frontend.wait_tasks(f.WaitTasksRequest(ids=[stored])),
        await bench.frontend.redrive(f.RedriveRequest(filter=of, dry_run=True, who="ada", why="rain")),
    ]
    for each in said:
        assert f"bad {MASK} of anna" in str(each)
        assert "hunter2" not in str(each)


async def test_of_a_lambda_that_nobody_knows_every_argument_is_hidden(bench: Bench) -> None:
    await bench.register(redact=["password"])
    stored = await bench.schedule(payload=PAYLOAD)
    await bench.store.delete_lambda("photos/thumbnail")
    shown = await bench.another_frontend().get_task(f.GetTaskRequest(id=stored, with_spec=True))
    assert shown.spec.payload == b'{"user":"[redacted]","password":"[redacted]"}'


async def test_names_that_are_too_long_are_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="redact: 1 names; at most 256, of 1 to 255 characters"):
        await bench.register(redact=["x" * 256])
