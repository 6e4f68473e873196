"""The page of tasks: over all lambdas, newest first, by filters that stand in the URL."""

from __future__ import annotations

from typing import Any, Final

from atf.errors import FailedPrecondition, InvalidArgument, NotFound
from atf.rpc import frontend_pb2 as f
from atf.ui.lambda_list import NAMES_KEPT_S, every_lambda
from atf.ui.task_filter import ANY, AS_OF, FILTERS, read_filter
from atf.ui.veils import veil_over
from atf.ui.visit import PageView, Visit
from atf.ui.words import GROUPS

ROWS: Final = 50
MORE: Final = ("labels", "key", "priority", "error_type", "search", "since", "until", "group")
"""Filters that are shown on demand."""
_MOST_KNOWN: Final = 300


async def tasks(visit: Visit) -> PageView:
    """A page of tasks; a filter that is wrong is said beside its form."""
    known = await every_lambda(visit.frontend, visit.read, NAMES_KEPT_S)
    values = {
        "statuses": (ANY, *GROUPS),
        "known": [each.spec.name for each in known[:_MOST_KNOWN]],
        "more": MORE,
        "filtered": any(visit.query.get(each, "") not in {"", ANY} for each in FILTERS if each != AS_OF),
        "more_open": any(visit.query.get(each) for each in MORE),
    }
    try:
        found, wrong = await _found(visit), ""
    except (FailedPrecondition, InvalidArgument, NotFound) as error:
        found, wrong = _NOTHING, str(error)
    return PageView("tasks.html", "Tasks", {**values, **found, "wrong": wrong})


_NOTHING: Final[dict[str, Any]] = {"rows": (), "veil": None, "next": "", "keep": {}, "looked_at": 0, "of": 0}


async def _found(visit: Visit) -> dict[str, Any]:
    asked = read_filter(visit.query, visit.now_us)
    request = f.ListTasksRequest(
        filter=asked.filter,
        page_size=ROWS,
        page_token=visit.query.get("page", ""),
        oldest_first=asked.oldest_first,
    )
    found = await visit.read(visit.frontend.list_tasks, request)
    return {
        "rows": found.tasks[:ROWS],
        "veil": veil_over("", found.tasks, ["atf", "ls", "--codec-keys", "FILE"]),
        "next": found.next_page_token,
        "keep": {AS_OF: asked.as_of_us},
        "looked_at": found.looked_at,
        "of": found.of,
    }
