"""The plan of a job as it is stored."""

from __future__ import annotations

import functools
from typing import Final

from atf.rpc import job_pb2 as j
from atf.task import US

from .plan import Plan

DEFAULT_GRACE_US: Final = 3_600 * US


def plan_of(spec: j.JobSpec, *, strict: bool = False) -> Plan:
    """When a job ticks.

    Args:
        spec: the job, with its base.
        strict: whether to refuse one that never ticks.

    Raises:
        InvalidArgument: what is wrong with its timing, with the field and the place.
    """
    return Plan.parse(
        base_us=spec.base_at_us,
        schedule=spec.schedule if spec.HasField("schedule") else None,
        due_time=spec.due_time if spec.HasField("due_time") else None,
        ttl=spec.ttl if spec.HasField("ttl") else None,
        repeats=spec.repeats if spec.HasField("repeats") else None,
        tz=spec.tz or None,
        gap=spec.gap or None,
        fold=spec.fold or None,
        format=spec.format or None,
        strict=strict,
    )


def stored_plan(spec: bytes) -> tuple[j.JobSpec, Plan]:
    """A job's description and its plan, from the bytes that are stored."""
    job = j.JobSpec.FromString(spec)
    timing = j.JobSpec()
    timing.CopyFrom(job)
    timing.ClearField("task")
    return job, _plan(timing.SerializeToString(deterministic=True))


@functools.lru_cache(maxsize=16_384)  # a consumer meets the same jobs at every tick, and to parse one takes long
def _plan(timing: bytes) -> Plan:
    return plan_of(j.JobSpec.FromString(timing))
