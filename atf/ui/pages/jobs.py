"""The pages of jobs: all of them with their next ticks on a time line, and one."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from atf.rpc import frontend_pb2 as f, job_pb2 as j
from atf.ui.ticks import LINE_TICKS, LINE_US, left_of, of_a_day, rhythm, zone_of
from atf.ui.veils import veil_over
from atf.ui.visit import PageView, Visit
from atf.ui.words import lambda_of
from atf.ui.zones import Instants, zone_named

ROWS: Final = 50
TICKS: Final = 20
"""Next ticks of one job."""
_WIDTH: Final = 996.0
"""Of a line, in its own units; a tick stands to the right of its place."""


async def jobs(visit: Visit) -> PageView:
    """The jobs that have not ended, a page of them."""
    request = f.ListJobsRequest(prefix=visit.query.get("q", ""), page_size=ROWS, page_token=visit.query.get("page", ""))
    found = await visit.read(visit.frontend.list_jobs, request)
    shown, now = found.jobs[:ROWS], visit.now_us
    rows = await asyncio.to_thread(lambda: [_row(each, now) for each in shown])  # noqa: TID251  pure, and may take long
    return PageView("jobs.html", "Jobs", {"rows": rows, "next": found.next_page_token})


def _row(each: j.Job, now_us: int) -> dict[str, Any]:
    ticks = of_a_day(each, now_us)
    dense = len(ticks) == LINE_TICKS and each.spec.repeats != each.ticks + LINE_TICKS
    return {"job": each, "zone": zone_of(each.spec), "line": _line(ticks, now_us, LINE_US), "dense": dense}


async def job(visit: Visit) -> PageView:
    """One job, with its next ticks by the clocks of its own zone."""
    found = await visit.read(visit.frontend.get_job, f.GetJobRequest(name=visit.names["name"]))
    ticks, zone = await _next_ticks(visit, found), zone_of(found.spec)
    values = {
        "job": found,
        "its_zone": zone,
        "theirs": Instants(zone_named(zone), visit.now_us),
        "line": _line(ticks, visit.now_us, ticks[-1] - visit.now_us if ticks else 0),
        "ticks": ticks,
        "task": found.spec.task,
        "veil": veil_over(lambda_of(found.spec.task), [found], ()),
    }
    return PageView("job.html", found.spec.name, values)


async def _next_ticks(visit: Visit, found: j.Job) -> list[int]:
    """The next ticks, as the frontend computes them from the one that comes next."""
    if not found.next_tick_at_us or not found.spec.HasField("schedule"):
        return [found.next_tick_at_us] if found.next_tick_at_us else []
    request = f.PreviewScheduleRequest(job=rhythm(found), from_at_us=found.next_tick_at_us, count=TICKS - 1)
    later = (await visit.read(visit.frontend.preview_schedule, request)).ticks_at_us
    return [found.next_tick_at_us, *later][: left_of(found, TICKS)]


def _line(ticks: list[int], now_us: int, span_us: int) -> list[float]:
    """Where ticks are on a line that begins now."""
    return [round(min(max(each - now_us, 0) / max(span_us, 1), 1) * _WIDTH, 2) for each in ticks]
