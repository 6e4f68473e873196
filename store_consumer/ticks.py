"""Computes what comes of a job's tick: a task or nothing, and when the next one is. Pure.

the tick before still runs    by the overlap policy: both, or this one is passed over, or that one is cancelled
it is late                    a tick that is more than LATE_US late was missed, also where it had to wait for the one before it;
                              by the misfire policy all missed ticks become tasks, or the newest, or none
it is later than the grace    it is passed over; the time for which the one before ran does not count
"""

from __future__ import annotations

import hashlib
from typing import Final

from atf.rpc import job_pb2 as j, task_pb2 as t
from atf.rpc.stored_spec import serialized
from atf.schedule.job_plan import DEFAULT_GRACE_US, stored_plan
from atf.schedule.plan import Plan
from atf.store import keys
from atf.store.values.jobs import DueJob, Tick
from atf.store.values.tasks import NewTask
from atf.task import US
from atf.times import length

from .searched import NOTHING_DECLARED, Declared, entries_of

LATE_US: Final = 5 * US
"""A tick that is dealt with within this is late, not missed."""
MOST_PASSED_OVER: Final = 1_000
"""Ticks that are passed over at once; the rest follows, and other jobs have their turn in between."""
OVERLAP: Final = "overlap: the tick before still ran"
"""Why a tick was passed over that nobody was too late for."""


def tick_of(due: DueJob, partition: int, now_us: int, declared: Declared = NOTHING_DECLARED) -> Tick:
    """What to make of a tick that is due.

    Args:
        due: the job, at its tick.
        partition: where it lies.
        now_us: the store's TIME.
        declared: which arguments of its lambda can be searched.
    """
    spec, plan = stored_plan(due.spec, due.base_us)
    if due.running and spec.overlap == j.PASS_OVER:
        next_us, passed = _next_after(due, plan, now_us)
        return _skipped_tick(due, spec, next_us, passed, OVERLAP)
    tick_us, passed, comes, why = _chosen(due, spec, plan, now_us)
    if tick_us is None or not comes:
        return _skipped_tick(due, spec, tick_us, passed, why)
    task = _task(due, spec, tick_us, partition, declared)
    after = plan.after(tick_us, due.ticks + 1)
    return Tick(due.name, due.generation, due.due_us, after, passed, why, spec.retention_us, tick_us, task)


def cancels(due: DueJob) -> bool:
    """Whether the tick before is to be cancelled first."""
    return bool(due.running) and stored_plan(due.spec, due.base_us)[0].overlap == j.CANCEL_RUNNING


def _chosen(due: DueJob, spec: j.JobSpec, plan: Plan, now_us: int) -> tuple[int | None, int, bool, str]:
    """The tick that the job goes on from (None: there is none any more), how many before it are passed over, whether it becomes a task
    now, and why the newest of those did not.
    """
    grace_us = spec.grace_us if spec.HasField("grace_us") else DEFAULT_GRACE_US
    waits = spec.overlap not in {j.ALLOW, j.PASS_OVER}
    tick_us, passed, why = due.due_us, 0, ""
    while now_us - tick_us > LATE_US and (due.ticks or tick_us > spec.base_at_us):
        following = plan.after(tick_us, due.ticks)
        newest = following is None or following > now_us
        # As long as the one before ran, nobody was too late.
        late_us = now_us - (max(tick_us, due.ended_us) if waits else tick_us)
        if late_us <= grace_us and (spec.misfire == j.ALL or (spec.misfire != j.SKIP and newest)):
            break
        passed, why = passed + 1, _why(spec.misfire, late_us, grace_us)
        if following is None:
            return None, passed, False, why
        tick_us = following
        if passed == MOST_PASSED_OVER:
            return tick_us, passed, False, why
    return tick_us, passed, tick_us <= now_us, why


def _why(misfire: j.Misfire, late_us: int, grace_us: int) -> str:
    """Why a tick that is late makes no task. `late_us`: without the time for which the one before ran."""
    if late_us <= LATE_US:
        return OVERLAP
    if misfire == j.SKIP:
        return "misfire: it was missed, and this job makes no task of a missed tick"
    if late_us > grace_us:
        return f"grace: it was missed by more than its grace, {length(grace_us)}"
    return "misfire: it was missed, and the newest of those that were missed comes in its place"


def _next_after(due: DueJob, plan: Plan, now_us: int) -> tuple[int | None, int]:
    """The first tick that is not due yet, and how many are passed over before it."""
    tick_us, passed = plan.after(due.due_us, due.ticks), 1
    while tick_us is not None and tick_us <= now_us and passed < MOST_PASSED_OVER:
        tick_us, passed = plan.after(tick_us, due.ticks), passed + 1
    return tick_us, passed


def _skipped_tick(due: DueJob, spec: j.JobSpec, next_us: int | None, passed: int, why: str) -> Tick:
    return Tick(due.name, due.generation, due.due_us, next_us, passed, why, spec.retention_us)


def _task(due: DueJob, spec: j.JobSpec, tick_us: int, partition: int, declared: Declared) -> NewTask:
    task = t.TaskSpec()
    task.CopyFrom(spec.task)
    task.tick.job, task.tick.number, task.tick.at_us = due.name, due.ticks + 1, tick_us
    # Of this making of the job: one of the same name that was made anew has other ids.
    told = f"{due.name}\0{spec.base_at_us}\0{due.generation}\0{tick_us}".encode()
    digest = hashlib.blake2b(told, digest_size=16)
    late_us = int.from_bytes(digest.digest()[:6], "big") * spec.jitter_us >> 48
    options = task.options
    return NewTask(
        id=f"j{digest.hexdigest()}",
        partition=partition,
        lambda_name=getattr(task, "lambda"),
        priority=options.priority,
        spec=serialized(task),
        digest=b"",
        at_us=tick_us + late_us,
        delay_us=0,
        max_attempts=options.max_attempts,
        max_losses=options.max_losses,
        retention_us=options.retention_us,
        labels=keys.labels(task.labels),
        entries=entries_of(task, declared),
    )
