"""Runs `async def` lambdas on an event loop, each in an asyncio task of its own.

Owns what waits for the loop, how many run on it, and how many begin in one turn of it; the loop itself is given: one of its own thread,
or the executor's.

An asyncio task makes its first step in the turn after the one in which it is made. So what is made is no run yet but a *runner*, which
takes a task when its first step comes: until then the task waits, and can be withdrawn. The runners of one turn begin tasks for SLICE_S
and no longer, whatever these compute before their first `await`; then those that run have their turn, and others begin in the next.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import types
from collections import deque
from collections.abc import Generator, Sequence
from typing import Final

from atf.exits import EXIT_FORKED

from .held import HeldTask
from .outcome import Outcome
from .perform import MayStart, Performer, Unawaited
from .queues import CompletionQueue, line_up, take_all

SLICE_S: Final = 0.005
"""Seconds of a turn in which tasks may begin: hundreds of short ones, or a single one that computes for longer."""


class LoopWorkers:
    """Runs `async def` lambdas on one event loop, each in an asyncio task of its own."""

    def __init__(self, limit: int) -> None:
        self.capacity = limit
        self._waiting: deque[HeldTask] = deque()
        self._running: dict[HeldTask, None] = {}
        self._runners = 0
        """That have not made their first step."""
        self._most = limit
        """Runners of one turn: as many as find time in it, as far as the turns before tell."""
        self._began = 0
        """Of them, those that have begun a task in this turn."""
        self._until = 0.0
        """When the slice of this turn is over, of the monotonic clock; 0: no runner has come yet."""
        self._loop: asyncio.AbstractEventLoop
        self._called = False
        """Whether `_fill` is about to run, as it is while there are runners."""
        self._stuck = False
        """Whether what waited was withdrawn before the loop came to it: a lambda may block the loop, so nothing more is wanted."""
        self._pid = os.getpid()

    def open(
        self, loop: asyncio.AbstractEventLoop, performer: Performer, begin: MayStart, ends: CompletionQueue
    ) -> None:
        self._loop, self._performer, self._begin, self._ends = loop, performer, begin, ends
        self._monotonic = performer.monotonic

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
        return take_all(self._waiting)

    def load(self) -> tuple[int, int, int]:
        running = len(self._running)
        return 0 if self._stuck else min(self.capacity, running + self._most), running, len(self._waiting)

    def cancel(self, task: HeldTask, *, cut: bool = False) -> None:
        self._loop.call_soon_threadsafe(self._cancel, task, cut)

    def close(self) -> None:
        """Cancels what runs; on the loop."""
        self._waiting.clear()
        for task in list(self._running):
            self._cancel(task)

    def _cancel(self, task: HeldTask, cut: bool = False) -> None:
        if task.aio is not None and task.outcome is None:
            task.cut = task.cut or cut
            task.aio.cancel()

    def _fill(self) -> None:
        """Makes runners for what waits, and looks in the next turn, behind their first steps, how far they came."""
        self._called = self._runners > 0
        if self._stuck:
            self._stuck = False
            self._ends.look()
        if self._until and not self._runners:
            self._learn()
        most = min(self._most, self.capacity - len(self._running), len(self._waiting)) - self._runners
        for _ in range(most):
            self._runners += 1
            body = self._run()
            body.send(None)  # to its first yield
            self._loop.create_task(body, name="run", context=contextvars.Context())
        if most > 0:
            self._again()

    def _again(self) -> None:
        self._called = True
        self._loop.call_soon(self._fill)

    def _learn(self) -> None:
        """The runners of the last turn have made their first steps: were they too many?"""
        if self._most < self.capacity:
            self._ends.look()  # there may be more room now
        long = self._monotonic() >= self._until
        self._most = max(1, self._began) if long else min(self._most * 2, self.capacity)
        self._began, self._until = 0, 0.0

    def _take(self) -> HeldTask | None:
        """The next task that begins; None: others have taken, or withdrawn, what waited."""
        while True:
            try:
                task = self._waiting.popleft()
            except IndexError:
                return None
            if self._begin(task):
                return task
            self._ends.add(task)

    async def _run(self) -> None:
        try:
            await _begun()
        except asyncio.CancelledError:  # a lambda may cancel whatever it finds on the loop; this is no task's run yet
            return
        finally:
            self._runners -= 1
        now = self._monotonic()
        if not self._until:
            self._until = now + SLICE_S
        elif now >= self._until:
            return
        task = self._take()
        if task is None:
            return
        self._began += 1
        self._running[task] = None
        aio = task.aio = asyncio.current_task(self._loop)
        if aio is not None:  # it is, unless lambdas have given the loop a factory of another kind
            aio.set_name(task.task_id)
        task.outcome = await self._performer.run_async(task)
        self._left(task)
        self._ends.add(task)

    async def finish(self, task: HeldTask, left: Unawaited) -> Outcome:
        """Awaits, on the loop, what a `def` has returned in another worker."""
        self._running[task] = None
        outcome = await self._performer.finish(task, left)
        self._left(task)
        return outcome

    def _left(self, task: HeldTask) -> None:
        """The task runs no more: another may begin."""
        if os.getpid() != self._pid:
            os._exit(EXIT_FORKED)
        self._running.pop(task, None)
        if self._waiting and not self._called:
            self._again()


@types.coroutine
def _begun() -> Generator[None]:
    """Waits for the first step of the asyncio task."""
    yield
