"""How much of something a request to the frontend, the HSC or the controller may have; bounds_of_jobs.py has more of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from atf.auth.secrets import MAX_CHARS
from atf.controller.requests import MAX_ACK, MAX_LAMBDAS
from atf.controller.run_metrics import MAX_REPORT
from atf.cores.pool import MAX_CORES, MAX_LOOKAHEAD, MAX_RETRIES, MAX_TIME_US, MIN_TIME_US
from atf.frontend import batch_view
from atf.frontend.batches import MAX_PAGE
from atf.frontend.scheduling import MAX_REQUESTS
from atf.frontend.validate import MAX_REDACTED, MAX_REGISTERED_AT_ONCE, MAX_SCHEDULE_CHARS, MAX_SIGNATURE_CHARS
from atf.hsc.hosts import MAX_EXECUTORS, MAX_KNOWN_US, MAX_SETS
from atf.rpc import batch_pb2 as b, controller_pb2 as c, frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.rpc.lambda_sets import LambdaSet
from atf.sdk.isolation import (
    MAX_AT_ONCE,
    MAX_BURST,
    MAX_OWNER_CHARS,
    MAX_PENDING,
    MAX_QUEUE_LIMIT,
    MAX_RATE,
    MAX_RUNBOOK_CHARS,
    MAX_VERSION,
)
from atf.sdk.work_items import MAX_ITEMS
from atf.task import (
    MAX_AHEAD_US,
    MAX_BATCH,
    MAX_FIRST_TIME_US,
    MAX_HELD,
    MAX_NONCE_CHARS,
    MAX_PAYLOAD_BYTES,
    MAX_RESULT_BYTES,
)

from .world import BATCH, JOB, LAMBDA, TOKEN_ID, World, full_job, lambda_spec, next_claims, schedule, token


class Bound(NamedTuple):
    """How much of something a request may have."""

    method: str
    """With its service, where that is not the one that SERVICE has."""
    request: Callable[[World, int], Message]
    """With so much of it."""
    least: int
    most: int
    says: str
    """What a refusal's sentence names it by."""

    @property
    def full_method(self) -> str:
        return self.method if "." in self.method else f"{SERVICE.get(self.method, 'Frontend')}.{self.method}"


def _option(**fields: Any) -> Message:
    return schedule("a", options=t.TaskOptions(**fields))


def spec_with(**fields: Any) -> Message:
    spec = lambda_spec()
    for name, value in fields.items():
        setattr(spec, name, value)
    return f.RegisterLambdasRequest(lambdas=[spec])


def _shares(shares: dict[int, float]) -> Message:
    return f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="a/b", shares=shares)])


def next_work(w: World, **fields: Any) -> Message:
    given = {
        "executor_id": "e",
        "nonce": "n",
        "max_tasks": 1,
        "lambdas": [LAMBDA],
        "boot_id": w.runtime.boot_id(),
        **fields,
    }
    given = {"signatures": ["d"] * len(given["lambdas"]), "heartbeat_timeout_us": 16_000_000, **given}
    return c.NextWorkRequest(**given)


def _report(number: int = 1, lambdas: int = 1) -> c.ReportRunsRequest:
    of: list[dict[str, Any]] = [{"lambda": name} for name in _names(lambdas)]
    runs = [c.LambdaRuns(**each) for each in of]
    return c.ReportRunsRequest(executor_id="e", number=number, runs=runs)


def _ask(**fields: Any) -> h.NextClaimsRequest:
    return next_claims(**{"wait_us": 1, **fields})


def _host(**fields: Any) -> h.ReportHostRequest:
    return h.ReportHostRequest(**{"host": "h", "known_us": 1, **fields})


def _quarantined(for_us: int) -> h.HostQuarantine:
    return h.HostQuarantine(for_us=for_us, **{"lambda": LAMBDA})


def _set(lambdas: int) -> h.NamedSet:
    names = _names(lambdas)
    return h.NamedSet(digest=LambdaSet(dict.fromkeys(names, "")).digest, lambdas=names)


def _first(ttl_us: int = 1) -> h.FirstTimeKey:
    return h.FirstTimeKey(task_id="0-a", namespace="n", key="k", ttl_us=ttl_us)


def _ref(number: int) -> t.ClaimRef:
    return t.ClaimRef(task_id=f"0-{number}", token=t.Token(counter=1, nonce="n"))


def _concurrency(**fields: Any) -> t.Concurrency:
    return t.Concurrency(**{"key": "x", **fields})


def _unique(**fields: Any) -> t.Unique:
    return t.Unique(**{"key": "x", "window_us": 1_000_000, **fields})


def page_of_tasks(**fields: Any) -> Message:
    return f.ListTasksRequest(**{"filter": {"lambda": LAMBDA}, **fields})


def _filtered(**fields: Any) -> Message:
    return f.ListTasksRequest(filter=f.TaskFilter(**fields))


def _cores(**fields: Any) -> Message:
    return f.SetCapacityRequest(**fields)


def _time(name: str) -> Bound:
    return Bound("SetCapacity", lambda _, n: _cores(**{name: n}), MIN_TIME_US, MAX_TIME_US, name.removesuffix("_us"))


def _hold(count: int) -> list[h.HeldClaim]:
    return [h.HeldClaim(claim=_ref(each)) for each in range(count)]


def _names(count: int) -> list[str]:
    return [f"n/{each}" for each in range(count)]


BOUNDS = {
    "a page of batches": Bound(
        "ListBatches", lambda _, n: b.ListBatchesRequest(page_size=n), 0, MAX_BATCH, "page_size"
    ),
    "a page of items": Bound(
        "ListBatchItems", lambda _, n: b.ListBatchItemsRequest(id=BATCH, page_size=n), 0, MAX_PAGE, "page_size"
    ),
    "statuses of items": Bound(
        "ListBatchItems",
        lambda _, n: b.ListBatchItemsRequest(id=BATCH, statuses=[b.ITEM_DONE] * n),
        0,
        len(batch_view.TASK_STATUSES),
        "statuses",
    ),
    "the first item of a page": Bound(
        "ListBatchItems", lambda _, n: b.ListBatchItemsRequest(id=BATCH, first=n), 0, MAX_ITEMS, "first"
    ),
    "an id": Bound("Schedule", lambda _w, n: schedule("x" * n), 0, 64, "task id"),
    "a namespace": Bound("RegisterLambdas", lambda _w, n: spec_with(name="x" * n + "/a"), 1, 64, "lambda"),
    "a lambda's name": Bound("RegisterLambdas", lambda _w, n: spec_with(name="a/" + "x" * n), 1, 64, "lambda"),
    "an ordering key": Bound("Schedule", lambda _w, n: schedule("a", ordering_key="ä" * n), 0, 255, "ordering_key"),
    "a concurrency key": Bound(
        "Schedule", lambda _w, n: schedule("a", concurrency=t.Concurrency(key="ä" * n)), 1, 255, "concurrency.key"
    ),
    "a concurrency key's limit": Bound(
        "Schedule",
        lambda _w, n: schedule("a", concurrency=t.Concurrency(key="x", limit=n)),
        0,
        10_000,
        "concurrency.limit",
    ),
    "a concurrency key's policy": Bound(
        "Schedule", lambda _w, n: schedule("a", concurrency=_concurrency(policy=n)), 0, 2, "concurrency.policy"
    ),
    "a unique key": Bound("Schedule", lambda _w, n: schedule("a", unique=_unique(key="ä" * n)), 1, 255, "unique.key"),
    "a unique key's window": Bound(
        "Schedule", lambda _w, n: schedule("a", unique=_unique(window_us=n)), 1_000, MAX_AHEAD_US, "unique.window_us"
    ),
    "a unique key's policy": Bound(
        "Schedule", lambda _w, n: schedule("a", unique=_unique(policy=n)), 0, 1, "unique.policy"
    ),
    "a label's name": Bound("Schedule", lambda _w, n: schedule("a", labels={"ä" * n: ""}), 1, 64, "label"),
    "a label's value": Bound("Schedule", lambda _w, n: schedule("a", labels={"a": "ä" * n}), 0, 64, "label"),
    "labels": Bound(
        "Schedule", lambda _w, n: schedule("a", labels={str(each): "" for each in range(n)}), 0, 16, "labels"
    ),
    "a payload": Bound("Schedule", lambda _w, n: schedule("a", payload=bytes(n)), 0, MAX_PAYLOAD_BYTES, "payload"),
    "priority": Bound("Schedule", lambda _w, n: _option(priority=n), 0, 9, "priority"),
    "attempts": Bound("Schedule", lambda _w, n: _option(max_attempts=n), 1, (1 << 31) - 1, "max_attempts"),
    "losses": Bound("Schedule", lambda _w, n: _option(max_losses=n), 1, 100, "max_losses"),
    "a timeout": Bound("Schedule", lambda _w, n: _option(timeout_us=n), 0, MAX_AHEAD_US, "timeout_us"),
    "a retention": Bound("Schedule", lambda _w, n: _option(retention_us=n), 0, MAX_AHEAD_US, "retention_us"),
    "a delay": Bound("Schedule", lambda _w, n: schedule("a", delay_us=n), 0, MAX_AHEAD_US, "delay_us"),
    "requests": Bound(
        "ScheduleMany", lambda _w, n: f.ScheduleManyRequest(requests=[schedule("")] * n), 0, MAX_REQUESTS, "requests"
    ),
    "jobs": Bound(
        "ScheduleJobs",
        lambda _w, n: f.ScheduleJobsRequest(requests=[f.ScheduleJobRequest(job=full_job(JOB))] * n),
        0,
        MAX_REQUESTS,
        "requests",
    ),
    "lambdas registered": Bound(
        "RegisterLambdas",
        lambda _w, n: f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=each) for each in _names(n)]),
        0,
        MAX_REGISTERED_AT_ONCE,
        "lambdas",
    ),
    "a signature": Bound(
        "RegisterLambdas", lambda _w, n: spec_with(signature="ä" * n), 0, MAX_SIGNATURE_CHARS, "signature"
    ),
    "a schedule": Bound(
        "RegisterLambdas", lambda _w, n: spec_with(schedule="ä" * n), 0, MAX_SCHEDULE_CHARS, "schedule"
    ),
    "a drain": Bound(
        "DrainHost",
        lambda _w, n: f.DrainHostRequest(host="host-1", for_us=n, who="ada"),
        1,
        MAX_AHEAD_US,
        "more than 0",
    ),
    "a token's life": Bound("CreateToken", lambda _w, n: token(expires_in_us=n), 0, MAX_AHEAD_US, "expires_in"),
    "an overlap": Bound(
        "RotateToken",
        lambda _w, n: f.RotateTokenRequest(id=TOKEN_ID, digest="b" * 64, overlap_us=n),
        0,
        MAX_AHEAD_US,
        "overlap",
    ),
    "namespaces of a token": Bound(
        "CreateToken", lambda _w, n: token(scopes=[f"n{each}" for each in range(n)]), 1, 100, "namespaces"
    ),
    "pools of a token": Bound(
        "CreateToken", lambda _w, n: token(pools=[f"p{each}" for each in range(n)]), 0, 100, "pools"
    ),
    "verbs of a token": Bound("CreateToken", lambda _w, n: token(verbs=["read"] * n), 1, 6, "verbs"),
    "a recent failure": Bound("GetStatus", lambda _w, n: f.GetStatusRequest(recent_us=n), 0, MAX_AHEAD_US, "recent_us"),
    "declared arguments": Bound(
        "RegisterLambdas",
        lambda _w, n: f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="a/b", search=["p"] * n)]),
        0,
        8,
        "search",
    ),
    "redacted arguments": Bound(
        "RegisterLambdas",
        lambda _w, n: f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="a/b", redact=["p"] * n)]),
        0,
        MAX_REDACTED,
        "redact",
    ),
    "a queue": Bound("RegisterLambdas", lambda _w, n: spec_with(queue_limit=n), 0, MAX_QUEUE_LIMIT, "queue_limit"),
    "an affinity key": Bound("Schedule", lambda _w, n: schedule("a", affinity_key="ä" * n), 0, 255, "affinity_key"),
    "an owner": Bound("RegisterLambdas", lambda _w, n: spec_with(owner="ä" * n), 0, MAX_OWNER_CHARS, "owner"),
    "a runbook": Bound("RegisterLambdas", lambda _w, n: spec_with(runbook="ä" * n), 0, MAX_RUNBOOK_CHARS, "runbook"),
    "a rate": Bound("RegisterLambdas", lambda _w, n: spec_with(rate=n, burst=0), 0, MAX_RATE, "rate"),
    "a burst": Bound("RegisterLambdas", lambda _w, n: spec_with(rate=1, burst=n), 0, MAX_BURST, "burst"),
    "pending": Bound("RegisterLambdas", lambda _w, n: spec_with(max_pending=n), 0, MAX_PENDING, "max_pending"),
    "running": Bound("RegisterLambdas", lambda _w, n: spec_with(max_running=n), 0, MAX_AT_ONCE, "max_running"),
    "a share's priority": Bound("RegisterLambdas", lambda _w, n: _shares({n: 0.5}), 0, 9, "priority"),
    "shares": Bound("RegisterLambdas", lambda _w, n: _shares(dict.fromkeys(range(n), 0.1)), 0, 10, "priority"),
    "a pool": Bound("RegisterLambdas", lambda _w, n: spec_with(pool="x" * n), 0, 64, "pool"),
    "kept logs": Bound("RegisterLambdas", lambda _w, n: spec_with(logs=n), 0, 2, "logs"),
    "a placement": Bound("RegisterLambdas", lambda _w, n: spec_with(placement=n), 0, 2, "placement"),
    "a version": Bound("RegisterLambdas", lambda _w, n: spec_with(version=n), 0, MAX_VERSION, "version"),
    "cores": Bound("SetCapacity", lambda _w, n: _cores(cores=n), 0, MAX_CORES, "cores"),
    "a reservation": Bound("SetCapacity", lambda _w, n: _cores(cores=64, reserve={LAMBDA: n}), 0, 63, "cores"),
    "a lookahead": Bound("SetCapacity", lambda _w, n: _cores(lookahead=n), 1, MAX_LOOKAHEAD, "lookahead"),
    "retries": Bound("SetCapacity", lambda _w, n: _cores(max_retries=n), 0, MAX_RETRIES, "max_retries"),
    **{
        f"a time: {name}": _time(name)
        for name in ("hand_over_us", "reserved_timeout_us", "multiplexed_timeout_us", "rotation_us")
    },
    "ids to wait for": Bound(
        "WaitTasks", lambda w, n: f.WaitTasksRequest(ids=[w.new] * n, timeout_us=1), 1, MAX_BATCH, "ids"
    ),
    "ids to cancel": Bound("CancelTasks", lambda _w, n: f.CancelTasksRequest(ids=["0-a"] * n), 0, MAX_BATCH, "ids"),
    "ids to retry": Bound("RetryTasks", lambda _w, n: f.RetryTasksRequest(ids=["0-a"] * n), 0, MAX_BATCH, "ids"),
    "a page": Bound("ListTasks", lambda _w, n: page_of_tasks(page_size=n), 0, MAX_BATCH, "page_size"),
    "a page of lambdas": Bound(
        "ListLambdas", lambda _, n: f.ListLambdasRequest(page_size=n), 0, MAX_BATCH, "page_size"
    ),
    "a page of keys": Bound(
        "ListKeys", lambda _w, n: f.ListKeysRequest(**{"lambda": LAMBDA}, page_size=n), 0, MAX_BATCH, "page_size"
    ),
    "a page of concurrency keys": Bound(
        "ListConcurrencyKeys",
        lambda _w, n: f.ListConcurrencyKeysRequest(**{"lambda": LAMBDA}, page_size=n),
        0,
        MAX_BATCH,
        "page_size",
    ),
    "a status": Bound("ListTasks", lambda _w, n: _filtered(statuses=[n]), 1, 8, "statuses"),
    "labels of a filter": Bound(
        "ListTasks", lambda _w, n: _filtered(labels={str(each): "" for each in range(n)}), 0, 16, "labels"
    ),
    "searched arguments": Bound(
        "ListTasks", lambda _w, n: _filtered(search={str(each): "" for each in range(n)}), 0, 0, "search"
    ),
    "statuses": Bound("ListTasks", lambda _w, n: _filtered(statuses=[1] * n), 0, 64, "statuses"),
    "a priority of a filter": Bound("ListTasks", lambda _w, n: _filtered(priorities=[n]), 0, 9, "priority"),
    "priorities": Bound("ListTasks", lambda _w, n: _filtered(priorities=[1] * n), 0, 64, "priorities"),
    "the beginning of a span": Bound("ListTasks", lambda _w, n: _filtered(since_at_us=n), 0, 1 << 53, "since"),
    "the end of a span": Bound("ListTasks", lambda _w, n: _filtered(until_at_us=n), 0, 1 << 53, "until"),
    "an encoding": Bound("Schedule", lambda _w, n: schedule("a", encoding=n), 0, 1, "encoding"),
    "an executor of the HSC": Bound(
        "Heartbeat", lambda _w, n: h.HeartbeatRequest(executor_id="x" * n), 1, 128, "executor_id"
    ),
    "a nonce": Bound("NextClaims", lambda _w, n: _ask(nonce="x" * n), 1, MAX_NONCE_CHARS, "nonce"),
    "tasks of an ask": Bound("NextClaims", lambda _w, n: _ask(max_tasks=n), 1, MAX_BATCH, "max_tasks"),
    "what an ask does without": Bound("NextClaims", lambda _w, n: _ask(without=_names(n)), 0, MAX_LAMBDAS, "without"),
    "lambdas of a set": Bound(
        "NextClaims",
        lambda _w, n: _ask(lambda_set=_set(n).digest, lambdas=_names(n), signatures=[]),
        0,
        2 * MAX_LAMBDAS,
        "lambdas",
    ),
    "executors of a host": Bound(
        "ReportHost",
        lambda _w, n: _host(executors=[h.HostExecutor(executor_id="e")] * n),
        0,
        MAX_EXECUTORS,
        "executors",
    ),
    "sets of an executor": Bound(
        "ReportHost",
        lambda _w, n: _host(executors=[h.HostExecutor(executor_id="e", lambda_sets=[LambdaSet({}).digest] * n)]),
        0,
        MAX_SETS,
        "lambda_sets",
    ),
    "sets of a host": Bound("ReportHost", lambda _w, n: _host(sets=[_set(1)] * n), 0, MAX_SETS, "sets"),
    "lambdas of a host's set": Bound(
        "ReportHost",
        lambda _w, n: _host(sets=[_set(n)]),
        1,
        2 * MAX_LAMBDAS,
        "lambdas",
    ),
    "what a host quarantines": Bound(
        "ReportHost", lambda _w, n: _host(quarantined=[_quarantined(1)] * n), 0, MAX_BATCH, "quarantined"
    ),
    "how long it does": Bound(
        "ReportHost", lambda _w, n: _host(quarantined=[_quarantined(n)]), 0, MAX_KNOWN_US, "for_us"
    ),
    "how long a report counts": Bound("ReportHost", lambda _w, n: _host(known_us=n), 1, MAX_KNOWN_US, "known_us"),
    "claims of a heartbeat": Bound(
        "Heartbeat", lambda _w, n: h.HeartbeatRequest(executor_id="e", claims=_hold(n)), 0, MAX_HELD, "claims"
    ),
    "results": Bound(
        "SetResults",
        lambda _w, n: h.SetResultsRequest(executor_id="e", results=[h.Result(claim=_ref(1), outcome=t.FAILED)] * n),
        0,
        MAX_BATCH,
        "results",
    ),
    "a result": Bound(
        "SetResults",
        lambda _w, n: h.SetResultsRequest(
            executor_id="e", results=[h.Result(claim=_ref(1), outcome=t.SUCCEEDED, result=bytes(n))]
        ),
        0,
        MAX_RESULT_BYTES,
        "result",
    ),
    "an outcome": Bound(
        "SetResults",
        lambda _w, n: h.SetResultsRequest(
            executor_id="e",
            results=[h.Result(claim=_ref(1), outcome=n, signature="a")],  # type: ignore[arg-type]
        ),
        1,
        7,
        "outcome",
    ),
    "claims handed back": Bound(
        "HandBack", lambda _w, n: h.HandBackRequest(executor_id="e", claims=[_ref(1)] * n), 0, MAX_HELD, "claims"
    ),
    "asks given up": Bound(
        "HandBack", lambda _w, n: h.HandBackRequest(executor_id="e", nonces=["n"] * n), 0, MAX_BATCH, "nonces"
    ),
    "claims lost": Bound(
        "ReportLoss",
        lambda _w, n: h.ReportLossRequest(executor_id="e", claims=[_ref(1)] * n),
        0,
        MAX_HELD,
        "claims",
    ),
    "keys of first_time": Bound(
        "FirstTime", lambda _w, n: h.FirstTimeRequest(executor_id="e", keys=[_first()] * n), 0, MAX_BATCH, "keys"
    ),
    "a ttl of first_time": Bound(
        "FirstTime",
        lambda _w, n: h.FirstTimeRequest(executor_id="e", keys=[_first(ttl_us=n)]),
        1,
        MAX_FIRST_TIME_US,
        "ttl",
    ),
    "an executor": Bound("NextWork", lambda w, n: next_work(w, executor_id="x" * n), 1, 64, "executor_id"),
    "tasks of an answer": Bound("NextWork", lambda w, n: next_work(w, max_tasks=n), 1, MAX_BATCH, "max_tasks"),
    "lambdas of an executor": Bound(
        "NextWork", lambda w, n: next_work(w, lambdas=_names(n)), 1, MAX_LAMBDAS, "lambdas"
    ),
    "a set of lambdas": Bound("NextWork", lambda w, n: next_work(w, set=n), 0, MAX_ACK, "set"),
    "a secret of Enter": Bound(
        "Enter", lambda _, n: c.EnterRequest(executor_id="e", secret="x" * n), 1, MAX_CHARS, "secret"
    ),
    "a report of runs": Bound("ReportRuns", lambda _, n: _report(number=n), 1, MAX_REPORT, "number"),
    "lambdas of a report": Bound("ReportRuns", lambda _, n: _report(lambdas=n), 0, MAX_BATCH, "runs"),
    "a nonce of a call": Bound("NextWork", lambda w, n: next_work(w, nonce="x" * n), 1, MAX_NONCE_CHARS, "nonce"),
    "an acknowledgement": Bound("NextWork", lambda w, n: next_work(w, ack=n), 0, MAX_ACK, "ack"),
}
SERVICE = dict.fromkeys(("NextWork", "ReportRuns", "Enter"), "Controller") | dict.fromkeys(
    ("NextClaims", "ReportHost", "Heartbeat", "SetResults", "HandBack", "ReportLoss", "FirstTime"), "HSC"
)
