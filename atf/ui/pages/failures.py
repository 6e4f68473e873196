"""The page of failures: the newest ones over all lambdas, those that are alike together."""

from __future__ import annotations

from typing import Final

from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.ui.failure_groups import groups_of
from atf.ui.task_filter import read_filter
from atf.ui.visit import PageView, Visit

NEWEST: Final = 100
"""Failures that are looked at."""


async def failures(visit: Visit) -> PageView:
    """The groups of the newest dead tasks."""
    asked = read_filter({name: visit.query.get(name, "") for name in ("lambda", "since")}, visit.now_us).filter
    asked.statuses.append(t.FATAL_FAILURE)
    found = await visit.read(visit.frontend.list_tasks, f.ListTasksRequest(filter=asked, page_size=NEWEST))
    groups = groups_of(found.tasks[:NEWEST])
    values = {
        "groups": groups,
        "looked_at": len(found.tasks[:NEWEST]),
        "of": found.of,
        "since": visit.query.get("since", ""),
    }
    return PageView("failures.html", "Failures", values)
