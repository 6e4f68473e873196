"""Workers of an executor whose lambdas run on its own loop, for tests on virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections import deque
from collections.abc import Callable, Sequence

from atf.executor.first_time import ExecutorLoop
from atf.executor.held import HeldTask
from atf.executor.loop_workers import LoopWorkers
from atf.executor.perform import MayStart, Performer, Unawaited
from atf.executor.queues import CompletionQueue
from atf.exits import EXIT_FORKED


class InlineWorkers:
    """Runs both kinds on the executor's own loop: a `def` is called directly, so its timeout can't cut in."""

    def __init__(self, async_tasks: int = 256) -> None:
        self.bridge = ExecutorLoop()
        self._coroutines = LoopWorkers(async_tasks)
        self._waiting: deque[HeldTask] = deque()
        self._called = False
        self._pid = os.getpid()

    def open(self, performer: Performer, begin: MayStart, ended: Callable[[list[HeldTask]], None]) -> None:
        self._performer, self._begin = performer, begin
        self._loop = self.bridge.loop = asyncio.get_running_loop()
        self._ends = CompletionQueue(self._loop, ended)
        self._coroutines.open(self._loop, performer, begin, self._ends)

    def put(self, tasks: Sequence[HeldTask]) -> None:
        for task in tasks:
            if self._performer.is_async(task):
                self._coroutines.put([task])
            else:
                self._waiting.append(task)
        if self._waiting and not self._called:
            self._called = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """One task per turn of the loop, so that the roles beside it go on."""
        self._called = False
        if not self._waiting:
            return
        task = self._waiting.popleft()
        if self._begin(task):
            context = contextvars.Context()
            outcome = context.run(self._performer.run, task)
            if os.getpid() != self._pid:
                os._exit(EXIT_FORKED)  # a child that the lambda forked must not go on as the test
            if isinstance(outcome, Unawaited):
                self._loop.create_task(self._finish(task, outcome), context=context)
                self.put(())
                return
            task.outcome = outcome
        self._ends.add(task)
        self.put(())

    async def _finish(self, task: HeldTask, left: Unawaited) -> None:
        task.outcome = await self._coroutines.finish(task, left)
        self._ends.add(task)

    def withdraw(self) -> list[HeldTask]:
        tasks = [*self._waiting, *self._coroutines.withdraw()]
        self._waiting.clear()
        return tasks

    def cancel(self, task: HeldTask, *, cut: bool = False) -> None:
        self._coroutines.cancel(task, cut=cut)

    def load(self, is_async: bool) -> tuple[int, int, int]:
        return self._coroutines.load() if is_async else (1, 0, len(self._waiting))

    def close(self) -> None:
        self._waiting.clear()
        self._coroutines.close()
