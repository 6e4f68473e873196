"""The frontend as a client sees it: beside the calls that are repeated as they are, those that it gathers or holds open."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from atf.calls.coalescing import CallLimits, Coalescer
from atf.calls.retry import Pauses
from atf.errors import BY_CODE, BY_REASON, AtfError, Internal, NotFound, TooManyPending, Unavailable
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j
from atf.task import US, Status

from .frontend_calls import FrontendCalls
from .retrying import AGAIN, LATE, NOW

LIMITS: Final = CallLimits(size=3 << 20, calls=4)
"""Of calls that hold tasks or jobs which are scheduled at the same time; a message holds 4 MiB."""
LONG_POLL: Final = 20.0
"""Seconds that the frontend holds a WaitTasks open at most; after them it is asked again."""
CHUNK_TIMEOUT: Final = 120.0
"""Seconds that one try of thousands of items may take."""
WATCH_TIMEOUT: Final = 20.0
"""Seconds after which a stream is asked for anew: on a quiet one nothing else tells a frontend that hangs from a batch that rests."""


def _size(request: Message) -> int:
    return request.ByteSize()


class _Gathering(NamedTuple):
    """What is scheduled on one event loop."""

    loop: asyncio.AbstractEventLoop
    tasks: Coalescer[f.ScheduleRequest, f.ScheduleReply | AtfError]
    jobs: Coalescer[f.ScheduleJobRequest, j.Job | AtfError]


class Calls(FrontendCalls):
    """Every call of a client. Args: as of RepeatingCalls."""

    _gathering: _Gathering | None = None

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
        return max(NOW, until - self._runtime.monotonic())

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
                self.unless_closed(error)
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
                self.unless_closed(error)
            await asyncio.sleep(pauses.next())

    async def watch_log(self, request: f.WatchLogRequest) -> AsyncGenerator[f.GetLogReply, None]:
        """What the runs of a task said whenever that has changed, until the task has ended; otherwise as watch_batch."""
        pauses = Pauses(AGAIN, self._runtime)
        while True:
            try:
                async with aclosing(self.connected().watch_log(request, timeout=WATCH_TIMEOUT)) as seen:
                    async for log in seen:
                        pauses.reset()
                        yield log
                        if Status(log.status).finished:
                            return
            except AGAIN.errors as error:
                self.unless_closed(error)
            await asyncio.sleep(pauses.next())


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
