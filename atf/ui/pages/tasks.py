"""The page of tasks: what there is of them, by filters that stand in the URL."""

from __future__ import annotations

from typing import Any, Final

from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import of_lambda
from atf.ui.lambda_list import every_lambda
from atf.ui.visit import PageView, Visit
from atf.ui.words import GROUPS

ROWS: Final = 50
_ANY: Final = "any"


async def tasks(visit: Visit) -> PageView:
    """A page of tasks."""
    name, status = visit.query.get("lambda", ""), visit.word("status", (_ANY, *GROUPS))
    known = [each.spec.name for each in await every_lambda(visit.frontend, visit.read)]
    values: dict[str, Any] = {
        "name": name,
        "status": status,
        "statuses": (_ANY, *GROUPS),
        "known": known[:300],
        "rows": [],
        "next": "",
    }
    if name:
        asked = f.TaskFilter(statuses=[each.name for each in GROUPS.get(status, ())], **of_lambda(name))
        request = f.ListTasksRequest(filter=asked, page_size=ROWS, page_token=visit.query.get("page", ""))
        found = await visit.read(visit.frontend.list_tasks, request)
        values |= {"rows": found.tasks[:ROWS], "next": found.next_page_token}
    return PageView("tasks.html", "Tasks", values)
