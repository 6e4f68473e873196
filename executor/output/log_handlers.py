"""Turns records of user code's `logging` and `warnings` into events (events.py), unless the app has handlers of its own."""

from __future__ import annotations

import io
import logging
import warnings
from typing import Any, TextIO

from atf.sdk.sealed import WORD

from .current_run import current
from .events import say
from .lines import LineText


def take_logging() -> None:
    """Shows what is logged from level info on. Call it after user code is imported: a root logger with handlers of the app's is left alone."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if _is_unformatted(handler):
            root.removeHandler(handler)
    for logger in (root, *root.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and isinstance(handler.stream, LineText):
                handler.setStream(_AsTheyAre(handler.stream.before))  # its lines have the form that the app wants
    if warnings.showwarning.__module__ == "warnings":
        warnings.showwarning = _warn
    if root.handlers:
        return
    root.addHandler(Handler())
    if root.level == logging.WARNING:  # nobody has set another one
        root.setLevel(logging.INFO)


def _is_written(record: logging.LogRecord) -> bool:
    """Whether a handler below the root logger writes it to stdout or stderr."""
    logger = logging.root.manager.loggerDict.get(record.name)
    while isinstance(logger, logging.Logger) and logger.parent is not None:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and isinstance(handler.stream, _AsTheyAre | LineText):
                return record.levelno >= handler.level
        logger = logger.parent
    return False


def _is_unformatted(handler: logging.Handler) -> bool:
    """Whether nobody has asked for a form: `logging.warning(…)` adds such a handler by itself, and so does basicConfig without a format."""
    return (
        type(handler) is logging.StreamHandler
        and isinstance(handler.stream, LineText)
        and not handler.filters
        and getattr(handler.formatter, "_fmt", "") == logging.BASIC_FORMAT
    )


class _AsTheyAre(io.TextIOBase):
    """Where handlers of the app's write: their lines stay as they are, but for redacted arguments."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        run = current.get()
        if run is not None:
            text = run.redact(text)
            if run.keeps_log and text:
                run.keep(text.encode("utf-8", "backslashreplace"))
            if run.encrypts:
                text = f"{WORD}\n"
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()


class Handler(logging.Handler):
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
