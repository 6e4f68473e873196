"""Turns what Dapr calls a job into a job of ATF's, and back. Pure; whether a schedule can be read is for the frontend to say.

What Dapr's scheduler does where nothing is said holds here: every missed tick comes, one after the other; UTC; a time that
a change of clocks passes over does not come, and one that comes twice ticks twice; three retries, a second apart.
"""

from __future__ import annotations

from typing import Final, Protocol

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message

from atf.errors import InvalidArgument
from atf.frontend.new_job import MAX_RETRIES
from atf.rpc import job_pb2 as j
from atf.rpc import task_pb2 as t
from atf.task import MAX_AHEAD_US, MAX_PAYLOAD_BYTES, US

FOR_EVER: Final = MAX_RETRIES
"""Retries of a tick where no number is given; the operator's cap on attempts bounds them."""


class DaprTiming(Protocol):
    """What the job of any of Dapr's services says, by its fields' names."""

    schedule: str
    due_time: str
    ttl: str
    repeats: int

    def HasField(self, field_name: str, /) -> bool: ...  # noqa: N802  as protobuf has it


class DaprConstantPolicy(Protocol):
    """dapr.proto.common.v1.JobFailurePolicyConstant."""

    interval: Duration
    max_retries: int

    def HasField(self, field_name: str, /) -> bool: ...  # noqa: N802  as protobuf has it


class DaprFailurePolicy(Protocol):
    """dapr.proto.common.v1.JobFailurePolicy."""

    @property
    def constant(self) -> DaprConstantPolicy: ...

    def WhichOneof(self, oneof_group: str, /) -> str | None: ...  # noqa: N802  as protobuf has it


def job_spec(name: str, to: str, asked: DaprTiming, data: Message, policy: DaprFailurePolicy | None) -> j.JobSpec:
    """A job as ATF has it.

    Args:
        name: of the job, "namespace/name".
        to: the lambda that brings its ticks to their target.
        asked: when it ticks.
        data: what the target gets with each tick: an Any.
        policy: what becomes of a tick that fails; None: it does not say.

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
        failure_policy=None if policy is None else _policy(policy),
    )
    setattr(spec.task, "lambda", to)  # a keyword of the language
    for field in ("schedule", "due_time", "ttl", "repeats"):
        if asked.HasField(field):
            setattr(spec, field, getattr(asked, field))
    return spec


def fill_timing(made: DaprTiming, spec: j.JobSpec) -> None:
    """Says in one of Dapr's jobs when a job of ATF's ticks, in the words of whoever made it."""
    for field in ("schedule", "due_time", "ttl", "repeats"):
        if spec.HasField(field):
            setattr(made, field, getattr(spec, field))


def data_of(spec: j.JobSpec) -> AnyMessage:
    """What the target of a job gets. Nothing, where somebody made the job by another API, of another payload."""
    try:
        return AnyMessage.FromString(spec.task.payload) if spec.task.encoding == t.RAW else AnyMessage()
    except DecodeError:
        return AnyMessage()


def fill_constant(made: DaprConstantPolicy, policy: j.FailurePolicy) -> None:
    """Says how a tick is retried."""
    made.interval.FromMicroseconds(policy.interval_us)
    if policy.max_retries < FOR_EVER:
        made.max_retries = policy.max_retries


def _policy(policy: DaprFailurePolicy) -> j.FailurePolicy | None:
    """A policy that says neither is the default one."""
    match policy.WhichOneof("policy"):
        case "drop":
            return j.FailurePolicy(drop=True)
        case "constant":
            constant = policy.constant
            retries = constant.max_retries if constant.HasField("max_retries") else FOR_EVER
            return j.FailurePolicy(interval_us=_interval_us(constant), max_retries=min(retries, FOR_EVER))
    return None


def _interval_us(constant: DaprConstantPolicy) -> int:
    """Microseconds; without an interval a tick is tried again at once."""
    interval = constant.interval
    us = interval.seconds * US + round(interval.nanos / 1_000)
    if not 0 <= us <= MAX_AHEAD_US:
        raise InvalidArgument(
            f"failure_policy.constant.interval: {interval.seconds} s and {interval.nanos} ns; give 0 s to ten years"
        )
    return us
