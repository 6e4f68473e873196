"""The page that counts what an action on many tasks would do, before it is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from atf.errors import NotFound
from atf.ui.actions.bulk import cancel, cancel_request, redrive, redrive_request
from atf.ui.bulk import SHOWN_ERRORS, MatchTally
from atf.ui.task_filter import AS_OF, FILTERS, read_filter
from atf.ui.visit import PageView, Visit


class _Verb(NamedTuple):
    title: str
    action: str
    tasks: str
    """What it looks at."""
    request: Callable[..., Any]
    ask: Callable[..., Awaitable[MatchTally]]


_VERBS: Final = {
    "retry": _Verb("Retry tasks", "retry-matching", "failed or cancelled", redrive_request, redrive),
    "cancel": _Verb("Cancel tasks", "cancel-matching", "unfinished", cancel_request, cancel),
}


async def bulk(visit: Visit) -> PageView:
    """What would be done to the tasks that a filter means."""
    verb = _VERBS.get(visit.names["verb"])
    if verb is None:
        raise NotFound(f"there is nothing called {visit.names['verb'][:80]!r} that is done to many tasks")
    asked = read_filter(visit.query, visit.now_us)
    request = verb.request(asked, visit.query)
    request.dry_run, request.who = True, "atf ui"
    tally = await verb.ask(visit.frontend, request)
    error = visit.query.get("error", "").strip() if verb.action == "retry-matching" else ""
    target = {**{name: visit.query.get(name, "") for name in FILTERS}, AS_OF: str(asked.as_of_us)}
    values = {
        "verb": verb,
        "tally": tally,
        "errors": tally.errors.most_common(SHOWN_ERRORS),
        "target": {**target, "error": error} if verb.action == "retry-matching" else target,
        "error": error,
    }
    return PageView("bulk.html", verb.title, values, live=False)
