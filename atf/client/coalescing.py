"""What the calls hold in which a client gathers tasks or jobs that are scheduled at the same time, and what became of each."""

from __future__ import annotations

from typing import Final

from atf.calls.coalescing import CallLimits
from atf.errors import BY_CODE, BY_REASON, AtfError, Internal, TooManyPending
from atf.rpc import frontend_pb2 as f
from atf.task import US

LIMITS: Final = CallLimits(size=3 << 20, calls=4)  # a message holds 4 MiB


def answer_of(result: f.ScheduleResult) -> f.ScheduleReply | AtfError:
    """What became of one task of a call."""
    return error_of(result.error) if result.HasField("error") else result.reply


def error_of(said: f.Error) -> AtfError:
    """What went wrong with one item of a call of many."""
    kind = BY_REASON.get(said.reason) or BY_CODE.get(said.code, Internal)
    error = kind(said.message)
    if isinstance(error, TooManyPending):
        error.retry_after_s = said.retry_after_us / US
    return error
