"""The page of failures: the dead tasks over all lambdas, those that failed alike together."""

from __future__ import annotations

from typing import Final

from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import of_lambda
from atf.ui.task_filter import AS_OF, read_filter
from atf.ui.veils import veil_over
from atf.ui.visit import PageView, Visit
from atf.ui.words import lambda_of

ROWS: Final = 50


async def failures(visit: Visit) -> PageView:
    """A page of groups, that of the newest failure first."""
    asked = read_filter({name: visit.query.get(name, "") for name in ("lambda", "since", AS_OF)}, visit.now_us)
    request = f.ListFailuresRequest(
        since_at_us=asked.filter.since_at_us,
        page_size=ROWS,
        page_token=visit.query.get("page", ""),
        **of_lambda(lambda_of(asked.filter)),
    )
    found = await visit.read(visit.frontend.list_failures, request)
    values = {
        "groups": [(lambda_of(each), each) for each in found.groups[:ROWS]],
        "veil": veil_over("", found.groups, ["atf", "ls", "--status", "dead", "--codec-keys", "FILE"]),
        "next": found.next_page_token,
        "keep": {AS_OF: asked.as_of_us},
        "since": visit.query.get("since", ""),
    }
    return PageView("failures.html", "Failures", values)
