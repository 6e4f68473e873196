"""Gathers what is scheduled at the same time, tasks or jobs, into one call.

A request waits for no timer: it is sent at once when nothing is under way. Only while a call is does the next one fill.
Runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from atf.errors import BY_REASON, AtfError, DeadlineExceeded, Internal, TooManyPending
from atf.rpc import frontend_pb2 as f
from atf.runtime import Runtime
from atf.task import MAX_BATCH, US

MAX_CALL_BYTES: Final = 3 << 20
"""Of the requests in one call; a message holds 4 MiB."""
_SLACK_S: Final = 0.5
MAX_CALLS: Final = 4
"""Under way at once; more than one only while full ones wait."""

_BY_CODE: Final = {kind.code: kind for kind in BY_REASON.values() if kind.__base__ is AtfError}
"""For reasons that this version does not know."""

Q = TypeVar("Q", bound=Message)
A = TypeVar("A")


@dataclass(slots=True)
class _Waiting(Generic[Q, A]):
    request: Q
    size: int
    until: float  # monotonic; a call that it travels in ends by then
    done: asyncio.Future[A]


class Sized(Protocol):
    """What waits to be sent."""

    size: int


W = TypeVar("W", bound=Sized)


class Coalescer(Generic[Q, A]):
    """The door through which a client schedules.

    Args:
        send: makes a call, which takes at most so many seconds; answers what became of each request.
        runtime: clocks.
    """

    def __init__(
        self, send: Callable[[Sequence[Q], float], Awaitable[Sequence[A | AtfError]]], runtime: Runtime
    ) -> None:
        self._send = send
        self._runtime = runtime
        self._waiting: deque[_Waiting[Q, A]] = deque()
        self._waiting_bytes = 0
        self._calls = 0

    async def schedule(self, request: Q, timeout: float) -> A:
        """Sends one request, in company if there is any.

        Args:
            request: with its id, so that it may be repeated.
            timeout: seconds. No timer of its own watches over it, unless it has less than its company: a call ends by the time of
                those in it, and nobody waits for more than the calls under way before the own one.

        Raises:
            AtfError: what became of this request, or of the call that it travelled in.
        """
        done: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(request, request.ByteSize(), self._runtime.monotonic() + timeout, done)
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.size
        self._fill_calls()
        return await waiting.done

    def _fill_calls(self) -> None:
        while self._waiting and (self._calls == 0 or (self._calls < MAX_CALLS and self._full())):
            self._calls += 1
            self._runtime.spawn(self._call(), name="schedule")

    def _full(self) -> bool:
        return len(self._waiting) >= MAX_BATCH or self._waiting_bytes >= MAX_CALL_BYTES

    async def _call(self) -> None:
        batch = self._take()  # a turn of the loop later, so that what is scheduled in one turn travels together
        timers: list[asyncio.TimerHandle] = []
        try:
            if batch:
                now, until = self._runtime.monotonic(), max(each.until for each in batch)
                loop = asyncio.get_running_loop()
                # All calls of a client have the same time; only what is repeated has less left than its company.
                timers = [
                    loop.call_later(each.until - now, _expire, each) for each in batch if each.until < until - _SLACK_S
                ]
                _settle(batch, await self._send([each.request for each in batch], max(0.001, until - now)))
        except AtfError as error:
            for each in batch:
                if not each.done.done():
                    each.done.set_exception(type(error)(*error.args))
        finally:
            for timer in timers:
                timer.cancel()
            for each in batch:
                each.done.cancel()  # only if this call was cancelled, or had another answer than there were requests
            self._calls -= 1
            self._fill_calls()

    def _take(self) -> list[_Waiting[Q, A]]:
        taken = take(self._waiting)
        self._waiting_bytes -= sum(each.size for each in taken)
        return [each for each in taken if not each.done.done()]  # of the others whoever called gave up


def take(waiting: deque[W]) -> list[W]:
    """Takes out the first ones, as many as one call holds."""
    batch: list[W] = []
    size = 0
    while waiting and len(batch) < MAX_BATCH and not (batch and size + waiting[0].size > MAX_CALL_BYTES):
        size += waiting[0].size
        batch.append(waiting.popleft())
    return batch


def _expire(waiting: _Waiting[Any, Any]) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(DeadlineExceeded("Schedule: no answer in time"))


def _settle(batch: list[_Waiting[Q, A]], answers: Sequence[A | AtfError]) -> None:
    for each, answer in zip(batch, answers, strict=True):
        if each.done.done():
            continue
        if isinstance(answer, AtfError):
            each.done.set_exception(answer)
        else:
            each.done.set_result(answer)


def batches(requests: Iterable[f.ScheduleRequest]) -> Iterator[list[f.ScheduleRequest]]:
    """The requests in order, in as few calls as hold them."""
    batch: list[f.ScheduleRequest] = []
    size = 0
    for request in requests:
        more = request.ByteSize()
        if batch and (len(batch) == MAX_BATCH or size + more > MAX_CALL_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(request)
        size += more
    if batch:
        yield batch


def answer_of(result: f.ScheduleResult) -> f.ScheduleReply | AtfError:
    """What became of one task of a call."""
    return error_of(result.error) if result.HasField("error") else result.reply


def error_of(said: f.Error) -> AtfError:
    """What went wrong with one item of a call of many."""
    kind = BY_REASON.get(said.reason) or _BY_CODE.get(said.code, Internal)
    error = kind(said.message)
    if isinstance(error, TooManyPending):
        error.retry_after_s = said.retry_after_us / US
    return error
