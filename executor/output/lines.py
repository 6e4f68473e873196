"""Gives user code its sys.stdout and sys.stderr: each line becomes one event (events.py), and a traceback one as a whole."""

from __future__ import annotations

import io
import logging
import os
import re
import threading  # noqa: TID251  lines of several threads must not mix
from typing import Any, Final, TextIO, cast

from .current_run import CurrentRun, current
from .events import say

_LONGEST_LINE: Final = 64 << 10
"""Bytes without an end of line that are not kept for longer."""
_HEADER: Final = re.compile(r"( *\+ Exception Group )?Traceback \(most recent call last\):")
_OPEN: Final = re.compile(rf"$|(?! +\+-+$)[ ~]|{_HEADER.pattern}|During handling of |The above exception was ")
"""A line of a traceback that is not its last one."""
_RAISED: Final = re.compile(r"(?:  \| )?(?=\S)(?![~+])")
"""Before the exception itself, in a traceback."""

_Key = tuple[int, CurrentRun | None]
"""The thread and the run that write a line."""


class LineStream(io.RawIOBase):
    """The bytes below sys.stdout or sys.stderr. Each thread and run has a line of its own that it is writing. Empty lines are left out.

    Attributes:
        stream: "stdout" or "stderr".
        has_half_lines: whether something waits for its end.
        of_child: whether a lambda has forked this process, which may end without a last word.
    """

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = f"<{name}>"
        self.stream, self._descriptor = name, descriptor
        self.has_half_lines = self.of_child = False
        self._open: dict[_Key, bytearray] = {}
        self._tracebacks: dict[_Key, list[str]] = {}
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._forked)

    def write(self, data: Any) -> int:
        key = (threading.get_ident(), current.get())
        with self._lock:
            line = self._open.setdefault(key, bytearray())
            line += data
            end = len(line) if len(line) > _LONGEST_LINE else line.rfind(b"\n") + 1
            whole = bytes(line[:end])
            del line[:end]
            if not line:
                del self._open[key]
        if whole:
            self._say(key, whole)
        self.has_half_lines = bool(self._open or self._tracebacks)
        return len(data)

    def flush(self) -> None:
        """Leaves half a line where it is: `print("...", end="", flush=True)` is still one line. A child flushes as its last act."""
        if self.of_child:
            self.end()

    def close(self) -> None:
        """Stays open: others write here, too."""

    def end_of_run(self) -> None:
        """Says the half lines of the run that this code belongs to."""
        run = current.get()
        with self._lock:
            keys = [key for key in {**self._open, **self._tracebacks} if key[1] is run]
        self._end(keys)

    def end(self) -> None:
        """Says every half line."""
        with self._lock:
            keys = list({**self._open, **self._tracebacks})
        self._end(keys)

    def _end(self, keys: list[_Key]) -> None:
        for key in keys:
            self._say(key, bytes(self._open.pop(key, b"")), last=True)
        self.has_half_lines = bool(self._open or self._tracebacks)

    def _say(self, key: _Key, data: bytes, *, last: bool = False) -> None:
        """Says each line; a traceback, with its causes and the lines that it was written with, as one."""
        held = self._tracebacks.pop(key, [])
        for each in data.decode("utf-8", "backslashreplace").splitlines():
            if held or _HEADER.match(each):
                held.append(each)
            elif each:
                self._event(each, key)
        if held and not last and _OPEN.match(held[-1]):
            self._tracebacks[key] = held
        elif held:
            self._event(_raised(held), key, exception="\n".join(held).rstrip())

    def _event(self, text: str, key: _Key, **fields: str) -> None:
        say(logging.INFO, text, {"stream": self.stream, **fields}, run=key[1])

    def _forked(self) -> None:
        self._open, self._tracebacks, self._lock = {}, {}, threading.RLock()
        self.has_half_lines, self.of_child = False, True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False


class LineText(io.TextIOWrapper):
    """What stands as sys.stdout or sys.stderr.

    Attributes:
        before: what stood there.
    """

    def __init__(self, lines: LineStream, before: TextIO) -> None:
        self.before = before
        super().__init__(cast("Any", lines), encoding="utf-8", errors="backslashreplace", write_through=True)

    def close(self) -> None:
        """User code that closes it, as daemons do, must not silence the rest of the process."""
        self.flush()

    def reconfigure(self, **_options: Any) -> None:
        """Changes nothing: what is below reads UTF-8, and each line is said at once."""


def _raised(lines: list[str]) -> str:
    """The exception that a traceback is of: the line behind its last frame."""
    found, within = "", False
    for line in lines:
        if _HEADER.match(line):
            if line.startswith("    "):
                break  # a member of a group
            within = True
        elif within and (match := _RAISED.match(line)):
            found, within = line[match.end() :], False
    return found or lines[0]
