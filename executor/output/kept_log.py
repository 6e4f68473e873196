"""Keeps the newest of what a run says, so that it can be looked at with the task: `atf logs`.

A run that says nothing has no KeptLog. Lines come without redacted values (events.py), from any thread of the run.
"""

from __future__ import annotations

import logging
import os
import threading  # noqa: TID251  lambdas start threads, and the heartbeats' thread reads
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from atf.runtime import SystemRuntime
from atf.task import MAX_LOG_BYTES


class Kept(NamedTuple):
    """What is kept of a run's log."""

    text: str
    cut_bytes: int
    """That stood before it."""


class KeptLog:
    """The newest 16 KiB of one run's log.

    Attributes:
        written: bytes that the run has said so far.
        watched: whether somebody looks at it while the run goes on.
        told: how much of `written` the HSC knows.
    """

    __slots__ = ("_lines", "_size", "told", "watched", "written")

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._size = self.written = self.told = 0
        self.watched = False

    def add(self, line: bytes, cut: int = 0) -> None:
        """Takes a line with its end, of which so many bytes are missing in front."""
        with FORKS.lock:
            self.written += cut + len(line)
            self._lines.append(line[-MAX_LOG_BYTES:])
            self._size += len(self._lines[-1])
            while self._size > MAX_LOG_BYTES:
                self._size -= len(self._lines.popleft())

    def read(self) -> Kept:
        """What is kept now."""
        with FORKS.lock:
            data, written = b"".join(self._lines), self.written
        text = data.decode("utf-8", "ignore")  # a line that was cut may begin within a character
        return Kept(text, written - len(text.encode()))


def line_of(level: int, text: str, fields: Mapping[str, str], wall_us: Callable[[], int]) -> bytes:
    """An event of user code as it is kept: what was printed behind the time of day; of what was logged also the level and the logger.

    Args:
        level: as of logging.
        text, fields: of the event, without redacted values.
        wall_us: the clock.
    """
    more = [fields[name] for name in ("exception", "stack") if name in fields]
    if "stream" not in fields:
        logger = fields.get("logger", "")
        said = f"{logging.getLevelName(level)} {logger}{': ' * bool(logger)}{text}"
    else:
        said = more.pop(0) if more else text  # a traceback that was printed ends with its text
    return "\n".join([f"{_time_of_day(wall_us())} {said}", *more, ""]).encode("utf-8", "backslashreplace")


def _time_of_day(us: int) -> str:
    """Of UTC, in milliseconds."""
    seconds, ms = us // 1_000_000 % 86_400, us // 1_000 % 1_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"


class _Forks:
    """The lock of all logs: none is held for long. A child that a lambda forks gets another one, since its own may be taken for ever."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.lock = threading.Lock()


FORKS: Final = _Forks()
wall_us: Final = SystemRuntime().wall_us
