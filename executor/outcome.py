"""Describes how a run ended, as a value, and turns it into messages.

Owns the words a handler has for failing (atf.Retry, atf.Fatal, any other exception) and for giving back (atf.HandBack), and the wait before the next attempt. It runs no user code, except the __str__ of its exceptions.
"""

from __future__ import annotations

import math
import random
from typing import Final, NamedTuple, assert_never

from atf.errors import AtfError, Fatal, HandBack, Retry
from atf.rpc import task_pb2 as t
from atf.sdk.failure import as_said
from atf.sdk.redaction import NOTHING, Redactor
from atf.task import MAX_AHEAD_US, US, clip

from .exception_text import Redact, message_of, text_of

HAND_BACK_S: Final = 1.0
"""Seconds that a task waits which its lambda gives back while its executor goes on, and names no wait."""
LEAST_HAND_BACK_S: Final = 0.1
"""The same where it names one: nothing bounds how often it does so."""


class Returned(NamedTuple):
    """The lambda returned; what, as bytes."""

    result: bytes
    encoding: int


class RunFailed(NamedTuple):
    """The attempt failed, and may be repeated."""

    error: str
    after_s: float | None = None
    """Seconds to wait, where the lambda named them; else the task's backoff decides."""


class GaveUp(NamedTuple):
    """The attempt failed, and no other can succeed."""

    error: str


class RunTimedOut(NamedTuple):
    """The run lasted longer than its timeout."""

    error: str


class RunStopped(NamedTuple):
    """The run ended, or never began, because its cancellation was asked for."""

    error: str
    began: bool = True
    """Whether the lambda was called."""


class HandedBack(NamedTuple):
    """The run counts nothing: the lambda gave the task back, or a drain has cut the run short."""

    error: str
    after_s: float = 0.0
    """Seconds to wait until it may run again."""


class DoesNotFit(NamedTuple):
    """The lambda was not called: the payload does not fit its parameters here. Those of another executor it may fit."""

    error: str
    signature: str
    """The digest of what it does not fit."""


CUT: Final = HandedBack("cut: the executor was ending, and the run did not end within drain_timeout")
"""The outcome of a coroutine that a drain has cancelled."""

Outcome = Returned | RunFailed | GaveUp | RunTimedOut | RunStopped | HandedBack | DoesNotFit


def of_exception(error: BaseException, *, draining: bool = False, redact: Redact = NOTHING) -> Outcome:
    """What an exception of the lambda's stands for. None of them ends the executor, SystemExit included.

    Args:
        error: what the lambda raised.
        draining: whether the executor takes no more.
        redact: takes what nobody is to see out of a text, before it is cut.
    """
    match error:
        case HandBack(after_s=after_s):
            wait = None if after_s is None else _asked_us(after_s)
            least, otherwise = (0.0, 0.0) if draining else (LEAST_HAND_BACK_S, HAND_BACK_S)
            after = otherwise if wait is None else max(wait / US, least)
            return HandedBack(clip(redact(message_of(error))) or "the lambda gave it back", after)
        case Fatal():
            return GaveUp(text_of(error, redact))
        case Retry(after_s=after_s):
            return RunFailed(clip(as_said(redact(message_of(error)))) or "the lambda asked to be run again", after_s)
    return RunFailed(text_of(error, redact))


Told = tuple[t.Outcome, bytes, int, str, int]
"""An outcome as the HSC is told of it: outcome, result, encoding, error, retry_in_us."""


def to_result(outcome: Outcome, options: t.TaskOptions, attempt: int, chance: random.Random) -> Told:
    """An outcome as the fields of a Result.

    Args:
        outcome: how the run ended.
        options: of the task; its backoff decides on the wait.
        attempt: number of the attempt that ended, from 1.
        chance: the source of the jitter.
    """
    match outcome:
        case Returned(result, encoding):
            return t.SUCCEEDED, result, encoding, "", 0
        case RunFailed(error, after_s):
            asked = None if after_s is None else _asked_us(after_s)
            return t.FAILED, b"", 0, error, backoff_us(options, attempt, chance) if asked is None else asked
        case GaveUp(error):
            return t.FAILED_FATAL, b"", 0, error, 0
        case RunStopped(error):
            return t.STOPPED, b"", 0, error, 0
        case RunTimedOut(error):
            return t.TIMED_OUT, b"", 0, error, backoff_us(options, attempt, chance)
        case HandedBack(error, after):
            return t.HANDED_BACK, b"", 0, error, round(after * US)
        case DoesNotFit(error):
            return t.MISFIT, b"", 0, error, backoff_us(options, attempt, chance)
    assert_never(outcome)


def backoff_us(options: t.TaskOptions, attempt: int, chance: random.Random) -> int:
    """Microseconds until the attempt after this one: min(base * factor^(attempt-1), max), times the jitter."""
    backoff = options.backoff
    try:
        growth = max(1.0, backoff.factor) ** max(0, attempt - 1)
    except OverflowError:
        growth = math.inf
    wait = min(backoff.base_us * growth, backoff.max_us) if backoff.base_us else 0  # 0 times endless is no number
    jitter = min(max(0.0, backoff.jitter), 1.0)  # in this order: it makes 0 of what is no number
    return min(max(0, round(wait * (1 + jitter * (2 * chance.random() - 1)))), MAX_AHEAD_US)


def _asked_us(seconds: float) -> int | None:
    """What a lambda asked for in microseconds; None, the task's backoff, where it is no number."""
    try:
        return None if math.isnan(seconds) else int(min(max(0.0, seconds * US), MAX_AHEAD_US))
    except (TypeError, ValueError, OverflowError):
        return None


def redacted(outcome: Outcome, redact: Redactor) -> Outcome:
    """An outcome whose text holds no redacted value."""
    return outcome if isinstance(outcome, Returned) else outcome._replace(error=clip(redact(outcome.error)))


def in_hook(outcome: Outcome, hook: str) -> Outcome:
    """The outcome of an exception that a hook raised, whose name stands before the error."""
    if isinstance(outcome, RunFailed | GaveUp | HandedBack):
        return outcome._replace(error=clip(f"{hook}: {outcome.error}"))
    return outcome


def reason(error: BaseException, redact: Redact = NOTHING) -> str:
    """An error as a sentence: ours speak for themselves, others need their type and place."""
    return clip(redact(str(error))) if isinstance(error, AtfError) else text_of(error, redact)
