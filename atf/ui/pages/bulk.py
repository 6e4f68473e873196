"""The page that counts what an action on many tasks would do, before it is done."""

from __future__ import annotations

from atf.errors import NotFound
from atf.rpc import frontend_pb2 as f
from atf.ui.actions.bulk import redrive, redrive_request
from atf.ui.bulk import SHOWN_ERRORS
from atf.ui.task_filter import AS_OF, FILTERS, read_filter
from atf.ui.visit import PageView, Visit


async def bulk(visit: Visit) -> PageView:
    """What would be done to the tasks that a filter means."""
    if visit.names["verb"] != "retry":
        raise NotFound(f"there is nothing called {visit.names['verb'][:80]!r} that is done to many tasks")
    asked, error = read_filter(visit.query, visit.now_us), visit.query.get("error", "").strip()
    request = redrive_request(asked, error)
    request.MergeFrom(f.RedriveRequest(dry_run=True, who="atf ui"))
    tally = await redrive(visit.frontend, request)
    values = {
        "tally": tally,
        "errors": tally.errors.most_common(SHOWN_ERRORS),
        "target": {**{name: visit.query.get(name, "") for name in FILTERS}, AS_OF: str(asked.as_of_us), "error": error},
        "error": error,
    }
    return PageView("bulk.html", "Retry dead tasks", values, live=False)
