"""Asks the HSC for a lambda whether its task is the first for a key, from whatever thread or loop the lambda runs on.

The call is made on the executor's loop, whose connection it goes over; a LoopBridge is the way there, and each kind of worker has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from atf.calls.retry import RetryPolicy, retry
from atf.client.fork import FORK_GUARD
from atf.errors import Unavailable
from atf.rpc import hsc_pb2 as h
from atf.rpc.api import HSC
from atf.runtime import Runtime
from atf.sdk.blocking import LoopBridge

R = TypeVar("R")

PATIENCE_S: Final = 10.0
"""Seconds that a lambda waits for the answer at most, repetitions included."""
_AGAIN: Final = RetryPolicy(first=0.1, most=2.0)
TRY_S: Final = 3.0
"""Seconds of one call: it may be repeated, since the same task gets the same answer."""


class ExecutorLoop:
    """To a loop of this process. `loop` is set before the first lambda runs."""

    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        if asyncio._get_running_loop() is not None:
            work.close()
            raise RuntimeError("this call would block the event loop that the lambda runs on: await its _async twin")
        FORK_GUARD.check(work)  # in a child that a lambda has forked, that loop does not turn
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        FORK_GUARD.check(work)
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))


@dataclass(frozen=True)
class FirstTimes:
    """The calls, for all tasks of an executor."""

    executor_id: str
    hsc: HSC
    bridge: LoopBridge
    """The way to the loop on which they are made."""
    runtime: Runtime

    def of(self, task_id: str, lambda_name: str) -> TaskFirstTime:
        """Those of one task."""
        return TaskFirstTime(self, task_id, lambda_name.partition("/")[0])

    async def ask(self, task_id: str, namespace: str, key: str, ttl_us: int) -> bool:
        """On the executor's loop: whether the task is the first that asks.

        Raises:
            Unavailable: there was no answer in time.
            AtfError: the HSC refused the call.
        """
        asked = h.FirstTimeKey(task_id=task_id, namespace=namespace, key=key, ttl_us=ttl_us)
        request = h.FirstTimeRequest(executor_id=self.executor_id, keys=[asked])
        until = self.runtime.monotonic() + PATIENCE_S
        try:
            reply = await retry(partial(self.hsc.first_time, request, timeout=TRY_S), _AGAIN, self.runtime, until=until)
        except _AGAIN.errors as error:
            raise Unavailable(f"first_time of {namespace}/{key}: {error}") from None
        return reply.first[0]


class TaskFirstTime(NamedTuple):
    """What a task's Context asks: an atf.sdk.context.FirstTimeCheck."""

    calls: FirstTimes
    task_id: str
    namespace: str

    def ask(self, key: str, ttl_us: int) -> bool:
        return self.calls.bridge.run(self.calls.ask(self.task_id, self.namespace, key, ttl_us))

    async def ask_async(self, key: str, ttl_us: int) -> bool:
        return await self.calls.bridge.hop(self.calls.ask(self.task_id, self.namespace, key, ttl_us))
