"""Knows to which run a thread or coroutine belongs, so that what it writes is said as that run's.

`current` is that run. A coroutine hands its context on to those that it starts, but no thread does. So `carry` marks the threads that a run
starts, and what it gives to a pool of threads.
"""

from __future__ import annotations

import functools
import threading  # noqa: TID251  lambdas start threads
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor  # noqa: TID251  lambdas do
from contextvars import ContextVar
from typing import Any, Final, Protocol


class CurrentRun(Protocol):
    """Whose output it is; a HeldTask is one."""

    @property
    def task_id(self) -> str:
        """Empty: none that can be said."""
        ...

    @property
    def lambda_name(self) -> str: ...
    @property
    def ended_at(self) -> float:
        """Seconds of the monotonic clock; 0: it goes on."""
        ...

    @property
    def redact(self) -> Callable[[str], str]:
        """Takes redacted arguments out of a text."""
        ...

    @property
    def encrypts(self) -> bool:
        """Whether what it says stands encrypted with its task, and nowhere else."""
        ...

    @property
    def keeps_log(self) -> bool:
        """Whether what it says may be kept with its task."""
        ...

    def keep(self, line: bytes) -> None:
        """Keeps a line."""
        ...


current: Final[ContextVar[CurrentRun | None]] = ContextVar("atf_run", default=None)
"""The run that this code belongs to. Who sets it calls output.end_of_run; it is no context manager, since each run would pay for that."""


class Carried:
    """A run in another thread. That may go on, for others, when the run has ended: then its lines have no id."""

    def __init__(self, run: CurrentRun) -> None:
        self._run, self.lambda_name, self.redact = run, run.lambda_name, run.redact
        self.encrypts = run.encrypts

    @property
    def task_id(self) -> str:
        return "" if self._run.ended_at else self._run.task_id

    @property
    def ended_at(self) -> float:
        return self._run.ended_at

    @property
    def keeps_log(self) -> bool:
        return self._run.keeps_log and not self._run.ended_at

    def keep(self, line: bytes) -> None:
        self._run.keep(line)


def carry(last: Callable[[], None]) -> None:
    """Has threads, and what is given to a pool, belong to the run that starts or gives them.

    Args:
        last: called in the thread when that is over, and its last line may have no end.
    """

    def in_thread(run: CurrentRun, body: Callable[[], None]) -> None:
        current.set(Carried(run))  # and stays, for what is said if it fails
        try:
            body()
        finally:
            last()

    def in_pool(run: CurrentRun, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = current.get()
        current.set(Carried(run))
        try:
            return fn(*args, **kwargs)
        finally:
            last()
            current.set(before)

    start: Any = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_as_run(thread: threading.Thread) -> None:
        if (run := current.get()) is not None:
            thread.run = functools.partial(in_thread, run, thread.run)  # type: ignore[method-assign]
        start(thread)

    @functools.wraps(submit)
    def submit_as_run(pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if (run := current.get()) is not None:
            fn, args = in_pool, (run, fn, *args)
        made: Future[Any] = submit(pool, fn, *args, **kwargs)
        return made

    threading.Thread.start = start_as_run  # type: ignore[method-assign,assignment]
    ThreadPoolExecutor.submit = submit_as_run  # type: ignore[method-assign,assignment]
