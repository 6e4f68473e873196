"""The queues on both sides of the workers: what waits to start, in fair order, and what has ended, on its way to the executor's loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Callable, Sequence

from .held import HeldTask


def line_up(waiting: deque[HeldTask], tasks: Sequence[HeldTask]) -> None:
    """Adds tasks to what waits, in their order: behind the others, or before them if nothing of their lambda waits yet.

    Another thread may take from `waiting` meanwhile.
    """
    known = {task.lambda_name for task in waiting.copy()}
    first = [task for task in tasks if task.lambda_name not in known] if known else []
    if first:
        waiting.extendleft(reversed(first))
        waiting.extend(task for task in tasks if task.lambda_name in known)
    else:
        waiting.extend(tasks)


def take_all(waiting: deque[HeldTask]) -> list[HeldTask]:
    """Takes back all that waits. A worker may take one meanwhile: each goes to exactly one of the two."""
    tasks = []
    with contextlib.suppress(IndexError):
        while True:
            tasks.append(waiting.popleft())
    return tasks


class CompletionQueue:
    """Collects the ends of tasks from any thread; wakes the executor's loop once per burst."""

    def __init__(self, loop: asyncio.AbstractEventLoop, taken: Callable[[list[HeldTask]], None]) -> None:
        self._loop = loop
        self._taken = taken
        self._tasks: deque[HeldTask] = deque()
        self._called = False
        self._context = contextvars.copy_context()
        """Not that of the lambda whose end calls."""

    def add(self, task: HeldTask) -> None:
        self._tasks.append(task)
        self.look()

    def look(self) -> None:
        """Has the executor look at its workers, also if nothing has ended."""
        if not self._called:
            self._called = True
            # A closed loop: the process ends, and the table says what had started.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._flush, context=self._context)

    def _flush(self) -> None:
        self._called = False  # first: what is added from here on calls again
        self._taken([self._tasks.popleft() for _ in range(len(self._tasks))])
