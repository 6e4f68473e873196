"""The harness: a whole pipeline for an ordinary test, on a clock that the test moves.

Owns the virtual-time loop, and the client through which the test's own calls reach the pipeline. The roles are pipeline.py's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final, Self, TypeVar

from atf.client import Client, Handle, TaskInfo
from atf.config.settings import Timing
from atf.sdk.app import App
from atf.sdk.default_client import use_client
from atf.sdk.lambdas import Lambda
from atf.sdk.options import Duration, duration_us, from_us
from atf.task import US, Status

from .loop import VirtualLoop
from .pipeline import TIMING, HarnessRoles
from .runtime import EPOCH_US, IdsInOrder, VirtualRuntime
from .turns import ThreadTurn
from .workers import IN_LAMBDA

R = TypeVar("R")

A_DAY: Final = 86_400.0
AN_HOUR: Final = 3_600.0
_STRIDE_US: Final = 600 * US


class Harness:
    """A frontend, a task store in memory, a store consumer, a controller, an HSC and executors, in this process.

    From its making to `close`, `task.schedule(...)` and handles anywhere in the process go to it. Time stands still, and nothing
    runs, but in `advance`, `run_until_idle`, `result` and `handle.result()`. The clock begins at 2026-01-01T00:00:00Z.
    Waiting takes no real time: neither delays and backoffs, nor `await asyncio.sleep(3600)` in a lambda. A `def` lambda takes no
    virtual time, except while it waits for another task. Chance is seeded, so every run of a test is the same. The apps' hooks run, too;
    those of a worker's start and stop run once, when it is made and closed.

    An `async def` test makes and drives it in the same way, by `with` or `async with`, and may await: `await handle.result_async()`. The
    test's own loop stands still while the harness works.

    Args:
        apps: whose lambdas to run.
        timing: the arithmetic of leases, if a test is about that.
        seed: of all chance (jitter, ids).
        partitions: into which the task store is cut, if a test is about what lies in several of them.
        executors: how many take work, each in a process of its own as far as the pipeline knows.

    Raises:
        ConfigError: a start hook raised; names it.
    """

    def __init__(
        self, *apps: App, timing: Timing = TIMING, seed: int = 0, partitions: int = 1, executors: int = 1
    ) -> None:
        if not any(app.lambdas for app in apps):
            raise ValueError("Harness: give at least one App with a lambda")
        if executors < 1:
            raise ValueError(f"Harness: executors {executors}: at least 1, or nothing would run")
        self._loop = VirtualLoop()
        self._loop.set_exception_handler(self._failed)
        self._errors: list[BaseException] = []
        self._runtime = VirtualRuntime(self._loop, seed=seed)
        opening = HarnessRoles.open(apps, timing, self._runtime, partitions=partitions, executors=executors)
        try:
            self._pipeline: HarnessRoles = self._apart(lambda: self._loop.run_until_complete(opening))
        except BaseException:
            self._loop.close()
            raise
        runtime = VirtualRuntime(self._loop, seed=seed)
        runtime.random = IdsInOrder(seed)
        self.client = Client(
            "the harness", frontend=self._pipeline.frontend, runtime=runtime, loop_bridge=_HarnessBridge(self)
        )
        self._bound = contextlib.ExitStack()
        self._bound.enter_context(use_client(self.client))
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything; what has not run never will. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._bound.close()
        self._apart(lambda: self._loop.run_until_complete(self._pipeline.close()))
        self._loop.close()

    def stop_executor(self) -> None:
        """Has one of several executors take no more, as one that is told to end: what it has not started goes to the others.

        Raises:
            ValueError: it is the last one.
        """
        self._drive(self._pipeline.stop_executor())

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The instant, in UTC."""
        instant = from_us(EPOCH_US + self._loop.now_us)
        assert instant is not None
        return instant

    def advance(self, by: Duration) -> None:
        """Moves the clock by seconds, a timedelta or text such as "5m", and runs everything that falls due until then, in order."""
        if self._closed:
            raise RuntimeError("the harness is closed")
        target_us = self._loop.now_us + duration_us(by, "advance")
        with self._pipeline.store.open_gate():
            self._advance_to(self._loop.now_us)
            while self._loop.now_us < target_us:
                quiet_us = self._quiet_until(target_us)
                if quiet_us > self._loop.now_us:
                    self._apart(lambda instant_us=quiet_us: self._loop.skip_to(instant_us))
                    self._drive(self._pipeline.wake())
                    self._advance_to(quiet_us)
                else:
                    self._advance_to(min(self._loop.now_us + _STRIDE_US, target_us))

    def _quiet_until(self, target_us: int) -> int:
        """The instant until which nothing can happen but the roles' own routine; the present one if something may."""
        busy = self._drive(self._pipeline.census()).busy
        if busy or any(IN_LAMBDA in context for context in self._loop.timer_contexts()):
            return self._loop.now_us
        due_us = self._pipeline.store.next_us
        return target_us if due_us is None else max(min(due_us - EPOCH_US, target_us), self._loop.now_us)

    def run_until_idle(self, *, limit: Duration = AN_HOUR) -> int:
        """Runs every task that is due, and what follows from it, until none is due, queued or running.

        The clock moves only while something runs: as far as a lambda sleeps. Delays and backoffs that end later are left.

        Args:
            limit: how far the clock may move.

        Returns:
            the number of tasks that have finished meanwhile.

        Raises:
            TimeoutError: something still runs after `limit`.
        """
        until_us = self._loop.now_us + duration_us(limit, "limit")
        finished = self._drive(self._pipeline.census()).finished
        with self._pipeline.store.open_gate():
            self._advance_to(self._loop.now_us)
            while (census := self._drive(self._pipeline.census())).busy:
                next_us = self._loop.next_timer_us()
                if next_us is None or next_us > until_us:
                    raise TimeoutError(f"{census.busy} tasks are still due, queued or running; the limit is {limit} s")
                self._advance_to(next_us)
        return census.finished - finished

    # --- tasks -------------------------------------------------------------------------------------------------------

    def result(self, handle: Handle[R], *, timeout: float = A_DAY) -> R:
        """What the task's handler returned; lets the pipeline run until it has, `timeout` seconds of the clock at most.

        Raises:
            TaskFailed: it failed for good; the message is its last error.
            TaskCancelled: it was cancelled.
            TimeoutError: it has not finished by then.
        """
        return handle.result(timeout=timeout)

    def tasks(self, of: Lambda[..., Any] | str | None = None, status: Status | None = None) -> list[TaskInfo]:
        """The records of tasks, in the order in which they were accepted.

        Args:
            of: one lambda or its full name; None: all of the apps'.
            status: only those in it; None: all.
        """
        name = of.name if isinstance(of, Lambda) else of
        names = list(self._pipeline.lambdas) if name is None else [name]
        found = [task for each in names for task in self.client.list(each, status, limit=1_000_000)]
        return sorted(found, key=lambda task: (str(task.created_at), task.id))

    # --- driving the loop --------------------------------------------------------------------------------------------

    def _drive(self, work: Coroutine[Any, Any, R]) -> R:
        """Runs the loop until `work` is done."""
        if self._closed:
            work.close()
            raise RuntimeError("the harness is closed")
        result: R = self._apart(lambda: self._loop.run_until_complete(work))
        self._check()
        return result

    def _advance_to(self, instant_us: int) -> None:
        self._apart(lambda: self._loop.advance_to(instant_us))
        self._check()

    def _apart(self, call: Any) -> Any:
        """Where an event loop runs in this thread (a test that is a coroutine), ours turns in another thread meanwhile."""
        if asyncio._get_running_loop() is None:
            return call()
        with ThreadPoolExecutor(1, thread_name_prefix="atf-harness") as thread:
            return thread.submit(call).result()

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._errors.append(context.get("exception") or RuntimeError(context["message"]))

    def _check(self) -> None:
        if self._errors:
            raise RuntimeError("something of the harness failed") from self._errors.pop()
        self._pipeline.check()


class _HarnessBridge:
    """How blocking calls, and those of other loops, get to the harness's loop."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        turn = ThreadTurn.current()
        if turn is not None:
            return turn.ask(work)
        if self._is_here():
            work.close()
            raise RuntimeError("this call blocks the loop that the lambda runs on: await its _async twin instead")
        return self._harness._drive(work)

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        done: Future[R] = Future()
        done.set_result(self.run(work))  # the clock stands still beside a test, so nothing is won by going on meanwhile
        return done

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        return await work if self._is_here() else self._harness._drive(work)

    def stop(self) -> None:
        """Nothing runs on."""

    def _is_here(self) -> bool:
        return asyncio._get_running_loop() is self._harness._loop
