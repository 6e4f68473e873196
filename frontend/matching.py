"""Actions on all tasks that match a filter: what such a filter must say, which statuses count, and how the audit log words it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.task import WORDS, Status
from atf.times import instant

from .filters import check_statuses
from .validate import lambda_of

MOST_IDS: Final = 5
"""Ids of examples in an answer."""


def check_dry_run(request: f.CancelMatchingRequest | f.RedriveRequest, does: str) -> None:
    """That a request says whether it only asks.

    Raises:
        InvalidArgument: it does not.
    """
    if not request.HasField("dry_run"):
        raise InvalidArgument(f"dry_run is not said: true only says what would be {does}, false does it")


def check_condition(asked: f.TaskFilter, others: bool = False) -> None:
    """That a filter means some tasks and not all; `others`: whether there are conditions beside it.

    Raises:
        InvalidArgument: it has no condition.
    """
    if not asked.ListFields() and not others:
        raise InvalidArgument(
            "filter: it has no condition, so it would mean every task; name a lambda, statuses, labels or anything else"
        )


def of_statuses(asked: f.TaskFilter, may: Collection[Status], default: Collection[Status], does: str) -> f.TaskFilter:
    """A filter that asks for those of its statuses to which something can be done.

    Args:
        asked: the filter of a request.
        may: the statuses that count.
        default: those that are meant where none is named.
        does: what can be done to them: "can be cancelled".

    Raises:
        InvalidArgument: it names statuses, and none of these counts.
    """
    named = set(check_statuses(asked.statuses))
    wanted = [each.value for each in sorted(may if named else default) if not named or each.value in named]
    if not wanted:
        words = ", ".join(sorted(word for word, group in WORDS.items() if set(group) & set(may)))
        raise InvalidArgument(f"statuses: nothing of such a status {does}; leave them out, or name {words}")
    made = f.TaskFilter()
    made.CopyFrom(asked)
    made.statuses[:] = wanted  # type: ignore[assignment]
    return made


def words_of(asked: f.TaskFilter) -> str:
    """A filter for the audit log, but for its lambda and its labels, which have places of their own. Never the value of an argument."""
    parts = [f"status {', '.join(Status(each).name for each in asked.statuses)}"] if asked.statuses else []
    parts += [f"of the group {asked.failure_group}"] if asked.failure_group else []
    parts += [f"priority {', '.join(map(str, asked.priorities))}"] if asked.priorities else []
    parts += [f"key {asked.key!r}"] if asked.key else []
    parts += [f"error type {asked.error_type}"] if asked.error_type else []
    parts += [f"since {instant(asked.since_at_us)}"] if asked.since_at_us else []
    parts += [f"until {instant(asked.until_at_us)}"] if asked.until_at_us else []
    parts += [f"by {', '.join(sorted(asked.search))}"] if asked.search else []
    return ", ".join(parts)


def named_lambda(asked: f.TaskFilter) -> str:
    """The one lambda that a filter names; "" where it names none, or a namespace."""
    name = lambda_of(asked)
    return "" if name.endswith("/*") else name
