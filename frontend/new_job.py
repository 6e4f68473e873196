"""Checks and completes a ScheduleJobRequest, so that a tick needs to know nothing else."""

from __future__ import annotations

import re
from typing import Final

from atf import task as rules
from atf.auth.caller import permit, permit_some
from atf.auth.grants import Verb
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.schedule.job_plan import counts_from_base, ends_at_instant, plan_of, rhythm_of
from atf.store.values.jobs import NewJob, ReplaceJob

from .lambdas import Lambdas
from .validate import check_spec, known_fields, lambda_of, shown

MAX_RETRIES: Final = 1_000_000
DEFAULT_RETRIES: Final = 3
DEFAULT_INTERVAL_US: Final = rules.US
_OVERLAPS: Final = {
    j.OVERLAP_UNSPECIFIED: "queue",
    j.ALLOW: "allow",
    j.PASS_OVER: "skip",
    j.QUEUE: "queue",
    j.CANCEL_RUNNING: "cancel_running",
}
"""As the store knows them."""
_NOT_OF_TICKS: Final = {
    "ordering_key": "its ticks follow each other by the overlap policy",
    "concurrency": "whether its ticks run beside each other says the overlap policy",
    "unique": "a job's name and tick make it the only one",
    "affinity_key": "its ticks prefer no host",
    "traceparent": "each tick begins a trace of its own",
}
"""What the task of a tick can't have, and why."""
_CODE: Final = re.compile(r"[A-Za-z0-9]{0,64}")


def new_job(
    request: f.ScheduleJobRequest, lambdas: Lambdas, max_attempts_cap: int, now_us: int
) -> tuple[NewJob, j.JobSpec]:
    """A job to make, and what is kept of its description.

    Args:
        request: as the caller sent it.
        lambdas: those that are registered, with what they say of their tasks.
        max_attempts_cap: what nobody's failure policy exceeds.
        now_us: the instant at which it is made.

    Raises:
        InvalidArgument: what is wrong, with the field and the place.
        UnknownLambda: its lambda is not registered.
        PermissionDenied: the caller may not schedule it, or nothing in the namespace of the job's name.
    """
    if request.request_id:
        rules.check_id(shown(request.request_id))
    asked = request.job
    rules.check_job(asked.name)
    _check_policies(asked)
    check_spec(asked.task)
    permit(Verb.SCHEDULE, lambda_of(asked.task))
    permit_some(Verb.SCHEDULE, asked.name.partition("/")[0])
    _check_task(asked.task)
    if request.anew and not request.overwrite:
        raise InvalidArgument("anew: it says how overwrite replaces a job; set overwrite as well, or leave anew out")
    if asked.base_at_us:
        raise InvalidArgument("base_at_us: only the frontend sets it; due_time says when the job ticks first")
    spec = known_fields(asked)
    spec.retention_us = asked.retention_us or rules.DEFAULT_RETENTION_US
    spec.base_at_us = now_us
    rhythm, replace = rhythm_of(spec), _replace(request)
    first_us = _first_us(spec, may_have_ticked=bool(spec.code) or replace is ReplaceJob.GO_ON)
    if replace is ReplaceJob.GO_ON and counts_from_base(spec):
        rhythm += f" {now_us}"
    name = lambda_of(asked.task)
    known = lambdas.get(name)  # at the end: who registers it now can rely on the rest
    _fill_in(spec.task.options, known.options(asked.task.options), asked.failure_policy, max_attempts_cap)
    stored, overlap = spec.SerializeToString(deterministic=True), _OVERLAPS[spec.overlap]
    return NewJob(
        spec.name, request.request_id, replace, stored, overlap, first_us, now_us, rhythm, lambda_name=name
    ), spec


def _first_us(spec: j.JobSpec, *, may_have_ticked: bool) -> int | None:
    """When a job would tick first; None: it is past its last tick, and may be one that ticked before."""
    if may_have_ticked and ends_at_instant(spec) and plan_of(spec).first_us() is None:
        endless = j.JobSpec()
        endless.CopyFrom(spec)
        endless.ClearField("ttl")
        plan_of(endless, strict=True)
        return None
    return plan_of(spec, strict=True).first_us()


def _replace(request: f.ScheduleJobRequest) -> ReplaceJob:
    """What becomes of a job that has the name. One of the code says the same at every deploy: where it has ended, it has ended."""
    if not request.overwrite:
        return ReplaceJob.NOT
    if request.anew:
        return ReplaceJob.ANEW
    return ReplaceJob.GO_ON_ENDED if request.job.code else ReplaceJob.GO_ON


def _fill_in(options: t.TaskOptions, full: t.TaskOptions, policy: j.FailurePolicy, max_attempts_cap: int) -> None:
    """Leaves nothing open in the options of a job's tasks."""
    options.CopyFrom(full)
    retries, interval_us = (0, 0) if policy.drop else (DEFAULT_RETRIES, DEFAULT_INTERVAL_US)
    if policy.HasField("max_retries"):
        retries = policy.max_retries
    if policy.HasField("interval_us"):
        interval_us = policy.interval_us
    options.max_attempts = min(1 + retries, max_attempts_cap)
    options.backoff.CopyFrom(t.Backoff(base_us=interval_us, factor=1, max_us=interval_us, jitter=0))


def _check_task(task: t.TaskSpec) -> None:
    for field, _ in task.ListFields():
        if why := _NOT_OF_TICKS.get(field.name):
            raise InvalidArgument(f"task.{field.name}: the task of a job has none; {why}")


def _check_policies(spec: j.JobSpec) -> None:
    if spec.misfire not in j.Misfire.values():
        raise InvalidArgument(f"misfire {spec.misfire}: use ALL (1), LATEST (2) or SKIP (3)")
    if spec.overlap not in _OVERLAPS:
        raise InvalidArgument(f"overlap {spec.overlap}: use ALLOW (1), PASS_OVER (2), QUEUE (3) or CANCEL_RUNNING (4)")
    if not _CODE.fullmatch(spec.code):
        raise InvalidArgument(f"code {shown(spec.code)!r}: a digest of at most 64 letters and digits")
    for field in ("grace_us", "jitter_us", "retention_us"):
        value = getattr(spec, field)
        if not 0 <= value <= rules.MAX_AHEAD_US:
            raise InvalidArgument(f"{field} {value}: 0 to ten years, in microseconds")
    policy = spec.failure_policy
    if policy.HasField("interval_us") and not 0 <= policy.interval_us <= rules.MAX_AHEAD_US:
        raise InvalidArgument(f"failure_policy.interval_us {policy.interval_us}: 0 to ten years, in microseconds")
    if policy.HasField("max_retries") and not 0 <= policy.max_retries <= MAX_RETRIES:
        raise InvalidArgument(f"failure_policy.max_retries {policy.max_retries}: 0 to {MAX_RETRIES}")
    if policy.drop and (policy.HasField("interval_us") or policy.HasField("max_retries")):
        raise InvalidArgument("failure_policy.drop: there are no retries then; leave interval_us and max_retries out")
    options = spec.task.options
    if options.HasField("max_attempts") or options.HasField("backoff"):
        raise InvalidArgument(
            "task.options: failure_policy says how a job's tasks are retried; leave max_attempts and backoff out"
        )
