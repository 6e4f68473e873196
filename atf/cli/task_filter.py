"""The flags that say which tasks are meant, shared by the commands that list, cancel and retry tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.durations import seconds_of
from atf.sdk.messages import of_lambda
from atf.task import US, WORDS, statuses_called

from .encryption import hashed_search
from .gate import labels_flag
from .options import instant, option, pairs
from .task_request import priority_of

F = TypeVar("F", bound=Callable[..., Any])

_STATUSES: Final = ", ".join(WORDS)
_FLAGS: Final = (
    option(
        "--status", "STATUS", f"Only tasks that are {_STATUSES}; or in one of the eight states, such as FATAL_FAILURE."
    ),
    option(
        "--since", "TIME", "Only from this instant on, or from so long ago: 1h. It counts what the list is in order of."
    ),
    option("--until", "TIME", "Only before this instant, or until so long ago."),
    labels_flag,
    option("--key", "KEY", "Only tasks of this ordering or concurrency key."),
    option(
        "--priority",
        "PRIORITY",
        "Only tasks of this priority: high, normal, low or 0 to 9. May be given again: any of them.",
        multiple=True,
    ),
    option("--error-type", "TYPE", "Only tasks whose last run failed by this exception, such as TimeoutError."),
    option(
        "--search",
        "NAME=VALUE",
        "Only tasks that were given this value, of lambdas that declare the argument. May be given again.",
        multiple=True,
    ),
    option("--group", "GROUP", "Only failures of this group."),
    option(
        "--codec-keys",
        "FILE",
        "Find encrypted tasks by --search, and decrypt what is shown, by this key file.  [default: ATF_CODEC_KEYS]",
    ),
)


FLAGS: Final = ("status", "since", "until", "labels", "key", "priority", "error_type", "search", "group")
"""The names by which a command gets their values."""


def filter_flags(command: F) -> F:
    """Adds the flags to a command; it gets their values by name, for `task_filter`."""
    return functools.reduce(lambda made, flag: flag(made), reversed(_FLAGS), command)


def task_filter(lambda_name: str, flags: dict[str, Any]) -> f.TaskFilter:
    """The filter that a lambda, or a namespace as NAME/*, and some flags mean.

    Raises:
        InvalidArgument: a text can't be read.
    """
    now_us = round(datetime.now(UTC).timestamp() * US)
    return hashed_search(_asked(lambda_name, flags, now_us), flags.get("codec_keys"))


def _asked(lambda_name: str, flags: dict[str, Any], now_us: int) -> f.TaskFilter:
    return f.TaskFilter(
        statuses=[each.name for each in statuses_called(flags["status"])] if flags["status"] else [],
        since_at_us=when_us(flags["since"], "--since", now_us),
        until_at_us=when_us(flags["until"], "--until", now_us),
        labels=pairs(flags["labels"], "--label"),
        key=flags["key"] or "",
        priorities=[priority_of(each) for each in flags["priority"]],
        error_type=flags["error_type"] or "",
        search=pairs(flags["search"], "--search"),
        failure_group=flags["group"] or "",
        **of_lambda(lambda_name),
    )


def retry_words(lambda_name: str, flags: dict[str, Any]) -> list[str]:
    """The words of a command that retries the dead ones of what a list with these flags shows."""
    words = [lambda_name] if lambda_name else []
    for name in FLAGS:
        flag = "--" + {"labels": "label"}.get(name, name).replace("_", "-")
        given = flags[name] if isinstance(flags[name], tuple) else filter(None, [flags[name]])
        words += [word for each in given if name != "status" for word in (flag, each)]
    return ["atf", "retry", *(words or ["--status", "dead"])]


def when_us(text: str | None, flag: str, now_us: int) -> int:
    """An instant in µs, from how people write it or how long ago it was; 0: none was given."""
    if text is None:
        return 0
    ago = seconds_of(text)
    if ago is None:
        return instant(text, flag)
    if not 0 <= ago * US < now_us:
        raise InvalidArgument(f"{flag} {text!r}: write an instant, or how long ago: 90s, 15m, 1h or 2d")
    return now_us - round(ago * US)
