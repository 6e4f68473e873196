"""An event loop that the calling thread turns, and only while it waits for an answer.

It has no input and output of its own: what runs on it blocks the thread that turns it (atf/store/servers/blocking.py). So a call costs no other
thread, no wake-up and no selector. What was spawned and is not done stands still until the next call.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from asyncio import events
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine
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
