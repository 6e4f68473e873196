"""Runs every lambda on the executor's own loop, on virtual time, a `def` by turns with it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from atf.executor.held import HeldTask
from atf.executor.outcome import CUT, RunStopped
from atf.executor.perform import MayStart, Performer, Unawaited, timed_out

from .turns import ThreadTurn

R = TypeVar("R")

IN_LAMBDA: Final = contextvars.ContextVar("IN_LAMBDA", default=False)
"""Set in all that a lambda starts on the loop."""


class _OwnLoop:
    """The executor's loop is the lambdas' own."""

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        turn = ThreadTurn.current()
        if turn is None:
            work.close()
            raise RuntimeError("this call would block the event loop that the lambda runs on: await its _async twin")
        return turn.ask(work)

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        return await work


class TurnWorkers:
    """An atf.executor.workers.Workers. Tasks start in the order in which they come.

    Args:
        most: how many run at once; a `def` counts while it waits for something of the loop.
    """

    def __init__(self, most: int = 256) -> None:
        self.bridge = _OwnLoop()
        self._most = most
        self._running = 0
        self._waiting: deque[HeldTask] = deque()

    def open(self, performer: Performer, begin: MayStart, ended: Callable[[list[HeldTask]], None]) -> None:
        self._performer, self._begin, self._ended = performer, begin, ended
        self._loop = asyncio.get_running_loop()

    def put(self, tasks: Sequence[HeldTask]) -> None:
        self._waiting.extend(tasks)
        self._loop.call_soon(self._fill)

    def withdraw(self) -> list[HeldTask]:
        tasks = list(self._waiting)
        self._waiting.clear()
        return tasks

    def cancel(self, task: HeldTask, *, cut: bool = False) -> None:
        if task.aio is not None and task.outcome is None and self._performer.is_async(task):
            task.cut = task.cut or cut
            task.aio.cancel()

    def load(self, is_async: bool) -> tuple[int, int, int]:
        return self._most, self._running, len(self._waiting)

    def close(self) -> None:
        self._waiting.clear()

    def _fill(self) -> None:
        refused = []
        while self._waiting and self._running < self._most:
            task = self._waiting.popleft()
            if not self._begin(task):
                refused.append(task)
                continue
            self._running += 1
            context = contextvars.Context()
            context.run(IN_LAMBDA.set, True)
            task.aio = self._loop.create_task(self._run(task), name=task.task_id, context=context)
            task.aio.add_done_callback(functools.partial(self._end, task))
        if refused:
            self._ended(refused)

    async def _run(self, task: HeldTask) -> None:
        if self._performer.is_async(task):
            task.outcome = await self._performer.run_async(task)
        else:
            outcome = await ThreadTurn(lambda: self._performer.run(task)).take()
            task.outcome = await self._performer.finish(task, outcome) if isinstance(outcome, Unawaited) else outcome

    def _end(self, task: HeldTask, _done: asyncio.Task[None]) -> None:
        if task.outcome is None:  # cancelled before its first step
            task.outcome = (
                timed_out(task) if task.timed_out else CUT if task.cut else RunStopped("cancelled", began=False)
            )
        self._running -= 1
        self._ended([task])
        self._fill()
