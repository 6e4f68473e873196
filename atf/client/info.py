"""What a client tells about tasks, lambdas and gates: plain frozen values, instants as UTC datetimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.messages import value_of
from atf.sdk.options import from_us
from atf.sdk.payload import decode_result, decoded
from atf.sdk.tracing import trace_id_of
from atf.task import US, Status

from .settings import settings_of

ACTION_WORDS: Final = {
    f.Gate.PAUSE: "pause",
    f.Gate.DROP: "drop",
    f.Gate.DELAY: "delay",
    f.Gate.ADMIT: "admit",
}


@dataclass(frozen=True)
class EndedRun:
    """One run of a task that has ended."""

    owner: str
    """The executor."""
    started_at: datetime | None
    """None: it never said that it started."""
    ended_at: datetime | None
    why: str
    """succeeded, failed, failed_fatal, timed_out, stopped, or handed_back: or lost: and the cause, with (not counted) where it is no loss."""
    attempt: int


@dataclass(frozen=True)
class TaskInfo:
    """A task's record at one instant. The time of each move is None until the task has made it."""

    id: str
    lambda_name: str
    priority: int
    status: Status
    attempts: int
    """Runs that ended by the handler's own doing."""
    losses: int
    """Runs that ended with their executor, but for those that count nothing (docs/reference/lifecycle.md)."""
    runs: int
    scheduled_at: datetime | None
    """The instant asked for."""
    next_at: datetime | None
    """When the store consumer looks at it again; None once it has finished."""
    created_at: datetime | None
    enqueued_at: datetime | None
    claimed_at: datetime | None
    started_at: datetime | None
    failed_at: datetime | None
    finished_at: datetime | None
    owner: str
    """The executor that holds it."""
    cancel_requested: bool
    result: Any
    """Of a SUCCESS: what the handler returned, as JSON has it, or bytes. A `NotDecrypted`, not raised, where it is encrypted and can't be read here."""
    error: str
    """Of the last failure: type and message, then the traceback."""
    error_type: str
    """Of the last failure: the name of the exception's class; empty where none was raised."""
    error_message: str
    """Of the last failure: what the exception said, or what happened."""
    progress: str
    ended_runs: tuple[EndedRun, ...]
    """The last ten."""
    labels: Mapping[str, str]
    trace_id: str
    """Of the trace in which it was scheduled, in hexadecimal; empty: in none."""

    @classmethod
    def from_proto(cls, task: t.Task) -> TaskInfo:
        return value_of(
            cls,
            task,
            status=Status(task.status),
            result=decoded(lambda: decode_result(task.id, task.result, task.result_encoding)),
            ended_runs=tuple(value_of(EndedRun, each) for each in task.ended_runs),
            labels=dict(sorted(task.spec.labels.items())),
            trace_id=trace_id_of(task.spec),
        )


@dataclass(frozen=True)
class LambdaInfo:
    """A registered lambda and the state of its tasks."""

    name: str
    signature: str
    paused: bool
    counts: Mapping[Status, int]
    """Tasks by status."""
    queue_depths: Mapping[str, int]
    """Ids waiting, by queue as RQ shows it: "{partition}namespace/name:priority"."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """What an operator set, before what the code says, by the names of `@app.task`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What holds, owner and runbook among it: by the names of `@app.task`, shares by the number of the priority; None: the default."""
    code: Mapping[str, Any] = field(default_factory=dict)
    """What the code says, in the same way."""

    @classmethod
    def from_proto(cls, info: f.LambdaInfo) -> LambdaInfo:
        return cls(
            name=info.spec.name,
            signature=info.spec.signature,
            paused=info.paused,
            counts={status: info.counts.get(status.name, 0) for status in Status},
            queue_depths={queue.name: queue.depth for queue in info.queues},
            overrides=dict(sorted(info.overrides.items())),
            settings=settings_of(info.in_force if info.HasField("in_force") else info.spec),
            code=settings_of(info.spec),
        )


@dataclass(frozen=True)
class KeyInfo:
    """An ordering key of a lambda."""

    key: str
    stopped_at: datetime | None
    """When it stopped, since a task of it failed for good; None: it has not."""
    task_id: str
    """The task at which it has stopped; else the first of its unfinished ones."""
    error: str
    """Of that one's last failure."""
    unfinished: int
    """Tasks of it; the one at which it has stopped is none."""


@dataclass(frozen=True)
class ConcurrencyKeyInfo:
    """A concurrency key of a lambda."""

    key: str
    taken: int
    """Slots in which tasks of it run."""
    limit: int
    """Slots that it has."""
    waiting: int
    """Tasks in its line."""


@dataclass(frozen=True)
class WaitPart:
    """A part of what a task has waited for."""

    reason: str
    """not due, gated, over a limit, behind a key, no worker, due, queued, claimed or between runs."""
    begun: datetime | None
    seconds: float


@dataclass(frozen=True)
class Explanation:
    """Why a task has not started, or how far it is."""

    task: TaskInfo
    reason: str
    """not_due, behind, key_stopped, job_paused, key_busy, paused, not_registered, gated, claims_paused, max_running, rate, queue_full, due (about to
    be pushed), queued, cant_start, starting, no_pool, not_served, quarantined, no_core, misfit, between, claimed, running, backing_off, put_off or
    finished; the .proto file says what each means."""
    sentence: str
    """The same for people."""
    until: datetime | None
    """When the reason ends by itself; None: unknown."""
    position: int | None
    """In its queue, or behind its ordering key; 0 is the front; None: in neither."""
    behind: str
    """The task it waits for."""
    waits: Sequence[WaitPart] = ()
    """What it has waited for since it was made, or since its run before this one ended, in order."""

    @classmethod
    def from_proto(cls, reply: f.ExplainTaskReply) -> Explanation:
        position = None if reply.position < 0 else reply.position
        waits = [WaitPart(each.reason, from_us(each.begun_us), each.us / US) for each in reply.waits]
        return value_of(cls, reply, task=TaskInfo.from_proto(reply.task), position=position, waits=waits)


@dataclass(frozen=True)
class GateInfo:
    """A gate at one instant."""

    lambda_name: str
    action: str
    """pause, drop, delay or admit."""
    labels: Mapping[str, str]
    """That a task must have for the gate to meet it; empty: it meets all."""
    delay: float
    """Of `delay`: seconds."""
    share: float
    """Of `admit`: 0 to 1."""
    until: datetime | None
    """None: until it is lifted."""
    who: str
    why: str
    automatic: bool
    """ATF set it by itself: see gate_at_fatal."""
    set_at: datetime | None
    waiting: int
    """Tasks that it keeps; of a pause of the whole lambda those that are due."""
    dropped: int
    """Tasks that it has dropped."""

    @classmethod
    def from_proto(cls, gate: f.Gate) -> GateInfo:
        return value_of(cls, gate, action=ACTION_WORDS.get(gate.action, ""), until=from_us(gate.until_at_us))


@dataclass(frozen=True)
class AuditInfo:
    """What somebody did, to which lambdas and tasks."""

    at: datetime | None
    what: str
    """The call: set_gate, cancel_tasks and so on."""
    lambda_name: str
    """Of several the first ones, with ", " between them; empty: of none, or unknown."""
    labels: Mapping[str, str]
    tasks: Sequence[str]
    """The first 20, with the one that was asked for."""
    task_count: int
    """All of them."""
    who: str
    why: str
    detail: str
    outcome: str
    """"done"; else what went wrong: some of it may have been done."""


@dataclass(frozen=True)
class FailureGroupInfo:
    """Dead letters of a lambda that failed by an exception of one type, in one function of its own code."""

    id: str
    lambda_name: str
    error_type: str
    """Empty where nothing was raised, as at a timeout."""
    place: str
    """File and function of the last line of the user's own code: "shop/till.py:pay"."""
    message: str
    """What the newest said."""
    count: int
    first_at: datetime | None
    last_at: datetime | None
    task_id: str
    """The newest."""


@dataclass(frozen=True)
class CancelInfo:
    """What cancelling all tasks that match a filter came to."""

    matched: int
    """Unfinished tasks that match."""
    cancelled: int
    """Of those, cancelled; 0 in a dry run."""
    requested: int
    """Of those, running, and asked to stop; 0 in a dry run."""
    looked_at: int
    ids: tuple[str, ...]
    """Of some that match."""


@dataclass(frozen=True)
class RedriveInfo:
    """What a redrive came to."""

    matched: int
    """Dead letters, or cancelled tasks, that match the filter."""
    redriven: int
    """Of those, started afresh; 0 in a dry run."""
    looked_at: int
    errors: Mapping[str, int]
    """Last lines of their errors, and how many have each; the commonest."""
    ids: tuple[str, ...]
    """Of some of them."""
    last_due_at: datetime | None
    """When the last one becomes due; None in a dry run."""
