"""Makes the plan of a job from its stored record."""

from __future__ import annotations

import functools
import hashlib
from typing import Final

from atf.rpc import job_pb2 as j
from atf.task import US

from .instants import read_point
from .plan import Plan
from .refusal import GivenText

DEFAULT_GRACE_US: Final = 3_600 * US
_DAY_US: Final = 86_400 * US


def plan_of(spec: j.JobSpec, *, strict: bool = False) -> Plan:
    """When a job ticks.

    Args:
        spec: the job, with its base.
        strict: whether to refuse one that never ticks.

    Raises:
        InvalidArgument: what is wrong with its timing, with the field and the place.
    """
    given = {
        field: getattr(spec, field) for field in ("schedule", "due_time", "ttl", "repeats") if spec.HasField(field)
    }
    words = {field: getattr(spec, field) or None for field in ("tz", "gap", "fold", "format")}
    return Plan.parse(base_us=spec.base_at_us, **given, **words, strict=strict)


def rhythm_of(spec: j.JobSpec) -> str:
    """What decides when a job ticks, but for its base: schedule, zone, due_time, ttl and repeats, whatever the words for them. Two jobs
    with the same rhythm tick alike from the same base.

    Raises:
        InvalidArgument: as for `plan_of`.
    """
    plan = plan_of(spec)
    schedule = "" if plan.schedule is None else plan.schedule.rhythm
    points = [_point(spec, field) for field in ("due_time", "ttl")]
    return hashlib.blake2b("\0".join((schedule, *points, str(plan.repeats))).encode(), digest_size=12).hexdigest()


def ends_at_instant(spec: j.JobSpec) -> bool:
    """Whether a job's ttl is an instant: the same words have ticks at first, and later none."""
    return spec.HasField("ttl") and isinstance(read_point(GivenText("ttl", spec.ttl)), int)


def counts_from_base(spec: j.JobSpec) -> bool:
    """Whether a job ticks once, and when is a duration from its base: the same words at another time mean another instant."""
    return not spec.HasField("schedule") and not isinstance(read_point(GivenText("due_time", spec.due_time)), int)


def _point(spec: j.JobSpec, field: str) -> str:
    if not spec.HasField(field):
        return ""
    point = read_point(GivenText(field, getattr(spec, field)))
    if isinstance(point, int):
        return f"at {point}"
    return f"{point.months} months {point.days * _DAY_US + point.us} us"


def stored_plan(spec: bytes, base_us: int) -> tuple[j.JobSpec, Plan]:
    """A job's description and its plan, from the bytes that are stored and the base that holds."""
    job = j.JobSpec.FromString(spec)
    job.base_at_us = base_us
    timing = j.JobSpec()
    timing.CopyFrom(job)
    timing.ClearField("task")
    return job, _plan(timing.SerializeToString(deterministic=True))


@functools.lru_cache(maxsize=16_384)  # a consumer meets the same jobs at every tick, and to parse one takes long
def _plan(timing: bytes) -> Plan:
    return plan_of(j.JobSpec.FromString(timing))
