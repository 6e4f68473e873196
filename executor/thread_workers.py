"""Runs `def` lambdas on threads.

They pull from a shared deque, so that a short task costs no hop of its own: a thread is woken only
if it idles, and wakes the next one only if there is more to do.

Owns the threads and what waits for them; see workers.py for what goes in and comes out.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading  # noqa: TID251  what a worker is
from collections import deque
from collections.abc import Callable, Sequence

from atf.exits import EXIT_FORKED

from .held import HeldTask
from .outcome import Outcome
from .perform import MayStart, Performer, Unawaited
from .queues import CompletionQueue, line_up, take_all

Finish = Callable[[HeldTask, Unawaited], Outcome]
"""Has awaited what a `def` has returned, and blocks until then. Called in the `def`'s own contextvars."""


class ThreadWorkers:
    """Runs `def` lambdas, one per thread."""

    def __init__(self, threads: int) -> None:
        self.capacity = threads
        self._waiting: deque[HeldTask] = deque()
        self._idle: list[threading.Lock] = []
        self._busy: list[int] = [0] * threads
        self._closed = False
        self._pid = os.getpid()

    def open(self, performer: Performer, begin: MayStart, ends: CompletionQueue, finish: Finish) -> None:
        self._performer, self._begin, self._ends, self._finish = performer, begin, ends, finish
        for number in range(self.capacity):
            # Daemons: a body that never ends must not keep the process from ending.
            threading.Thread(target=self._work, args=(number,), name=f"worker-{number}", daemon=True).start()

    def put(self, tasks: Sequence[HeldTask]) -> None:
        line_up(self._waiting, tasks)
        self._wake()

    def withdraw(self) -> list[HeldTask]:
        return take_all(self._waiting)

    def load(self) -> tuple[int, int, int]:
        return self.capacity, sum(self._busy), len(self._waiting)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(IndexError):  # all are busy, and look for more when they are done
            self._idle.pop().release()

    def _work(self, number: int) -> None:
        mine = threading.Lock()
        mine.acquire()
        waiting, busy, idle = self._waiting, self._busy, self._idle
        while not self._closed:
            try:
                task = waiting.popleft()
            except IndexError:
                busy[number] = 0
                idle.append(mine)
                if not waiting and not self._closed:
                    mine.acquire()
                    continue
                # Something came between the look and the parking: who put it may have found nobody to wake.
                try:
                    idle.remove(mine)
                except ValueError:
                    mine.acquire()  # woken already
                continue
            busy[number] = 1
            if waiting and idle:
                self._wake()
            if self._begin(task):
                context = contextvars.Context()
                outcome = context.run(self._performer.run, task)
                if os.getpid() != self._pid:
                    os._exit(EXIT_FORKED)  # a child that the lambda forked must not go on as an executor
                task.outcome = context.run(self._finish, task, outcome) if isinstance(outcome, Unawaited) else outcome
            self._ends.add(task)
