"""Repeats a client's calls while the frontend is away, within their time.

A call is repeated until the client's `timeout` is over. What belongs to a wait is repeated until the caller's own time is over, however
long the frontend is away.

Every call may be repeated: a task that is scheduled has its id already, and the other calls say what shall be, not what to
change. Knows the frontend by its interface; loads gRPC at the first call, and only if it has to connect.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from atf.calls.coalescing import Coalescer
from atf.calls.retry import Pauses, RetryPolicy, retry
from atf.errors import AtfError, InvalidArgument, NotFound, Unavailable
from atf.rpc import api
from atf.rpc import batch_pb2 as b
from atf.rpc import frontend_pb2 as f
from atf.rpc import job_pb2 as j
from atf.runtime import Runtime
from atf.sdk.options import Duration, duration_us
from atf.sdk.payload import short
from atf.task import US

from .coalescing import LIMITS, answer_of, error_of
from .fork import FORK_GUARD
from .frontend_calls import FrontendCalls

if TYPE_CHECKING:
    from .transport import ForkSafeChannel

Q = TypeVar("Q")

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that a call may take, with all its tries, where neither the program nor ATF_TIMEOUT says otherwise."""
TRY_TIMEOUT: Final = 10.0
"""Seconds that one try of a call may take at most."""
LEAST_TRY: Final = 1.0
"""Seconds that one try may take in any case, if the call has them."""
AGAIN: Final = RetryPolicy(first=0.05, most=2.0)
"""How a call is repeated, until its time is over."""
LONG_POLL: Final = 20.0
"""Seconds that the frontend holds a WaitTasks open at most; after them it is asked again."""
CHUNK_TIMEOUT: Final = 120.0
"""Seconds that one try of thousands of items may take."""
WATCH_TIMEOUT: Final = 20.0
"""Seconds after which a stream is asked for anew: on a quiet one nothing else tells a frontend that hangs from a batch that rests."""
LATE: Final = 2.0
"""Seconds beyond the caller's own time that the last answer of a wait may take."""
_NOW: Final = 0.001
"""Seconds that are too few to wait for."""


def call_timeout(given: Duration | None) -> float:
    """Seconds that a call may take: as given, else as ATF_TIMEOUT says.

    Raises:
        InvalidArgument: it is no duration, or none at all.
    """
    what, value = ("timeout", given) if given is not None else ("ATF_TIMEOUT", os.environ.get("ATF_TIMEOUT") or None)
    seconds = DEFAULT_TIMEOUT if value is None else duration_us(value, what) / US
    if not seconds:
        raise InvalidArgument(f"{what} {short(value)}: give more than 0")
    return seconds


def time_of_try(timeout: float, left: float) -> float:
    """Seconds for one try of a call: half of its time, so that another one finds another connection if this one leads nowhere.

    Args:
        timeout: seconds that the call may take, with all its tries.
        left: of which so many are left.
    """
    return max(_NOW, min(TRY_TIMEOUT, max(timeout / 2, LEAST_TRY), left))


def _size(request: Message) -> int:
    return request.ByteSize()


class _Gathering(NamedTuple):
    """What is scheduled on one event loop."""

    loop: asyncio.AbstractEventLoop
    tasks: Coalescer[f.ScheduleRequest, f.ScheduleReply | AtfError]
    jobs: Coalescer[f.ScheduleJobRequest, j.Job | AtfError]


class Calls(FrontendCalls):
    """The frontend as a client sees it.

    Args:
        address: host:port to connect to.
        timeout: seconds that a call may take, with all its tries.
        frontend: what to call instead.
        runtime: clocks and chance.
    """

    def __init__(self, address: str, timeout: float, frontend: api.Frontend | None, runtime: Runtime) -> None:
        self._address = address
        self.timeout = timeout
        self._frontend = frontend
        self._runtime = runtime
        self._channel: ForkSafeChannel | None = None
        self._closed = False
        self._gathering: _Gathering | None = None
        self._heard_at = -math.inf

    async def schedule(self, request: f.ScheduleRequest) -> f.ScheduleReply:
        """Travels with the tasks that are scheduled at the same time."""
        tasks = self._gathered().tasks
        return await self.repeat(lambda timeout: tasks.ask_one(request, self._runtime.monotonic() + timeout))

    async def schedule_job(self, request: f.ScheduleJobRequest) -> j.Job:
        """Travels with the jobs that are scheduled at the same time."""
        jobs = self._gathered().jobs
        return await self.repeat(lambda timeout: jobs.ask_one(request, self._runtime.monotonic() + timeout))

    def _gathered(self) -> _Gathering:
        loop = asyncio.get_running_loop()
        if (
            self._gathering is None or self._gathering.loop is not loop
        ):  # the first call, or the first of a forked process
            kind: Any = partial(Coalescer, size=_size, limits=LIMITS, runtime=self._runtime, name="Schedule")
            self._gathering = _Gathering(loop, kind(self._schedule_many), kind(self._schedule_jobs))
        return self._gathering

    async def schedule_all(self, requests: Sequence[f.ScheduleRequest]) -> list[f.ScheduleReply | AtfError]:
        """What became of each request; they travel in as few calls as hold them."""
        calls: Coalescer[f.ScheduleRequest, f.ScheduleReply | AtfError] = Coalescer(
            self._schedule_part, size=_size, limits=LIMITS, runtime=self._runtime, name="ScheduleMany"
        )
        try:
            return await calls.ask(requests)
        finally:
            await calls.close()  # of use only if the caller gave up

    async def _schedule_part(self, batch: list[f.ScheduleRequest], _until: float) -> list[f.ScheduleReply | AtfError]:
        answers: list[f.ScheduleReply | AtfError] = [Unavailable("not sent")] * len(batch)

        async def send(timeout: float) -> None:
            left = [place for place, answer in enumerate(answers) if isinstance(answer, AGAIN.errors)]
            request = f.ScheduleManyRequest(requests=[batch[place] for place in left])
            reply = await self.connected().schedule_many(request, timeout=timeout)
            for place, result in zip(left, reply.results, strict=True):
                answers[place] = answer_of(result)
            away = next((answer for answer in answers if isinstance(answer, AGAIN.errors)), None)
            if away is not None:  # a partition of the store; the rest has got through
                raise away

        try:
            await self.repeat(send)
        except AtfError as error:
            return [error if isinstance(answer, AGAIN.errors) else answer for answer in answers]
        return answers

    async def _schedule_many(self, requests: list[f.ScheduleRequest], until: float) -> list[f.ScheduleReply | AtfError]:
        request = f.ScheduleManyRequest(requests=requests)
        reply = await self.connected().schedule_many(request, timeout=self._left(until))
        return [answer_of(each) for each in reply.results]

    async def _schedule_jobs(self, requests: list[f.ScheduleJobRequest], until: float) -> list[j.Job | AtfError]:
        request = f.ScheduleJobsRequest(requests=requests)
        reply = await self.connected().schedule_jobs(request, timeout=self._left(until))
        return [error_of(each.error) if each.HasField("error") else each.job for each in reply.results]

    def _left(self, until: float) -> float:
        return max(_NOW, until - self._runtime.monotonic())

    async def wait_tasks(self, ids: Sequence[str], until: float, *, first: bool) -> f.WaitTasksReply:
        """Those that have finished within LONG_POLL, or by `until`; see repeat."""

        async def poll(timeout: float) -> f.WaitTasksReply:
            left = max(0.0, until - self._runtime.monotonic())
            held = min(LONG_POLL, left)
            request = f.WaitTasksRequest(ids=ids, timeout_us=round(held * US), all=not first)
            # By the frontend's will; the network's time comes on top.
            return await self.connected().wait_tasks(request, timeout=min(held + timeout, left + LATE))

        return await self.repeat(poll, until)

    async def schedule_batch(self, chunk: Sequence[b.ScheduleBatchRequest]) -> b.ScheduleBatchReply:
        """A header, and messages of items; sent again as a whole if the call breaks off."""

        async def each() -> AsyncIterator[b.ScheduleBatchRequest]:
            for message in chunk:
                yield message
            yield b.ScheduleBatchRequest(end=b.BatchEnd(items=sum(len(message.items.items) for message in chunk)))

        await self._reach(chunk[0].header.id)
        pauses, chances = Pauses(AGAIN, self._runtime, until=-math.inf), 2
        while True:
            begun = self._runtime.monotonic()
            try:
                return await self.connected().schedule_batch(each(), timeout=CHUNK_TIMEOUT)
            except AGAIN.errors as error:
                now = self._runtime.monotonic()
                # A chunk may take long, so its time begins when it has broken off; once anew, since one that was long under way had reached somebody.
                if pauses.until < 0 or (chances and isinstance(error, Unavailable) and now - begun > self.timeout):
                    pauses.until, chances = now + self.timeout, chances - 1
                self._unless_closed(error)
                await asyncio.sleep(pauses.after(error))

    async def _reach(self, batch_id: str) -> None:
        """Raises as any call where the frontend is down. A chunk may take minutes, so by itself it would tell late."""
        if self._runtime.monotonic() > self._heard_at + self.timeout:
            with suppress(NotFound):
                await self.get_batch(b.GetBatchRequest(id=batch_id))

    async def watch_batch(self, request: b.WatchBatchRequest) -> AsyncGenerator[b.Batch, None]:
        """The batch whenever it has changed, until it has ended; asked for again, without end, where the stream breaks off."""
        pauses, said = Pauses(AGAIN, self._runtime), b.Batch()
        while True:
            try:
                async with aclosing(self.connected().watch_batch(request, timeout=WATCH_TIMEOUT)) as seen:
                    async for batch in seen:
                        pauses.reset()
                        said.now_us = batch.now_us
                        if batch != said:  # the first of each stream says how it stands, changed or not
                            said.CopyFrom(batch)
                            yield batch
                        if batch.ended_at_us:
                            return
            except AGAIN.errors as error:
                self._unless_closed(error)
            await asyncio.sleep(pauses.next())

    async def close(self) -> None:
        """Ends the connection. Calls that wait, and later ones, raise Unavailable."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()

    def connected(self) -> api.Frontend:
        if self._closed:
            raise Unavailable("the client is closed")
        if self._frontend is None:
            with FORK_GUARD.loading():
                from atf.rpc.stubs import FrontendStub

                from .transport import ForkSafeChannel

            self._channel = ForkSafeChannel(self._address)
            self._frontend = FrontendStub(self._channel)
        return self._frontend

    def repeat(self, call: Callable[[float], Awaitable[Q]], until: float | None = None) -> Awaitable[Q]:
        if until is not None:
            return self._repeat_for_wait(call, until)
        end = self._runtime.monotonic() + self.timeout

        async def attempt() -> Q:
            answer = await call(time_of_try(self.timeout, end - self._runtime.monotonic()))
            self._heard_at = self._runtime.monotonic()
            return answer

        return retry(attempt, AGAIN, self._runtime, until=end, failed=self._unless_closed)

    async def _repeat_for_wait(self, call: Callable[[float], Awaitable[Q]], until: float) -> Q:
        async def attempt() -> Q:
            left = max(0.0, until - self._runtime.monotonic())
            answer = await call(max(_NOW, min(TRY_TIMEOUT, self.timeout, left + LATE)))
            self._heard_at = self._runtime.monotonic()
            return answer

        try:
            # The last try is when the time of the wait is over.
            return await retry(attempt, AGAIN, self._runtime, until=until, to_the_end=True, failed=self._unless_closed)
        except AGAIN.errors as error:
            if self._closed:
                raise
            raise TimeoutError(f"the time of the wait is over, and the frontend is away: {error}") from error

    def _unless_closed(self, error: Exception) -> None:
        if self._closed:
            raise error
