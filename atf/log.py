"""Writes a role's log on stderr: one line per event, for people on a terminal, else as JSON.

Every line has the role and the process id. Payloads, results and tokens are never said: raw bytes are replaced by their
number, whatever a caller passes, and a traceback has no values of variables. What a lambda raises is said, without the values of its
redacted arguments (redaction.py). On a terminal, what callers sent is shown
with its control characters escaped. structlog formats the lines, but its global set-up is left alone: an executor runs its
user's code, which may use structlog in its own way.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, TextIO

from atf.config.settings import LogSettings
from atf.visible import one_line, visible

from .process import streams
from .process.left_out import forget, without

with without(
    "rich"
):  # it would draw tracebacks that no process of ours has drawn: 4 MiB, and a fifth of a role's start
    import structlog
    from structlog.typing import ExcInfo, FilteringBoundLogger, Processor

_SECRET = frozenset({"payload", "spec", "result", "token", "nonce"})


class Logger:
    """Says events. `event` is a short fixed phrase, what varies goes into `fields`. A level that is off costs a call."""

    __slots__ = ("_fields",)

    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def bind(self, **fields: object) -> Logger:
        """A logger that adds `fields` to every line."""
        return Logger(**{**self._fields, **fields})

    @staticmethod
    def debug_enabled() -> bool:
        """Whether `debug` says anything, for who would have to count first."""
        return output.debug

    def debug(self, event: str, **fields: object) -> None:
        """A batch of tasks, one decision."""
        output.logger.debug(event, **{**self._fields, **fields})

    def info(self, event: str, **fields: object) -> None:
        """What somebody asked for, or a change of state of the process."""
        output.logger.info(event, **{**self._fields, **fields})

    def warning(self, event: str, **fields: object) -> None:
        """Something an operator should know; the process goes on by itself."""
        output.logger.warning(event, **{**self._fields, **fields})

    def error(self, event: str, **fields: object) -> None:
        """Something an operator must act on."""
        output.logger.error(event, **{**self._fields, **fields})

    def exception(self, event: str, **fields: object) -> None:
        """An error nobody expected, with the traceback of the exception being handled."""
        output.logger.exception(event, **{**self._fields, **fields})  # noqa: LOG004  called from a handler


def get_logger(**fields: object) -> Logger:
    """A logger; it follows `setup`, whenever that is called. Until then warnings and errors are said."""
    return Logger(**fields)


def setup(settings: LogSettings, role: str, *, stream: TextIO | None = None) -> None:
    """Decides for the whole process what is said and how.

    Args:
        settings: level and format.
        role: the name that every line starts with.
        stream: where to; default stderr.
    """
    stream = stream or sys.stderr
    console = settings.log_format == "console" or (settings.log_format == "auto" and stream.isatty())
    level = getattr(logging, settings.log_level.upper())
    fields = {"role": role, "pid": os.getpid()}
    output.logger = _build(level, console=console, lines=_LineWriter(stream), fields=fields)
    output.debug = level <= logging.DEBUG
    if stream is sys.stderr:
        streams.notice_by(_MissingLinesWriter(console=console, stream=stream, fields=fields))


def leave_structlog() -> None:
    """Has user code that imports structlog load one of its own: ours has been loaded without rich."""
    forget("structlog")


class LogOutput:
    """Where the lines of this process go."""

    def __init__(self) -> None:
        self.logger = _build(logging.WARNING, console=True, lines=_LineWriter(None), fields={})
        self.debug = False


def _build(level: int, *, console: bool, lines: _LineWriter, fields: dict[str, Any]) -> FilteringBoundLogger:
    wrapper = structlog.make_filtering_bound_logger(level)
    return wrapper(lines, _processors(console, lines.stream), fields)  # type: ignore[call-arg]


def _processors(console: bool, stream: TextIO | None) -> list[Processor]:
    shared: list[Processor] = [structlog.processors.add_log_level, _trace, _hide]
    # People read the time of their own clock, and have the day at hand.
    shared.append(structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if console else "iso", utc=not console))
    if console:
        colors = stream is not None and stream.isatty()
        return [*shared, structlog.processors.ExceptionRenderer(_traceback), _escape, _console(colors)]
    return [*shared, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _console(colors: bool) -> structlog.dev.ConsoleRenderer:
    # Its own formatter of exceptions would be rich's, where that is installed, which shows the values of all variables:
    # payloads and tokens too.
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=28, sort_keys=False, exception_formatter=plain)


def _traceback(exc_info: ExcInfo) -> str:
    return visible("".join(traceback.format_exception(*exc_info)).rstrip())


def _escape(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What others have sent must neither move a terminal's cursor nor look like another line."""
    for name, value in event.items():
        if isinstance(value, str) and name not in {"exception", "stack"}:
            event[name] = one_line(value)
    return event


def _trace(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Adds the ids of the span of OpenTelemetry that is current, if the program has loaded it."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is not None and hasattr(api, "get_current_span"):  # it may be on the way in, on another thread
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            event.update(trace_id=f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}")
    return event


def _hide(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, bytes | bytearray | memoryview):
            event[name] = f"<{len(value)} bytes>"
        elif name in _SECRET:
            event[name] = "<hidden>"
    return event


class _LineWriter:
    """Writes each line with one call, so that lines of several threads and processes do not mix."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream

    def msg(self, line: str) -> None:
        # sys.stderr is looked up late: a test that captures it replaces it.
        stream = self.stream or sys.stderr
        # Where streams.py does not see to it, as in a program of somebody else's, which may also have closed the stream.
        with contextlib.suppress(OSError, ValueError):
            stream.write(line + "\n")

    def debug(self, line: str) -> None:
        self.msg(line)

    info = warning = error = critical = exception = debug


class _MissingLinesWriter(_LineWriter):
    """What takes the place of lines that could not be written: one that says so, of the same form."""

    def __init__(self, *, console: bool, stream: TextIO, fields: dict[str, Any]) -> None:
        super().__init__(stream)
        self._line = ""
        self._logger = _build(logging.WARNING, console=console, lines=self, fields=fields)

    def msg(self, line: str) -> None:
        self._line = line

    def __call__(self, lines: int, why: str) -> str:
        self._logger.warning("lines are missing here", lines=lines, why=why)
        return self._line


output = LogOutput()
