"""Turns what Dapr calls a job into a job of ATF's, and back; makes it and reads it by the frontend's own API, for both of Dapr's services.

What Dapr's scheduler does where nothing is said holds here: every missed tick comes, one after the other; UTC; a time that
a change of clocks passes over does not come, and one that comes twice ticks twice; three retries, a second apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from atf.errors import InvalidArgument, UnknownLambda
from atf.frontend.audit import MAX_WHO_CHARS
from atf.frontend.new_job import MAX_RETRIES
from atf.rpc import api, dapr_runtime_pb2 as d, dapr_scheduler_pb2 as s, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.task import MAX_AHEAD_US, MAX_BATCH, MAX_PAYLOAD_BYTES, US

FOR_EVER: Final = MAX_RETRIES
"""Retries of a tick where no number is given; the operator's cap on attempts bounds them."""
TIMING: Final = ("schedule", "due_time", "ttl", "repeats")
"""The fields that say when a job ticks; each job of Dapr's has them, and ours."""


def job_spec(name: str, to: str, asked: d.Job | s.Job, data: Message) -> j.JobSpec:
    """A job as ATF has it.

    Args:
        name: of the job, "namespace/name".
        to: the lambda that brings its ticks to their target.
        asked: when it ticks, and what becomes of a tick that fails.
        data: what the target gets with each tick: an Any.

    Raises:
        InvalidArgument: the data is too large, or the policy's interval is no length of time.
    """
    payload = data.SerializeToString(deterministic=True)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidArgument(f"data: {len(payload)} bytes, at most {MAX_PAYLOAD_BYTES} (1 MiB)")
    spec = j.JobSpec(
        name=name,
        task=t.TaskSpec(payload=payload, encoding=t.RAW),
        misfire=j.ALL,
        grace_us=MAX_AHEAD_US,
        overlap=j.QUEUE,
        failure_policy=_policy(asked.failure_policy),
    )
    setattr(spec.task, "lambda", to)  # a keyword of the language
    for field in TIMING:
        if asked.HasField(field):
            setattr(spec, field, getattr(asked, field))
    return spec


def fill_job(made: d.Job | s.Job, spec: j.JobSpec) -> None:
    """Says in one of Dapr's jobs when a job of ATF's ticks, in the words of whoever made it, and how a tick is retried."""
    for field in TIMING:
        if spec.HasField(field):
            setattr(made, field, getattr(spec, field))
    policy = spec.failure_policy
    if policy.drop:
        made.failure_policy.drop.SetInParent()
    elif spec.HasField("failure_policy"):
        constant = made.failure_policy.constant
        constant.interval.FromMicroseconds(policy.interval_us)
        if policy.max_retries < FOR_EVER:
            constant.max_retries = policy.max_retries


def data_of(spec: j.JobSpec) -> AnyMessage:
    """What the target of a job gets. Nothing, where somebody made the job by another API, of another payload."""
    try:
        return AnyMessage.FromString(spec.task.payload) if spec.task.encoding == t.RAW else AnyMessage()
    except DecodeError:
        return AnyMessage()


async def schedule_job(
    frontend: api.Frontend, spec: j.JobSpec, app_id: str, *, overwrite: bool, signature: str = ""
) -> None:
    """Makes a job of an app, or replaces one; makes its lambda known where it is the first of it. `signature`: of that lambda, for people."""
    who = who_of(app_id)
    asked = f.ScheduleJobRequest(job=spec, overwrite=overwrite, anew=overwrite, who=who)
    try:
        await frontend.schedule_job(asked)
    except UnknownLambda:
        registered = f.LambdaSpec(name=getattr(spec.task, "lambda"), signature=signature)
        await frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[registered], who=who))
        await frontend.schedule_job(asked)


def who_of(app_id: str) -> str:
    """How the audit log names an app of Dapr's."""
    return f"dapr:{app_id}"[:MAX_WHO_CHARS]


async def pages_of_jobs(frontend: api.Frontend, prefix: str) -> AsyncIterator[Sequence[j.Job]]:
    """The jobs whose names begin so, some at a time."""
    request = f.ListJobsRequest(prefix=prefix, page_size=MAX_BATCH, unredacted=True)
    while True:
        page = await frontend.list_jobs(request)
        yield page.jobs
        request.page_token = page.next_page_token
        if not request.page_token:
            return


def _policy(policy: d.JobFailurePolicy) -> j.FailurePolicy | None:
    """A policy that says neither is the default one."""
    match policy.WhichOneof("policy"):
        case "drop":
            return j.FailurePolicy(drop=True)
        case "constant":
            constant = policy.constant
            retries = constant.max_retries if constant.HasField("max_retries") else FOR_EVER
            return j.FailurePolicy(interval_us=_interval_us(constant), max_retries=min(retries, FOR_EVER))
    return None


def _interval_us(constant: d.JobFailurePolicyConstant) -> int:
    """Microseconds; without an interval a tick is tried again at once."""
    interval = constant.interval
    us = interval.seconds * US + round(interval.nanos / 1_000)
    if not 0 <= us <= MAX_AHEAD_US:
        raise InvalidArgument(
            f"failure_policy.constant.interval: {interval.seconds} s and {interval.nanos} ns; give 0 s to ten years"
        )
    return us
