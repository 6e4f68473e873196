"""Remembers the last call of each call stream of each executor, and what it was answered.

Pure. Each call stream calls by itself, and acknowledges an answer by its number in the call after it. A call with a lower number says that the
answer never arrived, so its claims are free. Silence says nothing: the answer may have arrived and its tasks may run. So only the executor's next call
or its proven death frees them.

A call that was not answered may have been asked for all the same: its nonce says what was claimed. Its executor gives that up, as long as it lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from atf.rpc import task_pb2 as t

FORGET_S: Final = 900.0
"""Seconds after which an executor that does not call any more is forgotten: its leases ended long before."""


@dataclass
class _CallStream:
    call: int = 0  # number of its newest call
    nonce: str = ""  # of that call, until it is answered
    number: int = 0  # of the last answer
    unacknowledged: list[t.Claim] = field(default_factory=list)


@dataclass
class _AnsweredExecutor:
    seen_at: float
    call_streams: dict[str, _CallStream] = field(default_factory=dict)
    dead: bool = False


class Undelivered(NamedTuple):
    """What a dead executor may never have been given."""

    claims: list[t.Claim]  # of answers that it has not acknowledged
    nonces: list[str]  # of calls that were not answered


class Answers:
    """The last call of every call stream of every executor."""

    def __init__(self) -> None:
        self._executors: dict[str, _AnsweredExecutor] = {}

    def called(self, executor_id: str, name: str, call: int, ack: int, now: float, nonce: str) -> list[t.Claim] | None:
        """An executor calls.

        Args:
            executor_id: which.
            name: of the call stream.
            call: the call's number; 0: it does not number its calls.
            ack: number of the last answer that arrived there.
            now: the monotonic clock.
            nonce: of the call.

        Returns:
            The claims of an answer that did not arrive; None: the call itself is a late copy of an older one, or its
            executor is dead, and must change nothing.
        """
        executor = self._executors.get(executor_id)
        if executor is None:
            self._forget_silent(now)
            executor = self._executors[executor_id] = _AnsweredExecutor(now)
        stream = executor.call_streams.setdefault(name, _CallStream())
        if executor.dead or 0 < call <= stream.call:
            return None
        executor.seen_at, stream.call, stream.nonce = now, call, nonce
        returned = stream.unacknowledged if ack < stream.number else []
        stream.unacknowledged = []
        stream.number = max(stream.number, ack)  # numbers go on where another controller left off
        return returned

    def answer(self, executor_id: str, name: str, claims: list[t.Claim]) -> int:
        """Notes the claims of an answer that is about to be sent to a call stream, and numbers it."""
        stream = self._executors[executor_id].call_streams[name]
        stream.nonce = ""
        stream.number += 1
        stream.unacknowledged = claims
        return stream.number

    def died(self, executor_id: str, now: float) -> Undelivered:
        """An executor is verifiably dead. Returns what it may never have been given."""
        executor = self._executors.setdefault(executor_id, _AnsweredExecutor(now))
        executor.dead = True
        streams = list(executor.call_streams.values())
        executor.call_streams.clear()
        claims = [claim for stream in streams for claim in stream.unacknowledged]
        return Undelivered(claims, [stream.nonce for stream in streams if stream.nonce])

    def _forget_silent(self, now: float) -> None:
        for each in [name for name, executor in self._executors.items() if executor.seen_at + FORGET_S < now]:
            del self._executors[each]
