"""Writes one event of user code as a line of the role's log, with its run's task id and lambda, and without redacted arguments.

The run keeps the event, too, so that it can be looked at with the task (kept_log.py).
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from typing import Final

from atf.log import Logger, get_logger
from atf.sdk.sealed import WORD

from .current_run import CurrentRun, current
from .kept_log import line_of, wall_us

_LONGEST_TEXT: Final = 16 << 10
_LONGEST_FIELD: Final = 20 << 10
"""Bytes of the text of an event, and of what else it says. Whoever passes lines on takes 64 KiB as a whole."""

_PLAIN: Final = frozenset({"logger", "stream"})
"""Fields of an event that stay where what a run says is encrypted."""

_log: Logger = get_logger()


def say(
    level: int,
    text: str,
    fields: Mapping[str, str],
    *,
    error: BaseException | None = None,
    run: CurrentRun | None = None,
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
        if run.keeps_log:
            run.keep(line_of(level, text, fields, wall_us))
        if run.encrypts:  # it is kept with the task, encrypted, and nowhere else
            text, fields = WORD, {name: each for name, each in fields.items() if name in _PLAIN}
    fields = {name: _cut(each) for name, each in fields.items()}
    if run is not None and run.task_id:
        fields |= {"task_id": run.task_id, "lambda": run.lambda_name}
    levels = ((logging.ERROR, _log.error), (logging.WARNING, _log.warning), (logging.INFO, _log.info))
    say_one = next((say for least, say in levels if level >= least), _log.debug)
    for part in _parts(text, _LONGEST_TEXT):
        say_one(part, **fields)


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
