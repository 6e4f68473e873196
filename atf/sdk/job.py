"""Turns a job as a program describes it into a JobSpec: texts, instants, durations. Values and their checks, no I/O.

Whether a schedule can be read is for the frontend to say, so that a client needs nothing that reads them.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, timedelta
from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import job_pb2 as j, task_pb2 as t

from .option_kinds import JobOptions, Point
from .option_names import check_names
from .options import duration_us, instant_us
from .payload import short

_MISFIRES: Final = {"all": j.ALL, "latest": j.LATEST, "skip": j.SKIP}
_OVERLAPS: Final = {"allow": j.ALLOW, "skip": j.PASS_OVER, "queue": j.QUEUE, "cancel_running": j.CANCEL_RUNNING}


TIMING: Final = ("due_time", "ttl", "repeats", "tz", "format", "gap", "fold")
"""The options that say when a job ticks."""
OF_TASKS: Final = {
    "delay": "write due_time=timedelta(seconds=…), which is when it ticks first",
    "at": "write due_time=…, the instant of its first tick",
    "key": "its name tells it from others; leave key out",
    "durability": "its ticks are as durable as the frontends are set to be; leave durability out",
    "ordering_key": 'write overlap="queue", by which its ticks follow each other',
    "concurrency_key": 'write overlap="queue", "skip" or "cancel_running", by which its ticks run one at a time',
    "unique": "each tick makes one task; leave unique out",
    "affinity_key": "its ticks prefer no host; leave affinity_key out",
    "max_attempts": "write max_retries=…, the attempts beyond the first",
    "backoff": "write retry_interval=…, the seconds between two attempts",
}
"""What to do in place of an option that the task of a tick can't have."""

_TEXTS: Final = {"name", "schedule", "tz", "format", "gap", "fold"}
_WHOLE_NUMBERS: Final = {"repeats": (64, "1 to 4294967295"), "max_retries": (32, "0 to 1000000")}
"""Bits that they have on the wire, and what the frontend takes."""


def job_spec(name: str, task: t.TaskSpec, schedule: str | None, options: JobOptions) -> j.JobSpec:
    """A job as it is sent.

    Args:
        name: "namespace/name".
        task: what each tick makes.
        schedule: cron, macro, `@every` or a period; None: one tick, at due_time.
        options: the rest.

    Raises:
        TypeError: there is no such option.
        InvalidArgument: a value is of another kind, or outside its range.
    """
    check_names("a job", options, JobOptions.__annotations__, OF_TASKS)
    for option, given in {"name": name, "schedule": schedule, **options}.items():
        _check_kind(option, given)
    spec = j.JobSpec(
        name=name,
        task=task,
        schedule=schedule,
        repeats=options.get("repeats"),
        tz=options.get("tz", ""),
        format=options.get("format", ""),
        gap=options.get("gap", ""),
        fold=options.get("fold", ""),
        misfire=_MISFIRES[_checked("misfire", options.get("misfire", "latest"), _MISFIRES)],
        overlap=_OVERLAPS[_checked("overlap", options.get("overlap", "queue"), _OVERLAPS)],
    )
    for field in ("due_time", "ttl"):
        if field in options:
            setattr(spec, field, _text(options[field], field))
    if "grace" in options:
        spec.grace_us = duration_us(options["grace"], "grace")
    if "max_retries" in options:
        spec.failure_policy.max_retries = options["max_retries"]
    if "retry_interval" in options:
        spec.failure_policy.interval_us = duration_us(options["retry_interval"], "retry_interval")
    spec.jitter_us = duration_us(options.get("jitter", 0), "jitter")
    spec.retention_us = duration_us(options.get("retention", 0), "retention")
    return spec


def _check_kind(field: str, given: object) -> None:
    """Raises InvalidArgument for what a message can't hold; whether the rest makes sense is for the frontend to say, with the place."""
    if given is None:
        return
    good = not any("\ud800" <= each <= "\udfff" for each in given) if isinstance(given, str) else field not in _TEXTS
    if not good:
        raise InvalidArgument(f"{field} {short(given)}: give a text")
    if given == "" and field != "name":
        raise InvalidArgument(f"{field}: it is empty; leave it out, or give a value")
    bits, bounds = _WHOLE_NUMBERS.get(field, (0, ""))
    if bits and not (isinstance(given, int) and given.bit_length() < bits):
        raise InvalidArgument(f"{field} {short(given)}: give a whole number, {bounds}")


def _checked(name: str, given: str, known: Collection[str]) -> str:
    if given not in list(known):  # a list has no hash
        raise InvalidArgument(f"{name} {short(given)}: use {', '.join(known)}")
    return given


def _text(point: Point, name: str) -> str:
    """A point in time as it travels."""
    if isinstance(point, str):
        return point
    if isinstance(point, timedelta):
        return f"{duration_us(point, name)}us"
    instant_us(point, name)  # refuses one without a zone
    return point.astimezone(UTC).isoformat().replace("+00:00", "Z")
