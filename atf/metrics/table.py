"""Every metric of ATF, once: its name, kind, labels, buckets, and which processes export it.

docs/reference/metrics.md is drawn from this table. No label names a host, an executor or a task, so that the number of series stays bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .buckets import RUN_SECONDS, SECONDS


class Kind(StrEnum):
    """What becomes of a metric's values."""

    COUNTER = "counter"
    """They only grow; 0 again when the process starts."""
    GAUGE = "gauge"
    """They are what was last read."""
    HISTOGRAM = "histogram"
    """How many values were at most as large as each bucket's bound, and their sum."""


class Sum(StrEnum):
    """How to put together what several processes export."""

    SUM = "sum"
    """Each process counts what it has done itself."""
    MAX = "max"
    """Each process says the same of the whole store."""


FRONTEND: Final = "frontend"
HSC: Final = "hsc"
CONTROLLER: Final = "controller"
STORE_CONSUMER: Final = "store-consumer"
ROLES: Final = (FRONTEND, HSC, CONTROLLER, STORE_CONSUMER)
OF_THE_STORE: Final = (FRONTEND, HSC, STORE_CONSUMER)
"""Those that know the task store."""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    roles: tuple[str, ...] = ROLES
    """Which processes export it."""
    sum: Sum = Sum.SUM
    buckets: tuple[float, ...] = ()
    """Of a histogram."""


def _counter(
    name: str, labels: tuple[str, ...], roles: tuple[str, ...], text: str, together: Sum = Sum.SUM
) -> MetricSpec:
    return MetricSpec(name, Kind.COUNTER, text, labels, roles, together)


def _gauge(
    name: str, labels: tuple[str, ...], roles: tuple[str, ...], text: str, together: Sum = Sum.MAX
) -> MetricSpec:
    return MetricSpec(name, Kind.GAUGE, text, labels, roles, together)


def _histogram(
    name: str, labels: tuple[str, ...], roles: tuple[str, ...], text: str, buckets: tuple[float, ...] = SECONDS
) -> MetricSpec:
    return MetricSpec(name, Kind.HISTOGRAM, text, labels, roles, buckets=buckets)


BUILD_INFO: Final = _gauge(
    "atf_build_info", ("role", "version", "python"), ROLES, "1, with what runs in the labels.", Sum.SUM
)

# --- what a process has done ------------------------------------------------------------------------------------------

TASKS_SCHEDULED: Final = _counter(
    "atf_tasks_scheduled_total",
    ("lambda", "result"),
    (FRONTEND,),
    "Tasks that callers asked for: accepted, existed (the id or the unique key was there), too_many_pending, or refused. Items of batches and ticks of"
    " jobs are not among them.",
)
TASKS_ENDED: Final = _counter(
    "atf_tasks_ended_total",
    ("lambda", "status"),
    (HSC, STORE_CONSUMER),
    "Tasks that ended with a run, a loss or an expired lease: SUCCESS, FATAL_FAILURE or CANCELLED. Tasks that were cancelled before they ran"
    " are not among them.",
)
LEASES_LOST: Final = _counter(
    "atf_leases_lost_total",
    (),
    (HSC, STORE_CONSUMER),
    "Claims that were taken from an executor: it died (reported to the HSC), or its lease expired (found by the store consumer).",
)
RUNS_ENDED: Final = _counter(
    "atf_runs_ended_total",
    ("lambda", "outcome"),
    (CONTROLLER,),
    "Runs that ended on this host: succeeded, failed, failed_fatal, timed_out, stopped, handed_back, misfit or lost.",
)
START_DELAY: Final = _histogram(
    "atf_task_start_delay_seconds",
    ("lambda",),
    (CONTROLLER,),
    "From the instant at which a task was due until its first run began, without the claim's way back to the executor. Later runs of a task"
    " are not counted.",
)
RUN_TIME: Final = _histogram(
    "atf_task_run_seconds", ("lambda",), (CONTROLLER,), "How long runs took, of those that began.", RUN_SECONDS
)
EXECUTOR_STARTS: Final = _counter(
    "atf_executor_starts_total", ("pool",), (CONTROLLER,), "Executor processes that this controller has started."
)
TICKS_MISSED: Final = _counter(
    "atf_ticks_missed_total",
    ("lambda",),
    (STORE_CONSUMER,),
    "Ticks of jobs that made no task since they were found too late, by the job's misfire policy or its grace.",
)
RPC_REQUESTS: Final = _counter(
    "atf_rpc_requests_total",
    ("method", "code"),
    ROLES,
    "Calls that this process answered, by the method and gRPC's status code; health checks and reflection are not among them.",
)
RPC_SECONDS: Final = _histogram(
    "atf_rpc_seconds",
    ("method",),
    ROLES,
    "How long this process took to answer calls. NextWork, NextClaims, ReportHost, WaitTasks, WatchBatch and other calls that wait for something include their wait.",
)
CALLS_REFUSED: Final = _counter(
    "atf_calls_refused_total",
    ("limit",),
    ROLES,
    "Calls that a limit refused: calls, streams, bytes or rate (`caller_calls` …), slow (the request did not come in time), or token (nothing valid was"
    " shown). HTTP requests are among them.",
)
STORE_CALLS: Final = _counter(
    "atf_store_calls_total",
    ("function", "result"),
    OF_THE_STORE,
    "Calls of functions in the task store: ok, or the error in lower case, such as unavailable.",
)
STORE_CALL_SECONDS: Final = _histogram(
    "atf_store_call_seconds",
    ("function",),
    OF_THE_STORE,
    "How long calls of functions in the task store took, the wait for a free connection included.",
)
STORE_CHECK_FAILED: Final = _gauge(
    "atf_store_check_failed",
    ("check",),
    OF_THE_STORE,
    "How a check of the task store's servers stands: 0 well, 1 it warns, 2 it refuses. `atf doctor` says what it found and what to do.",
)
CERTIFICATE_EXPIRES: Final = _gauge(
    "atf_certificate_expires_seconds",
    ("file",),
    ROLES,
    "Seconds until the first certificate of a file ends: of `tls_cert`, `tls_client_ca` or `tls_ca`. Below 0: it has ended. -1 where it can't be read.",
)
CLOCK_STEPS: Final = _counter(
    "atf_clock_steps_total",
    (),
    (STORE_CONSUMER,),
    "Times that the clock of a task store's server was found set back or out of step. Each store consumer sees each step.",
    Sum.MAX,
)

# --- what stands in the store -----------------------------------------------------------------------------------------

TASKS: Final = _gauge("atf_tasks", ("lambda", "status"), (STORE_CONSUMER,), "Tasks on record. 0 is left out.")
TASKS_DUE: Final = _gauge(
    "atf_tasks_due",
    ("lambda",),
    (STORE_CONSUMER,),
    "Tasks that are due and not yet claimed, queued or not. 0 is left out.",
)
QUEUE_DEPTH: Final = _gauge(
    "atf_queue_depth", ("lambda", "priority"), (STORE_CONSUMER,), "Entries of the queues. 0 is left out."
)
DUE_OLDEST: Final = _gauge(
    "atf_due_oldest_seconds",
    ("lambda",),
    (STORE_CONSUMER,),
    "For how long the first of the tasks that are due and not yet claimed has been due. Absent where none is.",
)
LIVE_WORKERS: Final = _gauge(
    "atf_lambda_live_workers",
    ("lambda",),
    (STORE_CONSUMER,),
    "Executors of the lambda's pool that take tasks, where some there run the lambda. 0 is left out.",
)
LAMBDA_GATED: Final = _gauge(
    "atf_lambda_gated", ("lambda",), (STORE_CONSUMER,), "1 where the lambda is paused or has a gate. 0 is left out."
)
SLO_RATIO: Final = _gauge(
    "atf_lambda_slo_ratio",
    ("lambda", "le"),
    (STORE_CONSUMER,),
    "The share of starts that the lambda promises within the bucket `le` of atf_task_start_delay_seconds: its slo, by default 0.95 within 5.0.",
)
WORKERS: Final = _gauge(
    "atf_workers",
    ("pool", "state"),
    (STORE_CONSUMER,),
    "Executors by pool (empty: the pool of no name): working, or draining with their host. failing: hosts on which none can start.",
)
MEMORY_RATIO: Final = _gauge(
    "atf_store_memory_ratio",
    (),
    (STORE_CONSUMER,),
    "Memory in use of the task store's fullest server, as a part of its maxmemory. Absent where no server has a bound.",
)
CLAIMS_PAUSED: Final = _gauge(
    "atf_claims_paused",
    (),
    (STORE_CONSUMER,),
    "Partitions that give no claims now, since leases may have been forgotten; no task of theirs starts.",
)
DUE_LAG: Final = _gauge(
    "atf_due_lag_seconds",
    (),
    (STORE_CONSUMER,),
    "By how much this store consumer is behind: how long ago it should have looked at the partition that waits the longest.",
)

METRICS: Final = (
    BUILD_INFO,
    TASKS_SCHEDULED,
    TASKS_ENDED,
    LEASES_LOST,
    RUNS_ENDED,
    START_DELAY,
    RUN_TIME,
    EXECUTOR_STARTS,
    TICKS_MISSED,
    RPC_REQUESTS,
    RPC_SECONDS,
    CALLS_REFUSED,
    STORE_CALLS,
    STORE_CALL_SECONDS,
    STORE_CHECK_FAILED,
    CERTIFICATE_EXPIRES,
    CLOCK_STEPS,
    TASKS,
    TASKS_DUE,
    QUEUE_DEPTH,
    DUE_OLDEST,
    LIVE_WORKERS,
    LAMBDA_GATED,
    SLO_RATIO,
    WORKERS,
    MEMORY_RATIO,
    CLAIMS_PAUSED,
    DUE_LAG,
)
"""All of them, in the order in which they are shown."""
