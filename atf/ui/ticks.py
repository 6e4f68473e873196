"""Computes the next ticks of jobs for their time line, from the one that comes next. Pure: it asks nobody."""

from __future__ import annotations

import functools
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from atf.errors import InvalidArgument
from atf.rpc import job_pb2 as j
from atf.schedule.dst import Cron
from atf.schedule.job_plan import plan_of
from atf.task import US

LINE_US: Final = 24 * 3_600 * US
"""What the line shows: the next day."""
LINE_TICKS: Final = 96
"""Ticks of a job that it shows: one each quarter of an hour. Of more the line shows a band."""
_BEGINNING_AND_END: Final = ("task", "due_time", "ttl", "repeats", "base_at_us")


def of_a_day(job: j.Job, now_us: int) -> list[int]:
    """The ticks of a job within a day, the first of them; none where it is paused or has ended."""
    if job.paused or not job.next_tick_at_us:
        return []
    later = _later(rhythm(job).SerializeToString(deterministic=True), job.next_tick_at_us)
    return [at for at in (job.next_tick_at_us, *later) if at <= now_us + LINE_US][: left_of(job, LINE_TICKS)]


@functools.lru_cache(maxsize=4_096)  # most jobs have the same next ticks when the page is shown again
def _later(timing: bytes, next_at_us: int) -> tuple[int, ...]:
    """The ticks behind the next one."""
    spec = j.JobSpec.FromString(timing)
    if not spec.HasField("schedule"):
        return ()
    spec.base_at_us = next_at_us
    try:
        return tuple(islice(plan_of(spec), LINE_TICKS - 1))
    except InvalidArgument:  # of a release that knows more
        return ()


def rhythm(job: j.Job) -> j.JobSpec:
    """When a job ticks, without what says when it began and when it ends."""
    timing = j.JobSpec()
    timing.CopyFrom(job.spec)
    for name in _BEGINNING_AND_END:
        timing.ClearField(name)
    return timing


def left_of(job: j.Job, most: int) -> int:
    """How many ticks a job has left, at most so many."""
    return min(max(job.spec.repeats - job.ticks, 1), most) if job.spec.HasField("repeats") else most


def zone_of(spec: j.JobSpec) -> str:
    """By whose clocks a job ticks: what its schedule names, its own field's, or UTC."""
    try:
        schedule = plan_of(spec).schedule
    except InvalidArgument:  # of a release that knows more
        schedule = None
    return schedule.zone.key if isinstance(schedule, Cron) and isinstance(schedule.zone, ZoneInfo) else spec.tz or "UTC"
