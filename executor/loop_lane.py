"""An event loop for `async def` lambdas, each in an asyncio task of its own.

Owns what waits for the loop and how many run on it; the loop itself is given: one of its own thread, or the executor's.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import types
from collections import deque
from collections.abc import Generator, Sequence

from atf.exits import EXIT_FORKED

from .begin import Begin
from .ends import Ends
from .held import HeldTask
from .outcome import Stopped
from .perform import Performer, timed_out
from .turns import line_up


class LoopLane:
    """Runs `async def` lambdas on one event loop, each in an asyncio task of its own."""

    def __init__(self, limit: int) -> None:
        self.capacity = limit
        self._waiting: deque[HeldTask] = deque()
        self._running: set[HeldTask] = set()
        self._loop: asyncio.AbstractEventLoop
        self._called = False
        self._stuck = False
        """Whether what waited was withdrawn before the loop came to it: a lambda may block the loop, so nothing more is wanted."""
        self._pid = os.getpid()

    def open(self, loop: asyncio.AbstractEventLoop, performer: Performer, begin: Begin, ends: Ends) -> None:
        self._loop, self._performer, self._begin, self._ends = loop, performer, begin, ends

    def put(self, tasks: Sequence[HeldTask]) -> None:
        line_up(self._waiting, tasks)
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._fill)

    def withdraw(self) -> list[HeldTask]:
        # Set first, and taken back then if the loop has answered: so `_fill`, on the loop's thread, has the last word.
        self._stuck = True
        if not self._called:
            self._stuck = False
        tasks = []
        try:
            while True:
                tasks.append(self._waiting.popleft())
        except IndexError:
            return tasks

    def load(self) -> tuple[int, int, int]:
        return 0 if self._stuck else self.capacity, len(self._running), len(self._waiting)

    def cancel(self, task: HeldTask) -> None:
        self._loop.call_soon_threadsafe(self._cancel, task)

    def close(self) -> None:
        """Cancels what runs; on the loop."""
        self._waiting.clear()
        for task in list(self._running):
            self._cancel(task)

    def _cancel(self, task: HeldTask) -> None:
        if task.aio is not None:
            task.aio.cancel()

    def _fill(self) -> None:
        self._called = False
        if self._stuck:
            self._stuck = False
            self._ends.look()
        while self._waiting and len(self._running) < self.capacity:
            try:
                task = self._waiting.popleft()
            except IndexError:
                return  # withdrawn meanwhile
            if not self._begin(task):
                self._ends.add(task)
                continue
            self._running.add(task)
            body = self._run(task)
            body.send(None)  # to its first yield
            task.aio = self._loop.create_task(body, name=task.task_id, context=contextvars.Context())

    async def _run(self, task: HeldTask) -> None:
        try:
            await _begun()
        except asyncio.CancelledError:  # before its first step: a coroutine that had not begun would end unseen
            task.outcome = timed_out(task) if task.timed_out else Stopped("cancelled")
        else:
            task.outcome = await self._performer.run_async(task)
            if os.getpid() != self._pid:
                os._exit(EXIT_FORKED)
        self._running.discard(task)
        self._ends.add(task)
        if self._waiting:
            self._fill()


@types.coroutine
def _begun() -> Generator[None]:
    """Waits for the first step of the asyncio task."""
    yield
