"""The first page: what is wrong, how much waits and runs, and what failed last."""

from __future__ import annotations

from typing import Any, Final

from atf.client.judge import judge
from atf.rpc import frontend_pb2 as f
from atf.task import US
from atf.ui.lambda_list import every_lambda
from atf.ui.samples import total
from atf.ui.visit import PageView, Visit
from atf.ui.words import GROUPS, counted, lambda_of

LATE_US: Final = 300 * US
"""A task that is due waits too long after this."""
RECENT_US: Final = 3_600 * US
"""Failures of this time count as wrong."""
SHOWN: Final = 12
"""Lambdas of the table."""
TILES: Final = ("waiting", "running", "dead", "done", "cancelled")


async def overview(visit: Visit) -> PageView:
    """The first page."""
    found = await visit.read(visit.frontend.get_status, f.GetStatusRequest(recent_us=RECENT_US))
    counts = total(each.counts for each in await every_lambda(visit.frontend, visit.read))
    visit.samples.add(counts)
    sections = judge(found, LATE_US, "the last hour")
    told = [line for name, each in sections.items() for line in each if line.wrong]
    busiest = sorted(found.lambdas, key=_urgency, reverse=True)
    values = {
        "status": found,
        "wrong": [{"about": line.about, "text": line.text, "path": _path_of(line.about, found)} for line in told],
        "tiles": [(word, counted(counts, word), _where(word)) for word in TILES],
        "lambdas": busiest[:SHOWN],
        "more": max(len(busiest) - SHOWN, 0),
        "columns": visit.samples.columns(),
    }
    return PageView("overview.html", "Overview", values)


def _urgency(each: f.LambdaStatus) -> tuple[Any, ...]:
    return (
        bool(each.failed_recently),
        each.waiting and not each.served,
        each.waiting + each.running,
        each.dead,
        each.later,
    )


def _where(word: str) -> str:
    return f"/tasks?status={word}" if word in GROUPS else "/tasks"


def _path_of(about: str, found: f.GetStatusReply) -> str:
    """The page that says more about a line: a lambda's, or the cluster's."""
    return f"/lambdas/{about}" if about in {lambda_of(each) for each in found.lambdas} else "/cluster"
