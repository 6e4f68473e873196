"""Which call takes which options: one class for each kind of call. What their values become stands beside what they are of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from .options import Concurrency, Duration, RunOptions, Unique

if TYPE_CHECKING:
    from .chains import Step
    from .schedulable import Schedulable

Point = str | datetime | timedelta
"""An instant, or a duration from some other one: RFC 3339 or ISO 8601 or Go's, in text; or a value of Python's."""

CallbackLike: TypeAlias = "str | Schedulable[..., Any] | Step[Any] | Sequence[str | Schedulable[..., Any] | Step[Any]]"


class LambdaOptions(RunOptions, total=False):
    """What `@app.task(...)` takes."""

    name: str  # default: the function's
    aliases: Mapping[str, str]  # old name of a parameter -> present one: payloads of before it was renamed
    redact: Collection[str]  # parameters whose values nobody is to see
    search: Collection[str]  # parameters by whose values tasks are found
    schedule: str  # the lambda is a job, too, of its own name: when it ticks
    tz: str  # by whose clocks its schedule is read; default UTC
    job: Mapping[str, Any]  # what else a job may say; see atf.sdk.job.JobOptions
    queue_limit: int  # entries of one queue of this lambda
    enqueue_timeout: Duration  # how long an id may stay unclaimed outside its queue
    owner: str  # who answers for it; for people
    runbook: str  # where it says what to do when it fails; for people
    rate: float  # tasks a second, over the cluster
    burst: int  # the most of them that any one second sees
    max_pending: int  # unfinished tasks; schedule() beyond it is refused
    max_running: int  # tasks that run at once, over the cluster
    shares: Mapping[int | str, float]  # by priority: its least share of what is started
    pool: str  # the worker cluster that runs it
    placement: str  # "any", "sticky" or "spread": which worker host a task goes to
    stop_on_fatal: bool  # an ordering key stops at a task that fails for good
    version: int  # of its code; grows
    isolate: bool  # each run has a process of its own
    gate_at_fatal: float  # it is paused by itself once this share of a minute's runs failed for good
    logs: str  # "failed", "all" or "none": of which runs what they print and log is kept with the task
    slo: str  # how soon its tasks start: "5s 99%"


class CallOptions(RunOptions, total=False):
    """What `.options(...)` and `client.schedule(name, ...)` take."""

    delay: Duration  # from now
    at: datetime  # an instant, with a time zone; in the past means now
    key: str  # idempotency key: the task's id, or what its id is made from
    ordering_key: str  # tasks of one key run one after another, in the order they were accepted
    concurrency_key: str | Concurrency  # of tasks of one key of a lambda, so many run at once; of a text alone, one
    unique: Unique  # one task of a key of a lambda within a window
    affinity_key: str  # tasks of one key prefer the host that ran it last, where the lambda's placement is "sticky"
    labels: Mapping[str, str]  # at most 16, of at most 64 characters; never encrypted
    durability: str  # "relaxed", "disk" or "replicated": how safe it must be before the call returns


class BatchOptions(RunOptions, total=False):
    """What `.map(...)` and `client.batch(...)` take. Those of RunOptions are every item's; retention counts from the batch's end."""

    batch_id: str  # 1 to 20 of A-Z a-z 0-9 _ -: with it the same call again resumes; default a new one
    batch_size: int  # items of one message, at most 1000
    labels: Mapping[str, str]  # of every item; never encrypted
    max_in_flight: int  # items in queues and at work at once
    pause: Duration  # between the end of an item and the start of the next one with the same target
    target: (
        str | Callable[[Any], str]
    )  # what the pause is kept between: an argument's name, or what makes a text of an element
    workers: int  # items are dealt round-robin into so many chunks, of each of which one runs at a time
    affinity_key: str  # as of a task
    on_success: CallbackLike  # when all items have succeeded
    on_failure: CallbackLike  # when an item failed for good, or was cancelled
    on_complete: CallbackLike  # when every item has ended
    durability: str  # as of a task; of every item
    keep_open: bool  # more items come in a later call; the batch does not end before


class JobOptions(TypedDict, total=False):
    """When a job ticks, and what happens where something is in the way. docs/how-to/jobs.md explains each."""

    due_time: Point  # the first tick; a duration counts from now
    ttl: Point  # no tick after it; a duration counts from due_time, or from now
    repeats: int  # ticks at most
    tz: str  # by whose clocks a cron expression is read; default UTC
    format: str  # "unix": a cron expression of five fields
    gap: str  # a tick that falls into a spring gap: "skip", "run_after"
    fold: str  # one that an autumn change makes twice: "both", "first", "second"
    misfire: str  # ticks that nobody could deal with in time: "latest", "all", "skip"
    grace: Duration  # a tick that is later than this is passed over; default an hour
    overlap: str  # while the tick before still runs: "queue", "allow", "skip", "cancel_running"
    max_retries: int  # of a tick whose task fails; default 3
    retry_interval: Duration  # default a second
    jitter: Duration  # each tick's task is due up to so much later
    retention: Duration  # how long the record of a job that has ended is kept
