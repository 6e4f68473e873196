"""How `atf job` shows jobs: one as a page, several as a table, and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atf.errors import InvalidArgument
from atf.rpc import job_pb2 as j
from atf.schedule.dst import Cron, Fold, Gap
from atf.schedule.job_plan import DEFAULT_GRACE_US, plan_of
from atf.times import length

from .json_values import message_json
from .output import Columns, show_fields, show_rows, when
from .task_view import status_name


def job_json(each: j.Job) -> dict[str, Any]:
    """A job as JSON."""
    spec = each.spec
    optional = ("schedule", "due_time", "ttl", "repeats")
    return {
        "name": spec.name,
        "lambda": getattr(spec.task, "lambda"),
        **{name: getattr(spec, name) if spec.HasField(name) else None for name in optional},
        "tz": _zone(spec),
        **_policies(spec),
        "next_tick_at_us": each.next_tick_at_us or None,
        "last_tick_at_us": each.last_tick_at_us or None,
        "last_task_id": each.last_task_id or None,
        "last_status": status_name(each.last_status) if each.last_status else None,
        **message_json(each, "ticks skipped skipped_why paused generation created_at_us"),
        "from_code": bool(spec.code),
    }


def _policies(spec: j.JobSpec) -> dict[str, Any]:
    """What happens where something is in the way, with what the maker left open."""
    options = spec.task.options  # retries are as they count: the operator's cap has been at them
    return {
        "format": spec.format or None,
        "gap": spec.gap or Gap.SKIP.value,
        "fold": spec.fold or Fold.BOTH.value,
        "misfire": j.Misfire.Name(spec.misfire or j.LATEST).lower(),
        "grace_us": spec.grace_us if spec.HasField("grace_us") else DEFAULT_GRACE_US,
        "overlap": "skip" if spec.overlap == j.PASS_OVER else j.Overlap.Name(spec.overlap or j.QUEUE).lower(),
        "max_retries": max(0, options.max_attempts - 1),
        "retry_interval_us": options.backoff.base_us,
        "jitter_us": spec.jitter_us,
    }


def _zone(spec: j.JobSpec) -> str:
    """By whose clocks a job ticks: its own field's, what its schedule names, or UTC."""
    try:
        schedule = plan_of(spec).schedule
    except InvalidArgument:  # of a release that knows more
        schedule = None
    return schedule.zone.key if isinstance(schedule, Cron) else spec.tz or "UTC"


def _in_words(spec: j.JobSpec) -> str:
    say = _policies(spec)
    parts = [f"misfire {say['misfire']} within {length(say['grace_us'])}", f"overlap {say['overlap']}"]
    retries = say["max_retries"]
    parts.append(f"{retries} retries, {length(say['retry_interval_us'])} apart" if retries else "no retries")
    if say["jitter_us"]:
        parts.append(f"jitter {length(say['jitter_us'])}")
    parts += [f"{each} {say[each]}" for each in ("gap", "fold") if getattr(spec, each)]
    return "; ".join(parts)


def show_job(each: j.Job) -> None:
    """A job as a page, or for programs."""
    next_tick = when(each.next_tick_at_us) if each.next_tick_at_us else "it has ended"
    last = f"{when(each.last_tick_at_us)}, {_outcome(each)}: {each.last_task_id}" if each.last_tick_at_us else ""
    show_fields(
        job_json(each),
        [
            ("job", each.spec.name),
            ("lambda", getattr(each.spec.task, "lambda")),
            ("schedule", each.spec.schedule or "once"),
            ("time zone", _zone(each.spec)),
            ("due time", each.spec.due_time),
            ("ttl", each.spec.ttl),
            ("repeats", each.spec.repeats if each.spec.HasField("repeats") else ""),
            ("policies", _in_words(each.spec)),
            ("next tick", "paused" if each.paused else next_tick),
            ("last tick", last),
            ("ticks", each.ticks),
            ("skipped", f"{each.skipped}; the newest: {each.skipped_why}" if each.skipped else ""),
        ],
    )


def show_jobs(jobs: Iterable[j.Job]) -> None:
    """Jobs as a table, or for programs."""
    columns: Columns[j.Job] = {
        "job": lambda each: each.spec.name,
        "lambda": lambda each: getattr(each.spec.task, "lambda"),
        "schedule": lambda each: each.spec.schedule or "once",
        "zone": lambda each: _zone(each.spec),
        "next tick": lambda each: "paused" if each.paused else when(each.next_tick_at_us),
        "ticks": "ticks",
        "last": _outcome,
        "skipped": "skipped",
    }
    show_rows(jobs, job_json, columns)


def _outcome(each: j.Job) -> str:
    if not each.last_tick_at_us:
        return ""
    return status_name(each.last_status) if each.last_status else "not ended"
