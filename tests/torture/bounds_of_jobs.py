"""How much of something a job, a gate, a redrive or an option may have, and a request about them; and words that have a bound of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from atf.frontend.audit import MAX_WHO_CHARS, MAX_WHY_CHARS
from atf.frontend.gates import MAX_LABEL_BYTES
from atf.frontend.jobs import MAX_PREVIEW
from atf.frontend.new_job import MAX_RETRIES
from atf.frontend.redrive import MAX_ERROR_CHARS, MAX_RATE
from atf.rpc import (
    dapr_runtime_pb2 as d,
    frontend_pb2 as f,
    hsc_pb2 as h,
    job_pb2 as j,
    store_consumer_pb2 as s,
    task_pb2 as t,
)
from atf.schedule.every import MAX_REPEATS
from atf.schedule.instants import LATEST_US
from atf.sdk.isolation import MAX_ENQUEUE_TIMEOUT_US, MIN_ENQUEUE_TIMEOUT_US
from atf.task import MAX_AHEAD_US, MAX_BATCH, MAX_HELD, MAX_JOB_CHARS, MAX_KEY_CHARS, MAX_LABELS, US

from .bounds import Bound, next_work
from .world import LAMBDA, World, dapr_job, reminder, schedule

MAX_PREFIX_CHARS: Final = MAX_JOB_CHARS + 65
"""A namespace of 64 characters, the slash and a name."""
MAX_INT64: Final = (1 << 63) - 1
MAX_UINT32: Final = (1 << 32) - 1
OF: Final[dict[str, Any]] = {"lambda": LAMBDA}


def _backoff(**fields: Any) -> Message:
    return schedule("a", options=t.TaskOptions(backoff=t.Backoff(**fields)))


def _registered(**fields: Any) -> Message:
    return f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="a/b", **fields)])


def _gate(**fields: Any) -> Message:
    return f.SetGateRequest(**{**OF, "action": f.Gate.PAUSE, "who": "ada", **fields})


def _action(number: int) -> Message:
    return _gate(action=number, delay_us=9 * (number == f.Gate.DELAY), share=0.5 * (number == f.Gate.ADMIT))


def _lift(**fields: Any) -> Message:
    return f.LiftGateRequest(**{**OF, "who": "ada", **fields})


def _redrive(**fields: Any) -> Message:
    return f.RedriveRequest(**{"filter": OF, "who": "ada", "dry_run": True, **fields})


def _cancel_matching(**fields: Any) -> Message:
    return f.CancelMatchingRequest(**{"filter": OF, "who": "ada", "dry_run": True, **fields})


def _job(name: str = "photos/new", **fields: Any) -> Message:
    spec = j.JobSpec(name=name, task=t.TaskSpec(**OF), schedule="@daily", **fields)
    return f.ScheduleJobRequest(job=spec)


def _policy(**fields: Any) -> Message:
    return _job(failure_policy=j.FailurePolicy(**fields))


def _preview(**fields: Any) -> Message:
    return f.PreviewScheduleRequest(job=j.JobSpec(schedule="@daily"), **fields)


def _labels_of(size: int) -> dict[str, str]:
    """As many bytes as they are stored in."""
    labels: dict[str, str] = {}
    while size > 0:
        name = chr(ord("a") + len(labels))
        value = min(size - 1, 3 * 60)
        labels[name] = "%" * (value // 3) + "x" * (value % 3)
        size -= 1 + value
    return labels


def _labels(count: int) -> dict[str, str]:
    return {str(each): "" for each in range(count)}


def _dapr(made: Any, repeats: int = 3, seconds: int = 1, retries: int = 2) -> Message:
    """The request of one of Dapr's services that makes a job, with these numbers in it."""
    made.job.repeats = repeats
    made.job.failure_policy.constant.interval.seconds = seconds
    made.job.failure_policy.constant.max_retries = retries
    request: Message = made
    return request


def _of_runtime(w: World) -> Any:
    return d.ScheduleJobRequest(job=dapr_job(w.fresh()))


MAKES_A_JOB: Final[dict[str, Callable[[World], Any]]] = {
    "Dapr.ScheduleJob": _of_runtime,
    "Scheduler.ScheduleJob": lambda w: reminder(w.fresh()),
}


def _of_filter(method: str, made: Callable[..., Message], status: t.Status) -> dict[str, Bound]:
    """Of what is done to all tasks that match a filter."""

    def filtered(**fields: Any) -> Message:
        return made(filter={**OF, **fields})

    return {
        f"{method}: statuses": Bound(method, lambda _, n: filtered(statuses=[status] * n), 0, 64, "statuses"),
        f"{method}: priorities": Bound(method, lambda _, n: filtered(priorities=[1] * n), 0, 64, "priorities"),
        f"{method}: labels": Bound(method, lambda _, n: filtered(labels=_labels(n)), 0, MAX_LABELS, "labels"),
        f"{method}: searched arguments": Bound(
            method, lambda _, n: filtered(search={str(each): "" for each in range(n)}), 0, 0, "search"
        ),
        f"{method}: since": Bound(method, lambda _, n: filtered(since_at_us=n), 0, 1 << 53, "since_at_us"),
        f"{method}: until": Bound(method, lambda _, n: filtered(until_at_us=n), 0, 1 << 53, "until_at_us"),
    }


def _of_dapr(method: str, made: Callable[[World], Any]) -> dict[str, Bound]:
    return {
        f"{method}: repeats": Bound(method, lambda w, n: _dapr(made(w), repeats=n), 1, MAX_UINT32, "repeats"),
        f"{method}: an interval": Bound(
            method, lambda w, n: _dapr(made(w), seconds=n), 0, MAX_AHEAD_US // US, "failure_policy.constant.interval"
        ),
        f"{method}: retries": Bound(method, lambda w, n: _dapr(made(w), retries=n), 0, MAX_UINT32, ""),
    }


WHO: Final[dict[str, Callable[..., Message]]] = {
    "SetGate": _gate,
    "LiftGate": _lift,
    "Redrive": _redrive,
    "CancelMatching": _cancel_matching,
    "PauseLambda": lambda **fields: f.PauseLambdaRequest(**{**OF, "who": "ada", **fields}),
    "ResumeLambda": lambda **fields: f.ResumeLambdaRequest(**{**OF, "who": "ada", **fields}),
}
"""How to say who asks for a thing."""


def _of_who(method: str, made: Callable[..., Message]) -> dict[str, Bound]:
    return {
        f"{method}: who": Bound(method, lambda _, n: made(who="ä" * n), 1, MAX_WHO_CHARS, "who"),
        f"{method}: why": Bound(method, lambda _, n: made(why="ä" * n), 0, MAX_WHY_CHARS, "why"),
    }


BOUNDS: Final[dict[str, Bound]] = {
    "a backoff's base": Bound("Schedule", lambda _, n: _backoff(base_us=n), 0, MAX_AHEAD_US, "backoff.base_us"),
    "a backoff's factor": Bound("Schedule", lambda _, n: _backoff(factor=n), 0, 1_000, "backoff.factor"),
    "a backoff's most": Bound("Schedule", lambda _, n: _backoff(max_us=n), 0, MAX_AHEAD_US, "backoff.max_us"),
    "a backoff's jitter": Bound("Schedule", lambda _, n: _backoff(jitter=n), 0, 1, "backoff.jitter"),
    "an enqueue_timeout": Bound(
        "RegisterLambdas",
        lambda _, n: _registered(enqueue_timeout_us=n),
        MIN_ENQUEUE_TIMEOUT_US,
        MAX_ENQUEUE_TIMEOUT_US,
        "enqueue_timeout",
    ),
    "a share": Bound("RegisterLambdas", lambda _, n: _registered(shares={0: n}), 1, 1, "shares"),
    "gate_at_fatal": Bound("RegisterLambdas", lambda _, n: _registered(gate_at_fatal=n), 0, 1, "gate_at_fatal"),
    "a page of jobs": Bound("ListJobs", lambda _, n: f.ListJobsRequest(page_size=n), 0, MAX_BATCH, "page_size"),
    "the beginning of jobs' names": Bound(
        "ListJobs", lambda _, n: f.ListJobsRequest(prefix="x" * n), 0, MAX_PREFIX_CHARS, "prefix"
    ),
    "the beginning of names to delete": Bound(
        "DeleteJobsByPrefix", lambda _, n: f.DeleteJobsByPrefixRequest(prefix="x" * n), 1, MAX_PREFIX_CHARS, "prefix"
    ),
    "a page of the audit log": Bound(
        "ListAudit", lambda _, n: f.ListAuditRequest(page_size=n), 0, MAX_BATCH, "page_size"
    ),
    "where a page of the audit log begins": Bound(
        "ListAudit", lambda _, n: f.ListAuditRequest(before=n), 0, MAX_INT64, "before"
    ),
    "since when the audit log is asked for": Bound(
        "ListAudit", lambda _, n: f.ListAuditRequest(since_at_us=n), 0, MAX_INT64, "since "
    ),
    "until when the audit log is asked for": Bound(
        "ListAudit", lambda _, n: f.ListAuditRequest(until_at_us=n), 0, MAX_INT64, "until "
    ),
    "a page of groups of failures": Bound(
        "ListFailures", lambda _, n: f.ListFailuresRequest(page_size=n), 0, MAX_BATCH, "page_size"
    ),
    "since when groups of failures are asked for": Bound(
        "ListFailures", lambda _, n: f.ListFailuresRequest(since_at_us=n), 0, 1 << 53, "since_at_us"
    ),
    "who asks, where that may be left out": Bound(
        "CancelTasks", lambda _, n: f.CancelTasksRequest(who="ä" * n), 0, MAX_WHO_CHARS, "who"
    ),
    "why, where that may be left out": Bound(
        "CancelTasks", lambda _, n: f.CancelTasksRequest(why="ä" * n), 0, MAX_WHY_CHARS, "why"
    ),
    "ticks to preview": Bound("PreviewSchedule", lambda _, n: _preview(count=n), 0, MAX_PREVIEW, "count"),
    "where a preview begins": Bound("PreviewSchedule", lambda _, n: _preview(from_at_us=n), 0, LATEST_US, "from_at_us"),
    "a redrive's rate": Bound("Redrive", lambda _, n: _redrive(rate=n), 0, MAX_RATE, "rate"),
    "a redrive's error": Bound("Redrive", lambda _, n: _redrive(error="ä" * n), 0, MAX_ERROR_CHARS, "error"),
    **_of_filter("Redrive", _redrive, t.FATAL_FAILURE),
    **_of_filter("CancelMatching", _cancel_matching, t.NEW),
    "bytes of a gate's labels": Bound(
        "SetGate", lambda _, n: _gate(labels=_labels_of(n)), 0, MAX_LABEL_BYTES, "at most 2048 in one gate"
    ),
    "a gate's labels": Bound("SetGate", lambda _, n: _gate(labels=_labels(n)), 0, MAX_LABELS, "labels"),
    "a gate's action": Bound("SetGate", lambda _, n: _action(n), 1, 4, "action"),
    "a gate's delay": Bound(
        "SetGate", lambda _, n: _gate(action=f.Gate.DELAY, delay_us=n), 1, MAX_AHEAD_US, "delay by"
    ),
    "a gate's length": Bound("SetGate", lambda _, n: _gate(for_us=n), 1, MAX_AHEAD_US, "for "),
    "a lifted gate's labels": Bound("LiftGate", lambda _, n: _lift(labels=_labels(n)), 0, MAX_LABELS, "labels"),
    "a lifted gate's action": Bound("LiftGate", lambda _, n: _lift(action=n), 0, 4, "action"),
    "a job's name": Bound("ScheduleJob", lambda _, n: _job(f"photos/{'x' * n}"), 1, MAX_JOB_CHARS, "job"),
    "a job's repeats": Bound("ScheduleJob", lambda _, n: _job(repeats=n), 1, MAX_REPEATS, "repeats"),
    "a job's misfire policy": Bound("ScheduleJob", lambda _, n: _job(misfire=n), 0, 3, "misfire"),
    "a job's grace": Bound("ScheduleJob", lambda _, n: _job(grace_us=n), 0, MAX_AHEAD_US, "grace_us"),
    "a job's overlap policy": Bound("ScheduleJob", lambda _, n: _job(overlap=n), 0, 4, "overlap"),
    "a job's jitter": Bound("ScheduleJob", lambda _, n: _job(jitter_us=n), 0, MAX_AHEAD_US, "jitter_us"),
    "a job's retention": Bound("ScheduleJob", lambda _, n: _job(retention_us=n), 0, MAX_AHEAD_US, "retention_us"),
    "a job's interval of retries": Bound(
        "ScheduleJob", lambda _, n: _policy(interval_us=n), 0, MAX_AHEAD_US, "failure_policy.interval_us"
    ),
    "a job's retries": Bound(
        "ScheduleJob", lambda _, n: _policy(max_retries=n), 0, MAX_RETRIES, "failure_policy.max_retries"
    ),
    "claims to hand back": Bound(
        "HandBack",
        lambda _, n: h.HandBackRequest(executor_id="e", claims=[t.ClaimRef(task_id="0-a")] * n),
        0,
        MAX_HELD,
        "claims",
    ),
    "the encoding of a result": Bound(
        "SetResults",
        lambda _, n: h.SetResultsRequest(
            executor_id="e",
            results=[h.Result(claim=t.ClaimRef(task_id="0-a"), outcome=t.SUCCEEDED, encoding=n)],  # type: ignore[arg-type]
        ),
        0,
        1,
        "encoding",
    ),
    "a key of first_time": Bound(
        "FirstTime",
        lambda _, n: h.FirstTimeRequest(
            executor_id="e", keys=[h.FirstTimeKey(task_id="0-a", namespace="n", key="ä" * n, ttl_us=1)]
        ),
        1,
        MAX_KEY_CHARS,
        "key of first_time",
    ),
    "a call stream": Bound("NextWork", lambda w, n: next_work(w, stream="x" * n), 0, 16, "stream"),
    "a partition": Bound("StoreConsumer.Poll", lambda _, n: s.PollRequest(partitions=[n]), 0, 1, "partitions"),
    "partitions": Bound("StoreConsumer.Poll", lambda _, n: s.PollRequest(partitions=[0] * n), 0, 2, "partitions"),
    **{what: bound for method, made in MAKES_A_JOB.items() for what, bound in _of_dapr(method, made).items()},
    **{what: bound for method, made in WHO.items() for what, bound in _of_who(method, made).items()},
}
