"""Captures what user code says in an executor: `logging`, `ctx.log`, stdout and stderr of Python, warnings. One line per event, at once (events.py).

1. `capture` takes sys.stdout and sys.stderr (lines.py), and what is said of exceptions that nobody catches
2. `take_logging` (log_handlers.py) takes `logging` and warnings, once the apps are imported
3. `current` (current_run.py) marks what a thread or a coroutine writes as one run's

What is written to the descriptors themselves, by C or by a program that a lambda starts, goes past all this. Of an isolated run the worker
reads it, and gives it to `write`.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import sys
import threading  # noqa: TID251  exceptions that end threads of user code
import traceback
from typing import Any, Final

from .current_run import carry, current
from .events import say
from .lines import LineStream, LineText
from .log_handlers import Handler

_LINE_BUFFERED: Final = 1
"""From <stdio.h>."""

captured: list[LineStream] = []


def capture() -> None:
    """Takes sys.stdout and sys.stderr of this process. Call it after atf.log.setup, and before user code is imported."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = LineStream(name, descriptor)
        captured.append(stream)
        text = LineText(stream, getattr(sys, name))
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)  # who has replaced the other goes back to this one
    logging.lastResort = Handler(logging.WARNING)  # says what is logged while the app is imported
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
    for each in captured:
        each.of_child = False


def end_of_run() -> None:
    """Ends what `current` marks; half a line of it is written, too."""
    end_half_lines()
    current.set(None)


def end_half_lines() -> None:
    """Says the half lines of the current run."""
    for stream in captured:
        if stream.has_half_lines:
            stream.end_of_run()


def end() -> None:
    """Says every half line, before the process ends."""
    for each in captured:
        each.end()


def write(stream: str, data: bytes) -> None:
    """Takes what the current run has written past Python's streams.

    Args:
        stream: "stdout" or "stderr".
        data: any part of it, in order.
    """
    for each in captured:
        if each.stream == stream:
            each.write(data)


def _print_at_once(self: traceback.TracebackException, *, file: Any = None, chain: bool = True, **options: Any) -> None:
    """What traceback.print_exc calls. Its own writes part by part, so that nobody could tell whether a cause is the last one."""
    (sys.stderr if file is None else file).write("".join(self.format(chain=chain, **options)))


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread is not None else ""
    say(logging.ERROR, "a thread ended by an exception", {"thread": name}, error=failed.exc_value)


def _unraisable(failed: sys.UnraisableHookArgs) -> None:
    what = failed.err_msg or "an exception was ignored"
    say(logging.ERROR, what, {"of": repr(failed.object)}, error=failed.exc_value)
