"""The pages of jobs: all of them with their next ticks on a time line, and one."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, job_pb2 as j
from atf.schedule.dst import Cron
from atf.schedule.job_plan import plan_of
from atf.task import US
from atf.ui.visit import PageView, Visit
from atf.ui.zones import Instants, zone_named

ROWS: Final = 50
LINE_US: Final = 24 * 3_600 * US
"""What the time line of all jobs shows: the next day."""
TICKS: Final = 20
"""Next ticks of one job."""
_WIDTH: Final = 1_000.0


async def jobs(visit: Visit) -> PageView:
    """The jobs that have not ended, a page of them."""
    request = f.ListJobsRequest(prefix=visit.query.get("q", ""), page_size=ROWS, page_token=visit.query.get("page", ""))
    found = await visit.read(visit.frontend.list_jobs, request)
    rows = [{"job": each, "zone": zone_of(each.spec), "x": _place(each, visit.now_us)} for each in found.jobs[:ROWS]]
    return PageView("jobs.html", "Jobs", {"rows": rows, "next": found.next_page_token, "hours": range(0, 25, 6)})


def _place(each: j.Job, now_us: int) -> float | None:
    """Where the next tick of a job is on the line of a day; None: not on it."""
    away = each.next_tick_at_us - now_us
    return (
        round(max(away, 0) / LINE_US * _WIDTH, 2)
        if each.next_tick_at_us and away <= LINE_US and not each.paused
        else None
    )


async def job(visit: Visit) -> PageView:
    """One job, with its next ticks by the clocks of its own zone."""
    found = await visit.read(visit.frontend.get_job, f.GetJobRequest(name=visit.names["name"]))
    ticks = await _next_ticks(visit, found)
    zone = zone_of(found.spec)
    values: dict[str, Any] = {
        "job": found,
        "its_zone": zone,
        "theirs": Instants(zone_named(zone), visit.now_us),
        "line": _line(ticks, visit.now_us),
        "ticks": ticks,
        "task": found.spec.task,
    }
    return PageView("job.html", found.spec.name, values)


async def _next_ticks(visit: Visit, found: j.Job) -> list[int]:
    """The next ticks, as the frontend computes them from the one that comes next."""
    if not found.next_tick_at_us or not found.spec.HasField("schedule"):
        return [found.next_tick_at_us] if found.next_tick_at_us else []
    timing = j.JobSpec()
    timing.CopyFrom(found.spec)
    for name in ("task", "due_time", "ttl", "repeats"):
        timing.ClearField(name)
    request = f.PreviewScheduleRequest(job=timing, from_at_us=found.next_tick_at_us, count=TICKS - 1)
    later = (await visit.read(visit.frontend.preview_schedule, request)).ticks_at_us
    left = found.spec.repeats - found.ticks if found.spec.HasField("repeats") else TICKS
    return list(islice([found.next_tick_at_us, *later], max(left, 1)))


def _line(ticks: list[int], now_us: int) -> list[float]:
    """Where ticks are on a line from now to the last of them."""
    span = max(ticks[-1] - now_us, 1) if ticks else 1
    return [round(max(each - now_us, 0) / span * _WIDTH, 2) for each in ticks]


def zone_of(spec: j.JobSpec) -> str:
    """By whose clocks a job ticks: what its schedule names, its own field's, or UTC."""
    try:
        schedule = plan_of(spec).schedule
    except InvalidArgument:  # of a release that knows more
        schedule = None
    return schedule.zone.key if isinstance(schedule, Cron) and isinstance(schedule.zone, ZoneInfo) else spec.tz or "UTC"
