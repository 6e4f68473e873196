"""What may happen to a call on its way: between two roles, or between a role and the task store."""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeVar

from atf.errors import DeadlineExceeded, Unavailable
from atf.runtime import Runtime

T = TypeVar("T")

SOON_S: Final = 0.2
LATE_S: Final = 20.0
"""Beyond every lease and every timeout."""
SLOW_S: Final = 0.8
MOST: Final = 12
"""Faults of one name: some calls come in rows, of which each must get through."""


class Fault(enum.Enum):
    """What happens to a call. Each is what a caller or a role really gets to see."""

    REFUSED = "not done, reported as failed"
    LOST_ANSWER = "done, reported as failed"
    COPIED = "done, and once more soon after"
    COPIED_LATE = "done, and once more long after"
    DELAYED = "reported as failed, done soon after"
    DELAYED_LATE = "reported as failed, done long after"
    SLOW = "done in time, answered slowly"


class Line:
    """Carries calls. Of each name in `plan` the first call and every third after it suffer the fault: repeating helps.

    Attributes:
        plan: the fault by the call's name.
        down: names of calls that all fail, undone, until taken out; "*" is all of them.
        running: calls wait while it is cleared, as for a process that stands still.
        slow_s: how many seconds later each call is answered than it is done.
        slow_only: names of the calls that this is about; empty: all.
        calls: how many there were of each name.
        hits: how many of them suffered a fault.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.plan: dict[str, Fault] = {}
        self.down: set[str] = set()
        self.running = asyncio.Event()
        self.running.set()
        self.slow_s = 0.0
        self.slow_only: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self._runtime = runtime

    async def carry(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Carries one call."""
        if self.down & {name, "*"}:
            raise Unavailable(f"{name}: connection refused")
        await self.running.wait()
        self.calls[name] += 1
        fault = self.plan.get(name) if self.calls[name] % 3 == 1 and self.hits[name] < MOST else None
        if fault is None:
            answer = await call()
            if self.slow_s and (not self.slow_only or name in self.slow_only):
                await asyncio.sleep(self.slow_s)
            return answer
        self.hits[name] += 1
        match fault:
            case Fault.REFUSED:
                raise Unavailable(f"{name}: connection refused")
            case Fault.DELAYED | Fault.DELAYED_LATE:
                self._later(name, call, SOON_S if fault is Fault.DELAYED else LATE_S)
                raise DeadlineExceeded(f"{name}: no answer")
            case Fault.LOST_ANSWER:
                await call()
                raise DeadlineExceeded(f"{name}: no answer")
            case Fault.COPIED | Fault.COPIED_LATE:
                answer = await call()
                self._later(name, call, SOON_S if fault is Fault.COPIED else LATE_S)
                return answer
            case Fault.SLOW:
                answer = await call()
                await asyncio.sleep(SLOW_S)
                return answer

    async def stall(self, seconds: float) -> None:
        """Every call waits so long."""
        self.running.clear()
        await asyncio.sleep(seconds)
        self.running.set()

    def _later(self, name: str, call: Callable[[], Awaitable[Any]], seconds: float) -> None:
        async def deliver() -> None:
            await asyncio.sleep(seconds)
            await asyncio.gather(call(), return_exceptions=True)  # nobody hears the answer

        self._runtime.spawn(deliver(), name=f"late {name}")


class Wire:
    """A role as its callers reach it: every message is encoded and decoded, and may go astray."""

    def __init__(self, line: Line, role: Any) -> None:
        self.line = line
        self.role = role

    def __getattr__(self, name: str) -> Any:
        if name == "schedule_batch":
            return self._gather
        if name in {"watch_batch", "watch_log"}:
            return partial(self._watch, name)

        async def call(request: Any, *, timeout: float = 10) -> Any:
            sent = request.SerializeToString()

            async def deliver() -> Any:
                answer = await getattr(self.role, name)(type(request).FromString(sent))
                return type(answer).FromString(answer.SerializeToString())

            try:
                async with asyncio.timeout(timeout):
                    return await self.line.carry(name, deliver)
            except TimeoutError:
                raise DeadlineExceeded(f"{name}: no answer within {timeout:g} s") from None

        return call

    async def _gather(self, requests: AsyncIterator[Any], *, timeout: float = 10) -> Any:
        sent = [each async for each in requests]

        async def deliver() -> Any:
            async def copies() -> AsyncIterator[Any]:
                for each in sent:
                    yield type(each).FromString(each.SerializeToString())

            answer = await self.role.schedule_batch(copies())
            return type(answer).FromString(answer.SerializeToString())

        try:
            async with asyncio.timeout(timeout):
                return await self.line.carry("schedule_batch", deliver)
        except TimeoutError:
            raise DeadlineExceeded(f"schedule_batch: no answer within {timeout:g} s") from None

    async def _watch(self, name: str, request: Any, *, timeout: float = 10) -> AsyncGenerator[Any, None]:
        """Its first reply is what may go astray; a copy of the call is nobody's."""

        async def deliver() -> tuple[Any, Any]:
            replies = getattr(self.role, name)(request)
            return await anext(replies, None), replies

        reply, replies = await self.line.carry(name, deliver)
        async with aclosing(replies):
            while reply is not None:
                yield type(reply).FromString(reply.SerializeToString())
                reply = await anext(replies, None)
