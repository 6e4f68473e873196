"""An event loop that the calling thread turns, and only while it waits for an answer.

It has no input and output of its own: what runs on it blocks the thread that turns it (atf/store/servers/blocking.py). So a call costs no other
thread, no wake-up and no selector. What was spawned and is not done stands still until the next call.
"""

from __future__ import annotations

import asyncio
import heapq
import time
import types
from asyncio import events
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class SteppingLoop(BaseEventLoop):
    """Runs coroutines for one thread at a time; its user sees to that.

    Args:
        sleep: waits so many seconds.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__()
        self._sleep = sleep

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns or raises. Blocks this thread until then."""
        around = events._get_running_loop()  # of a coroutine that makes a call which blocks
        events._set_running_loop(self)
        try:
            task = asyncio.Task(work, loop=self)
            try:
                while not task.done():
                    self._turn()
            except BaseException:  # such as Ctrl-C
                task.cancel()
                while not task.done():
                    self._turn()
                raise
            return task.result()
        finally:
            events._set_running_loop(around)

    def step(self, work: Coroutine[Any, Any, T]) -> T:
        """As `run`, of what hardly ever waits: an asyncio task is made of it only where it does. So it may not ask for its task before."""
        around = events._get_running_loop()
        events._set_running_loop(self)
        try:
            awaited = work.send(None)
        except StopIteration as ended:
            done: T = ended.value
            return done
        finally:
            events._set_running_loop(around)
        return self.run(_gone_on(work, awaited))

    def _turn(self) -> None:
        """Runs what is ready or due; if nothing is, sleeps until the next timer."""
        ready, timers = self._ready, self._scheduled
        while timers and (timers[0].cancelled() or not ready or timers[0].when() <= self.time()):
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                if (wait := timer.when() - self.time()) > 0:
                    self._sleep(wait)
                ready.append(timer)
        if not ready:
            raise RuntimeError("what is awaited here can't happen: no timer is set, and nothing else is waited for")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def __del__(self) -> None:
        """It holds nothing that had to be closed."""


async def _gone_on(work: Coroutine[Any, Any, T], awaited: Any) -> T:
    """The rest of a coroutine that has begun, and awaits something."""
    done: T = await _rest(work, awaited)
    return done


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    go_on: Callable[[], Any]
    while True:
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001  it is the coroutine's
            go_on = partial(work.throw, error)
        else:
            go_on = partial(work.send, sent)
        try:
            awaited = go_on()
        except StopIteration as ended:
            done: T = ended.value
            return done
