"""Logs each run that has ended: a warning for a failed attempt, an error for the last one, at `debug` any other end.

A run that was cancelled or handed back has not failed. Nothing is said at `info`, whatever ends: a busy executor ends thousands a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from atf.log import get_logger
from atf.sdk.failure import failure_of, sentence_of
from atf.task import DEFAULT_MAX_ATTEMPTS

from .held import HeldTask
from .outcome import DoesNotFit, GaveUp, HandedBack, Outcome, Returned, RunFailed, RunStopped, RunTimedOut

_SHOWN_CHARS = 500
_HOW: Final = {Returned: "succeeded", RunStopped: "stopped", HandedBack: "handed back", DoesNotFit: "did not fit"}
_log = get_logger(duty="run")


def say_all_ended(tasks: Iterable[HeldTask]) -> None:
    """Says how these runs ended. Of one that overran that was said then."""
    debug = _log.debug_enabled()
    for task in tasks:
        if (debug or type(task.outcome) is not Returned) and task.outcome is not None and not task.overrun:
            say_ended(task, task.outcome)


def say_ended(task: HeldTask, outcome: Outcome) -> None:
    """Says how a run ended."""
    names = {"task": task.task_id, "lambda_name": task.lambda_name}
    if isinstance(outcome, RunFailed | RunTimedOut | GaveUp):
        most = task.spec.options.max_attempts or DEFAULT_MAX_ATTEMPTS
        last = isinstance(outcome, GaveUp) or task.attempt >= most
        say = _log.error if last else _log.warning
        say(
            "attempt failed",
            **names,
            attempt=f"{task.attempt} of {most}",
            last=last,
            error_type=failure_of(outcome.error).type,
            error=sentence_of(outcome.error, _SHOWN_CHARS),
        )
    elif _log.debug_enabled():
        seconds = round(task.ended_at - task.started_at, 6) if task.started else 0.0
        _log.debug("run ended", **names, how=_HOW[type(outcome)], seconds=seconds)
