"""Reads which tasks a caller means: checks a TaskFilter, and words it as the store takes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.store import keys
from atf.store.values.lists import ListedTask, TaskPage, TaskQuery
from atf.task import MAX_SEARCH, Status, check_key, check_lambda, check_priority
from atf.times import instant

from .search import entries_asked
from .validate import MAX_PARAMETER_CHARS, bad_page_token, check_count, check_labels, lambda_of, shown, within

_ALL: Final = "/*"
"""Ends the name of a namespace, where all of its lambdas are meant."""
_TYPE: Final = re.compile(r"[^\W\d]\w{0,254}", re.ASCII)
_VALUE_CHARS: Final = 4_096
_LAST_US: Final = 1 << 53
"""The instants that the store holds exactly end here."""
_GROUP: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST: Final = 64
"""Statuses or priorities of a filter: there are fewer, and they may come twice."""
_TOKEN: Final = re.compile(r"([0-9a-f]{8})\.([0-9]{1,16})\.(-?[0-9]{1,16}|inf)\.([A-Za-z0-9_.-]{1,200})")
"""Of which query; of how many; instant and id of the task behind which the page begins."""


def task_query(asked: f.TaskFilter, *, oldest_first: bool = False) -> TaskQuery:
    """A filter as the store takes it.

    Raises:
        InvalidArgument: a part of it can be no task's.
    """
    name, namespace = lambda_or_namespace(lambda_of(asked))
    check_count("priorities", len(asked.priorities), _MOST)
    check_labels(asked.labels)
    since, until = asked.since_at_us, asked.until_at_us
    within("since_at_us", since, 0, _LAST_US, "the year 2255")
    within("until_at_us", until, 0, _LAST_US, "the year 2255")
    if until and until <= since:
        raise InvalidArgument(
            f"from {instant(since)} until {instant(until)}: give first the earlier instant, then the later one"
        )
    if asked.error_type and not _TYPE.fullmatch(asked.error_type):
        raise InvalidArgument(
            f"error_type {shown(asked.error_type)!r}: give the name of the exception's class alone, as in TimeoutError"
        )
    check_count("arguments to search by", len(asked.search), MAX_SEARCH)
    for argument, value in asked.search.items():
        within("length of a searched argument's name", len(argument), 1, MAX_PARAMETER_CHARS, f"{MAX_PARAMETER_CHARS}")
        within("length of a searched value", len(value), 0, _VALUE_CHARS, f"{_VALUE_CHARS}")
    group = [f"!{check_group(asked.failure_group)}"] if asked.failure_group else []
    return TaskQuery(
        lambda_name=name,
        namespace=namespace,
        statuses=check_statuses(asked.statuses),
        priorities=sorted({check_priority(each) for each in asked.priorities}),
        labels=keys.labels(asked.labels),
        key=keys.stored_key(check_key(asked.key, "key")) if asked.key else "",
        error_type=asked.error_type,
        since_us=since,
        until_us=until,
        entries=group + entries_asked(asked.search),
        oldest_first=oldest_first,
    )


def check_group(group: str) -> str:
    """The id of a group of failures, checked.

    Raises:
        InvalidArgument: it can be none's.
    """
    if not _GROUP.fullmatch(group):
        raise InvalidArgument(f"failure_group {shown(group)!r}: give the id of a group, as atf failures shows it")
    return group


def lambda_or_namespace(asked: str) -> tuple[str, str]:
    """What a text names: a lambda, or "photos/*": the beginning of its names; neither means all.

    Raises:
        InvalidArgument: it can be neither's.
    """
    if not asked:
        return "", ""
    if asked.endswith(_ALL):
        check_lambda(shown(asked.removesuffix("*") + "name"))
        return "", asked.removesuffix("*")
    return check_lambda(shown(asked)), ""


def check_statuses(asked: Sequence[int]) -> list[Status]:
    """The statuses of a filter, each once.

    Raises:
        InvalidArgument: they are too many, or one is no task's.
    """
    check_count("statuses", len(asked), _MOST)
    try:
        return sorted({Status(each) for each in asked})
    except ValueError:
        raise InvalidArgument(f"statuses {list(asked)}: there is one of them that no task can have") from None


def next_token(query: TaskQuery, page: TaskPage, of: int) -> str:
    """What the next page is asked for with; "" after the last."""
    return token_behind(query, page.next, of) if page.next else ""


def token_behind(query: TaskQuery, task: ListedTask, of: int) -> str:
    """What a page is asked for with that goes on behind a task."""
    at = "inf" if task.at_us == float("inf") else f"{task.at_us:.0f}"
    return f"{query.digest}.{of}.{at}.{task.id}"


def parse_token(token: str, query: TaskQuery) -> tuple[ListedTask | None, int]:
    """Where a page goes on, and of how many the first one said it was; None for the first page.

    Raises:
        InvalidArgument: no page of this query has answered so.
    """
    if not token:
        return None, -1
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise bad_page_token(token)
    if match[1] != query.digest:
        raise InvalidArgument("page_token: it is of a page with another filter; give the same filter, or no token")
    return ListedTask(float(match[3]), match[4]), int(match[2])
