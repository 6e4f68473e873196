"""The first page: what is wrong, how much waits and runs, and what failed last."""

from __future__ import annotations

from typing import Any, Final

from atf.client.judge import StatusLine, judge
from atf.rpc import frontend_pb2 as f
from atf.task import US
from atf.ui.reads import cluster_status
from atf.ui.visit import PageView, Visit
from atf.ui.words import GROUPS, counted, lambda_of

LATE_US: Final = 300 * US
"""A task that is due waits too long after this."""
SHOWN: Final = 12
"""Lambdas of the table."""
TILES: Final = ("waiting", "running", "dead", "done", "cancelled")


async def overview(visit: Visit) -> PageView:
    """The first page."""
    found = await cluster_status(visit.frontend, visit.read)
    visit.samples.add(found.counts)
    sections = judge(found, LATE_US, "the last hour")
    told = [line for name, each in sections.items() for line in each if line.wrong]
    busiest = sorted(found.lambdas, key=_urgency, reverse=True)
    values = {
        "status": found,
        "wrong": [_to_click(line, found) for line in told],
        "tiles": [(word, counted(found.counts, word), _where(word)) for word in TILES],
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


def _to_click(line: StatusLine, found: f.GetStatusReply) -> dict[str, Any]:
    """A line with the page that says more about it, and whether there are failures to look at in place of the command that it names."""
    of_lambda = next((each for each in found.lambdas if lambda_of(each) == line.about), None)
    path = f"/lambdas/{line.about}" if of_lambda is not None else "/cluster"
    failed_id = of_lambda.failed_id if of_lambda is not None else ""
    text = line.text.replace(f": atf get {failed_id}", "") if failed_id else line.text
    return {"about": line.about, "text": text, "path": path, "failures": text != line.text}
