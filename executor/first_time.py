"""How a lambda asks whether its task is the first for a key: by a call of the HSC, from whatever thread or loop the lambda runs on.

The call is made on the executor's loop, whose connection it goes over; a portal is the way there, and each kind of worker has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from atf.calls.retry import RetryPolicy, retry
from atf.client.fork import GATE
from atf.errors import Unavailable
from atf.rpc import hsc_pb2 as h
from atf.rpc.api import HSC
from atf.runtime import Runtime

R = TypeVar("R")

PATIENCE_S: Final = 10.0
"""Seconds that a lambda waits for the answer at most, repetitions included."""
_AGAIN: Final = RetryPolicy(first=0.1, most=2.0)
TRY_S: Final = 3.0
"""Seconds of one call: it may be repeated, since the same task gets the same answer."""


class Portal(Protocol):
    """The way from a lambda to the executor's loop."""

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Has the work done and blocks until then; for a `def`."""
        ...

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        """Has the work done while the caller's loop goes on; for an `async def`."""
        ...


class LoopPortal:
    """To a loop of this process. `loop` is set before the first lambda runs."""

    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        if asyncio._get_running_loop() is not None:
            work.close()
            raise RuntimeError("this call would block the event loop that the lambda runs on: await its _async twin")
        GATE.check(work)  # in a child that a lambda has forked, that loop does not turn
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        GATE.check(work)
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))


class FirstTimes:
    """The calls, for all tasks of an executor.

    Args:
        executor_id: in whose name they are made.
        hsc: answers them.
        portal: the way to the loop on which they are made.
        runtime: clocks and chance.
    """

    def __init__(self, *, executor_id: str, hsc: HSC, portal: Portal, runtime: Runtime) -> None:
        self._executor_id = executor_id
        self._hsc = hsc
        self._portal = portal
        self._runtime = runtime

    def of(self, task_id: str, lambda_name: str) -> TaskFirstTime:
        """Those of one task."""
        return TaskFirstTime(self, self._portal, task_id, lambda_name.partition("/")[0])

    async def ask(self, task_id: str, namespace: str, key: str, ttl_us: int) -> bool:
        """On the executor's loop: whether the task is the first that asks.

        Raises:
            Unavailable: there was no answer in time.
            AtfError: the HSC refused the call.
        """
        asked = h.FirstTimeKey(task_id=task_id, namespace=namespace, key=key, ttl_us=ttl_us)
        request = h.FirstTimeRequest(executor_id=self._executor_id, keys=[asked])
        until = self._runtime.monotonic() + PATIENCE_S
        try:
            reply = await retry(
                partial(self._hsc.first_time, request, timeout=TRY_S), _AGAIN, self._runtime, until=until
            )
        except _AGAIN.errors as error:
            raise Unavailable(f"first_time of {namespace}/{key}: {error}") from None
        return reply.first[0]


class TaskFirstTime:
    """What a task's Context asks: an atf.sdk.context.FirstTime."""

    __slots__ = ("_calls", "_namespace", "_portal", "_task_id")

    def __init__(self, calls: FirstTimes, portal: Portal, task_id: str, namespace: str) -> None:
        self._calls = calls
        self._portal = portal
        self._task_id = task_id
        self._namespace = namespace

    def ask(self, key: str, ttl_us: int) -> bool:
        return self._portal.run(self._calls.ask(self._task_id, self._namespace, key, ttl_us))

    async def ask_async(self, key: str, ttl_us: int) -> bool:
        return await self._portal.hop(self._calls.ask(self._task_id, self._namespace, key, ttl_us))
