"""Groups failures that are alike: of one lambda, by one type of exception, at one line of the user's own code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from atf.rpc import task_pb2 as t
from atf.sdk.failure import failure_of

from .words import lambda_of

MESSAGE_CHARS: Final = 200
_FRAME: Final = re.compile(r'^ +File "([^"\n]+)", line ([0-9]+), in (.+)$', re.MULTILINE)
_NOT_THEIRS: Final = re.compile(
    r"/site-packages/|/dist-packages/|/lib/python3|^<|/atf/(executor|sdk|builtin)/|/executor/"
)


@dataclass
class FailureGroup:
    """Failures that are alike."""

    name: str
    """Of the lambda."""
    error_type: str
    """Empty: no exception was raised."""
    place: str
    """File, line and function; empty: no line of the user's own is known."""
    message: str
    """Of the newest."""
    task_id: str
    """The newest."""
    count: int
    first_us: int
    last_us: int


def groups_of(tasks: Iterable[t.Task]) -> list[FailureGroup]:
    """The groups of some failed tasks, the largest first."""
    found: dict[tuple[str, str, str], FailureGroup] = {}
    for each in tasks:
        failure, at_us = failure_of(each.error), each.finished_at_us or each.failed_at_us
        message = failure.message.partition("\n")[0][:MESSAGE_CHARS]
        place = place_of(failure.traceback)
        alike = lambda_of(each), failure.type or message, place
        group = found.get(alike)
        if group is None:
            found[alike] = FailureGroup(lambda_of(each), failure.type, place, message, each.id, 1, at_us, at_us)
            continue
        group.count += 1
        group.first_us = min(group.first_us, at_us)
        if at_us > group.last_us:
            group.last_us, group.message, group.task_id = at_us, message, each.id
    return sorted(found.values(), key=lambda group: (-group.count, -group.last_us))


def place_of(traceback: str) -> str:
    """The last line of the user's own code in a traceback: its file's name, its number, its function."""
    frames = [match for match in _FRAME.finditer(traceback) if not _NOT_THEIRS.search(match[1])]
    if not frames:
        return ""
    path, line, function = frames[-1].groups()
    return f"{path.rpartition('/')[2]}:{line} in {function}"
