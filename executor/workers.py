"""Runs lambdas where they belong: threads for `def`, an event loop for `async def`; or, for tests, the executor's own loop.

They decide neither what is fetched nor what is reported: tasks go in by `put`, and come out by `ended`, once per burst, on the
executor's loop. A *worker* in these modules is a thread, or a place on the event loop, that runs one task at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading  # noqa: TID251  what a worker is
from collections.abc import Callable, Sequence
from typing import Protocol

from atf.exits import EXIT_FORKED
from atf.log import get_logger
from atf.sdk.blocking import LoopBridge

from .first_time import ExecutorLoop
from .held import HeldTask
from .loop_workers import LoopWorkers
from .outcome import Outcome, RunFailed
from .perform import MayStart, Performer, Unawaited
from .queues import CompletionQueue
from .thread_workers import ThreadWorkers

_log = get_logger(duty="workers")


class Workers(Protocol):
    """Runs tasks. Every method is called on the executor's loop."""

    @property
    def bridge(self) -> LoopBridge:
        """The way from a lambda that runs here to the executor's loop."""
        ...

    def open(self, performer: Performer, begin: MayStart, ended: Callable[[list[HeldTask]], None]) -> None:
        """Gets ready. `ended` takes tasks that have an outcome, and tasks without one that must not start now."""
        ...

    def put(self, tasks: Sequence[HeldTask]) -> None:
        """Starts these, in this order, as workers become free."""
        ...

    def withdraw(self) -> list[HeldTask]:
        """Takes back every task that has not started."""
        ...

    def cancel(self, task: HeldTask, *, cut: bool = False) -> None:
        """Cancels the body of a started task if it is a coroutine, or has returned one; `cut`, and marks it as cut if that reaches it."""
        ...

    def load(self, is_async: bool) -> tuple[int, int, int]:
        """Of one kind of lambda: how many can run at once, how many run, how many wait.

        Of coroutines as many can run as do already and as begin in one turn of their loop; none while a lambda blocks it.
        """
        ...

    def close(self) -> None:
        """Takes no more. What runs is not waited for: the process ends, or stands for one that does."""
        ...


class ThreadAndLoopWorkers:
    """The workers of production."""

    def __init__(self, threads: int, async_tasks: int) -> None:
        self.bridge = ExecutorLoop()
        self._threads = ThreadWorkers(threads)
        self._coroutines = LoopWorkers(async_tasks)
        self._loop = asyncio.new_event_loop()
        self._turns = False
        self._closed = False

    def open(self, performer: Performer, begin: MayStart, ended: Callable[[list[HeldTask]], None]) -> None:
        self._is_async = performer.is_async
        self.bridge.loop = asyncio.get_running_loop()
        ends = CompletionQueue(self.bridge.loop, ended)
        self._threads.open(performer, begin, ends, self._finish)
        self._coroutines.open(self._loop, performer, begin, ends)
        self.turn()

    def turn(self) -> asyncio.AbstractEventLoop:
        """The loop of the coroutines, which turns from now on at the latest: worker hooks use it before there are tasks."""
        if not self._turns:
            self._turns = True
            os.register_at_fork(after_in_child=self._in_child)
            threading.Thread(target=self._turn, name="worker-async", daemon=True).start()
        return self._loop

    def put(self, tasks: Sequence[HeldTask]) -> None:
        coroutines = [task for task in tasks if self._is_async(task)]
        if coroutines:
            self._coroutines.put(coroutines)
        if len(coroutines) < len(tasks):
            self._threads.put([task for task in tasks if not self._is_async(task)] if coroutines else tasks)

    def _finish(self, task: HeldTask, left: Unawaited) -> Outcome:
        """Has the loop of the coroutines await what a `def` returned: what else runs there may share connections with it."""
        try:
            return asyncio.run_coroutine_threadsafe(self._coroutines.finish(task, left), self._loop).result()
        except BaseException as error:  # noqa: BLE001  a lambda beside it has cancelled whatever it found on the loop
            return RunFailed(f"what the lambda returned could not be awaited: {type(error).__name__}")

    def withdraw(self) -> list[HeldTask]:
        return self._threads.withdraw() + self._coroutines.withdraw()

    def cancel(self, task: HeldTask, *, cut: bool = False) -> None:
        self._coroutines.cancel(task, cut=cut)

    def load(self, is_async: bool) -> tuple[int, int, int]:
        return (self._coroutines if is_async else self._threads).load()

    def close(self) -> None:
        self._closed = True
        self._threads.close()
        with contextlib.suppress(RuntimeError):  # it has just ended
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _in_child(self) -> None:
        """A child that an `async def` has forked must not turn this loop: the lambdas beside it would go on there, too."""
        # Before everything that the loop has still to do, for which there is no public way.
        last = asyncio.Handle(_end_child, (), self._loop)
        self._loop._ready.appendleft(last)  # type: ignore[attr-defined]

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closed:
            try:
                self._loop.run_forever()
            except BaseException as error:  # noqa: BLE001  asyncio lets SystemExit in a task of the lambda's own through
                _log.warning("a lambda's own asyncio task ended the loop; it goes on", error=type(error).__name__)
        with contextlib.suppress(BaseException):  # what lambdas keep open for the loop's lifetime, such as connections
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


def _end_child() -> None:
    _log.error(
        "a process that an async def has forked awaited something: it ends here; let it use asyncio.run or os._exit"
    )
    os._exit(EXIT_FORKED)
