"""What user code says in an executor: `logging`, `ctx.log`, stdout and stderr of Python, warnings. One line per event, at once.

1. `capture` takes sys.stdout and sys.stderr: each line becomes an event of the role's log (atf/log.py), with the run's task id and lambda
2. `take_logging` does the same for `logging`, unless the app has configured it: then its handlers write as they are
3. `current` (whose.py) marks what a thread or a coroutine writes as one run's

What is written to the descriptors themselves, by C or by a program that a lambda starts, goes past all this. Of an isolated run the worker
reads it, and gives it to `write`.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import logging
import os
import re
import sys
import threading  # noqa: TID251  lines of several threads must not mix
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO, cast

from atf.log import Logger, get_logger

from .whose import Run, carry, current

_LONGEST_LINE: Final = 64 << 10
"""Bytes without an end of line that are not kept for longer."""
_LONGEST_TEXT: Final = 16 << 10
_LONGEST_FIELD: Final = 20 << 10
"""Bytes of the text of an event, and of what else it says. Whoever passes lines on takes 64 KiB as a whole."""

_HEADER: Final = re.compile(r"( *\+ Exception Group )?Traceback \(most recent call last\):")
_OPEN: Final = re.compile(rf"$|(?! +\+-+$)[ ~]|{_HEADER.pattern}|During handling of |The above exception was ")
"""A line of a traceback that is not its last one."""
_RAISED: Final = re.compile(r"(?:  \| )?(?=\S)(?![~+])")
"""Before the exception itself, in a traceback."""
_LINE_BUFFERED: Final = 1
"""From <stdio.h>."""


_Key = tuple[int, Run | None]
"""The thread and the run that write a line."""


def end_of_run() -> None:
    """Ends what `current` marks; half a line of it is written, too."""
    end_half_lines()
    current.set(None)


def end_half_lines() -> None:
    """Says the half lines of the current run."""
    for stream in _captured:
        if stream.has_half_lines:
            stream.end_of_run()


def capture() -> None:
    """Takes sys.stdout and sys.stderr of this process. Call it after atf.log.setup, and before user code is imported."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = _Lines(name, descriptor)
        _captured.append(stream)
        text = _Text(stream, getattr(sys, name))
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)  # who has replaced the other goes back to this one
    logging.lastResort = _Handler(logging.WARNING)  # says what is logged while the app is imported
    _write_c_at_once()
    carry(end_half_lines)
    traceback.TracebackException.print = _print_at_once  # type: ignore[method-assign]
    threading.excepthook = _thread_failed
    sys.unraisablehook = _unraisable


def _write_c_at_once() -> None:
    """Has C code write to stdout line by line, too: its buffer is lost with the process."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # of a C library with other names
        c = ctypes.CDLL(None)
        c.setvbuf(ctypes.c_void_p.in_dll(c, "stdout"), None, _LINE_BUFFERED, 0)


def take_process() -> None:
    """Takes note that this process, which was forked to run a task, is no child of a lambda's."""
    for each in _captured:
        each.of_child = False


def take_logging() -> None:
    """Shows what is logged from level info on. Call it after user code is imported: a root logger with handlers of the app's is left alone."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if _is_unformatted(handler):
            root.removeHandler(handler)
    for logger in (root, *root.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and isinstance(handler.stream, _Text):
                handler.setStream(_AsTheyAre(handler.stream.before))  # its lines have the form that the app wants
    if warnings.showwarning.__module__ == "warnings":
        warnings.showwarning = _warn
    if root.handlers:
        return
    root.addHandler(_Handler())
    if root.level == logging.WARNING:  # nobody has set another one
        root.setLevel(logging.INFO)


def _is_written(record: logging.LogRecord) -> bool:
    """Whether a handler below the root logger writes it to stdout or stderr."""
    logger = logging.root.manager.loggerDict.get(record.name)
    while isinstance(logger, logging.Logger) and logger.parent is not None:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and isinstance(handler.stream, _AsTheyAre | _Text):
                return record.levelno >= handler.level
        logger = logger.parent
    return False


def _is_unformatted(handler: logging.Handler) -> bool:
    """Whether nobody has asked for a form: `logging.warning(…)` adds such a handler by itself, and so does basicConfig without a format."""
    return (
        type(handler) is logging.StreamHandler
        and isinstance(handler.stream, _Text)
        and not handler.filters
        and getattr(handler.formatter, "_fmt", "") == logging.BASIC_FORMAT
    )


def say(
    level: int, text: str, fields: Mapping[str, str], *, error: BaseException | None = None, run: Run | None = None
) -> None:
    """Says one event of user code. The one place that sees every text before it is formatted: here redacted arguments go.

    Args:
        level: as of logging.
        text: of the event.
        fields: more texts, by name.
        error: said with its traceback and causes.
        run: whose it is; None: the current one's, if there is one.
    """
    fields = dict(fields)
    if error is not None:
        fields["exception"] = "".join(traceback.format_exception(error)).rstrip()
    if (run := run or current.get()) is not None:
        text, fields = run.redact(text), {name: run.redact(each) for name, each in fields.items()}
    fields = {name: _cut(each) for name, each in fields.items()}
    if run is not None and run.task_id:
        fields |= {"task_id": run.task_id, "lambda": run.lambda_name}
    for part in _parts(text, _LONGEST_TEXT):
        _say(level, part, fields)


def _say(level: int, text: str, fields: Mapping[str, str]) -> None:
    if level >= logging.ERROR:
        _log.error(text, **fields)
    elif level >= logging.WARNING:
        _log.warning(text, **fields)
    elif level >= logging.INFO:
        _log.info(text, **fields)
    else:
        _log.debug(text, **fields)


def write(stream: str, data: bytes) -> None:
    """Takes what the current run has written past Python's streams.

    Args:
        stream: "stdout" or "stderr".
        data: any part of it, in order.
    """
    for each in _captured:
        if each.stream == stream:
            each.write(data)


def _parts(text: str, most_bytes: int) -> Iterator[str]:
    """A text in parts that are so long at most as JSON writes them."""
    if len(text) * 12 <= most_bytes or len(json.dumps(text)) <= most_bytes:
        yield text
    else:
        half = len(text) // 2
        yield from _parts(text[:half], most_bytes)
        yield from _parts(text[half:], most_bytes)


def _cut(text: str) -> str:
    """A text without its middle where it is too long."""
    first, *others = _parts(text, _LONGEST_FIELD // 2)
    return f"{first}\n… cut …\n{others[-1]}" if others else text


class _Lines(io.RawIOBase):
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


class _Text(io.TextIOWrapper):
    def __init__(self, lines: _Lines, before: TextIO) -> None:
        self.before = before
        super().__init__(cast("Any", lines), encoding="utf-8", errors="backslashreplace", write_through=True)

    def close(self) -> None:
        """User code that closes it, as daemons do, must not silence the rest of the process."""
        self.flush()

    def reconfigure(self, **_options: Any) -> None:
        """Changes nothing: what is below reads UTF-8, and each line is said at once."""


class _AsTheyAre(io.TextIOBase):
    """Where handlers of the app's write: their lines stay as they are, but for redacted arguments."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        run = current.get()
        return self._stream.write(text if run is None else run.redact(text))

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()


class _Handler(logging.Handler):
    """Says a record as one event, unless a handler of the app's has written it here already."""

    def emit(self, record: logging.LogRecord) -> None:
        if _is_written(record):
            return
        try:
            run, error = current.get(), record.exc_info[1] if record.exc_info else None
            text = record.getMessage().removeprefix(f"[{run.task_id}] " if run else "")  # ctx.log's, for other handlers
            stack = {"stack": record.stack_info} if record.stack_info else {}
            say(record.levelno, text, {"logger": record.name, **stack}, error=error)
        except Exception as error:  # noqa: BLE001  as every handler: what can't be formatted must not fail the lambda
            where = {"logger": record.name, "where": f"{record.pathname}:{record.lineno}", "message": str(record.msg)}
            say(logging.ERROR, "what was logged can't be formatted", where, error=error)


_captured: list[_Lines] = []
_log: Logger = get_logger()


def end() -> None:
    """Says every half line, before the process ends."""
    for each in _captured:
        each.end()


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


def _print_at_once(self: traceback.TracebackException, *, file: Any = None, chain: bool = True, **options: Any) -> None:
    """What traceback.print_exc calls. Its own writes part by part, so that nobody could tell whether a cause is the last one."""
    (sys.stderr if file is None else file).write("".join(self.format(chain=chain, **options)))


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    if file is not None:
        file.write(warnings.formatwarning(message, category, filename, lineno, line))
        return
    say(logging.WARNING, str(message), {"category": category.__name__, "where": f"{filename}:{lineno}"})


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread is not None else ""
    say(logging.ERROR, "a thread ended by an exception", {"thread": name}, error=failed.exc_value)


def _unraisable(failed: sys.UnraisableHookArgs) -> None:
    what = failed.err_msg or "an exception was ignored"
    say(logging.ERROR, what, {"of": repr(failed.object)}, error=failed.exc_value)
