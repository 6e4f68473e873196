"""Reads which tasks a page is to show, from the values of its URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.durations import FORMS, seconds_of
from atf.task import US

from .labels import labels_of
from .words import GROUPS

ANY: Final = "any"
AS_OF: Final = "asof"
"""In the URL of further pages: the instant from which durations count, so that all pages are of one filter."""
_STEP_US: Final = 60 * US
"""Durations count from the minute, so that a page that is shown again asks the same for a while."""
_INSTANT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*")
FILTERS: Final = (
    "lambda",
    "status",
    "labels",
    "key",
    "priority",
    "error_type",
    "search",
    "since",
    "until",
    "group",
    AS_OF,
)
"""The names of all values of a URL that say which tasks."""


@dataclass(frozen=True)
class AskedTasks:
    """Which tasks, in which order."""

    filter: f.TaskFilter
    oldest_first: bool
    as_of_us: int


def read_filter(query: Mapping[str, str], now_us: int) -> AskedTasks:
    """What a URL asks for.

    Raises:
        InvalidArgument: a value is none of its kind.
    """
    given = {name: query.get(name, "").strip() for name in FILTERS}
    status = given["status"] or ANY
    if status != ANY and status not in GROUPS:
        raise InvalidArgument(f"status {status[:80]!r}: use one of {', '.join((ANY, *GROUPS))}")
    as_of = query.get(AS_OF, "")
    as_of_us = int(as_of) if re.fullmatch("[0-9]{1,16}", as_of) else now_us // _STEP_US * _STEP_US
    made = f.TaskFilter(
        statuses=[each.value for each in GROUPS.get(status, ())],  # type: ignore[misc]
        priorities=_priorities(given["priority"]),
        labels=labels_of(given["labels"]),
        key=given["key"],
        error_type=given["error_type"],
        search=labels_of(given["search"]),
        failure_group=given["group"],
        since_at_us=_instant(given["since"], as_of_us, "since"),
        until_at_us=_instant(given["until"], as_of_us, "until"),
    )
    setattr(made, "lambda", given["lambda"])
    return AskedTasks(made, query.get("order") == "oldest", as_of_us)


def _priorities(text: str) -> list[int]:
    if not text:
        return []
    parts = re.split(r"[\s,]+", text)
    if not all(re.fullmatch("[0-9]", each) for each in parts):
        raise InvalidArgument(f"priority {text[:80]!r}: write numbers of 0 to 9, with commas between several")
    return [int(each) for each in parts]


def _instant(text: str, as_of_us: int, label: str) -> int:
    """An instant: as it is written, or so long ago; 0 for nothing."""
    if not text:
        return 0
    seconds = seconds_of(text)
    if seconds is not None:
        return max(as_of_us - round(seconds * US), 1)
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError
        at = datetime.fromisoformat(text)
        return max(round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * US), 1)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{label} {text[:80]!r}: write how long ago ({FORMS}), or an instant such as 2030-01-31T08:00Z"
        ) from None
