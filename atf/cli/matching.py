"""What commands share that change all tasks which match a filter: whether ids are meant or a filter, and how far they are."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from atf.client.matching import Progress
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f

from .options import refuse_unused
from .task_filter import FLAGS

_LINE_S: Final = 2.0


def lambda_meant(ids: Sequence[str], flags: Mapping[str, Any], more: Sequence[str] = ()) -> str | None:
    """The lambda of the filter that a command was given, "" where only flags say which tasks; None: it was given ids of tasks.

    Args:
        ids: its arguments: ids of tasks, or a lambda or a namespace as NAME/*.
        flags: of the filter.
        more: names of flags beside these, which ids have no use for.

    Raises:
        InvalidArgument: it was given nothing, or both.
    """
    named = [each for each in ids if "/" in each]
    if named and len(ids) > 1:
        raise InvalidArgument(f"{named[0]} is a lambda: give it alone")
    if ids and not named:
        refuse_unused(flags, (*FLAGS, "codec_keys", *more), "beside ids of tasks")
        return None
    if not named and not any(flags[each] for each in (*FLAGS, *more)):
        raise InvalidArgument("give ids of tasks, a lambda, or flags that say which tasks, such as --status or --group")
    return named[0] if named else ""


def name_of(asked: f.TaskFilter) -> str:
    """Whose tasks a filter means, for people."""
    group = f"group {asked.failure_group}" if asked.failure_group else "all lambdas"
    return getattr(asked, "lambda") or group


def told() -> Progress:
    """Says every two seconds how far a command is, on stderr."""
    next_s = time.monotonic() + _LINE_S

    def tell(looked_at: int, of: int) -> None:
        nonlocal next_s
        if (now_s := time.monotonic()) >= next_s:
            next_s = now_s + _LINE_S
            print(f"looked at {looked_at} of {of} tasks", file=sys.stderr, flush=True)

    return tell
