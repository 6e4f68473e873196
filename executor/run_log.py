"""What an executor says of each run that has ended: a warning of a failed attempt, an error where it was the last one, and at `debug` a line of any other end.

A run that was cancelled or handed back has not failed. Nothing is said at `info`, whatever ends: a busy executor ends thousands a second.
"""

from __future__ import annotations

from collections.abc import Iterable

from atf.log import get_logger
from atf.sdk.failure import failure_of, sentence_of
from atf.task import DEFAULT_MAX_ATTEMPTS

from .held import HeldTask
from .outcome import DoesNotFit, GaveUp, HandedBack, Outcome, Returned, RunFailed, RunStopped, RunTimedOut

_SHOWN_CHARS = 500
_log = get_logger(duty="run")


def say_all_ended(tasks: Iterable[HeldTask]) -> None:
    """Says how these runs ended. Of one that overran that was said then."""
    debug = _log.says_debug()
    for task in tasks:
        if (debug or type(task.outcome) is not Returned) and task.outcome is not None and not task.overrun:
            say_ended(task, task.outcome)


def say_ended(task: HeldTask, outcome: Outcome) -> None:
    """Says how a run ended."""
    match outcome:
        case RunFailed(error) | RunTimedOut(error):
            _say_failed(task, error, last=task.attempt >= _most(task))
        case GaveUp(error):
            _say_failed(task, error, last=True)
        case _ if _log.says_debug():
            said = {Returned: "succeeded", RunStopped: "stopped", HandedBack: "handed back", DoesNotFit: "did not fit"}
            seconds = round(task.ended_at - task.started_at, 6) if task.started else 0.0
            _log.debug(
                "run ended", task=task.task_id, lambda_name=task.lambda_name, how=said[type(outcome)], seconds=seconds
            )


def _say_failed(task: HeldTask, error: str, *, last: bool) -> None:
    say = _log.error if last else _log.warning
    say(
        "attempt failed",
        task=task.task_id,
        lambda_name=task.lambda_name,
        attempt=f"{task.attempt} of {_most(task)}",
        last=last,
        error_type=failure_of(error).type,
        error=sentence_of(error, _SHOWN_CHARS),
    )


def _most(task: HeldTask) -> int:
    return task.spec.options.max_attempts or DEFAULT_MAX_ATTEMPTS
