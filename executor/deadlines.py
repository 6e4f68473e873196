"""Looks at what is held when time alone changes something: timeouts, bodies that do not end, work that waits too long here.

Owns no task and decides nothing about it beyond "now": what follows is the executor's. Sleeps until the next instant at
which anything can be due, so it costs nothing while nothing is held, and the times are exact.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from atf.runtime import Runtime, happens

from .held import HeldTask, Ledger

WAITED_S: Final = 1.0
"""Seconds after which work that waits for a worker is handed back: its neighbours run longer than was measured."""
STARTED_S: Final = 0.2
"""Seconds that a run lasts before its start is told ahead of the next heartbeat, and at least between two such calls: what starts meanwhile is told together.

The start of a shorter run is told with its result.
"""
_LEAST_S: Final = 0.01
"""Between two looks."""


class Watched(Protocol):
    """What a look may call."""

    def stop(self, task: HeldTask, *, timed_out: bool) -> None:
        """The task's run must end."""
        ...

    def overran(self, task: HeldTask) -> None:
        """The task's run was told to end, and has not within the grace."""
        ...

    def began(self, tasks: Sequence[HeldTask]) -> None:
        """These runs have lasted long enough for their start to be told now."""
        ...

    def relieve(self) -> None:
        """Some work has waited too long."""
        ...


class Deadlines:
    """The looks of one executor."""

    def __init__(self, ledger: Ledger, watched: Watched, *, stop_grace: float, runtime: Runtime) -> None:
        self._ledger = ledger
        self._watched = watched
        self._grace = stop_grace
        self._runtime = runtime
        self._next_at = math.inf
        self._tell_at = 0.0
        """Before then no start is told: others may come."""
        self._wake = asyncio.Event()

    def put(self, tasks: Iterable[HeldTask], now: float) -> None:
        """These went into a worker at `now` of the monotonic clock: the next look may be due sooner."""
        waits = [task.timeout or WAITED_S for task in tasks]
        if waits and now + min(STARTED_S, *waits) < self._next_at:
            self._wake.set()

    def note(self, task: HeldTask) -> None:
        """A task was told to stop: the next look may be due sooner."""
        if self._due(task, self._runtime.monotonic()) < self._next_at:
            self._wake.set()

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            self._wake.clear()
            self._next_at = self.once()
            left = self._next_at - self._runtime.monotonic()
            await happens(self._wake, None if left == math.inf else max(_LEAST_S, left))

    def once(self) -> float:
        """One look. Returns the instant of the next, of the monotonic clock."""
        now = self._runtime.monotonic()
        next_at, first_start, waited = math.inf, math.inf, False
        began: list[HeldTask] = []
        for task in self._ledger.snapshot():
            if task.outcome is not None:
                continue
            if not task.told and (task.started or task.queued):
                start = task.started_at if task.started else now  # should it start this very moment
                if max(start + STARTED_S, self._tell_at) <= now:
                    began.append(task)
                elif start < first_start:
                    first_start = start
            due = self._due(task, now)
            if due <= now:
                waited = waited or not task.started
                self._overdue(task)
                due = self._due(task, now)
            next_at = min(next_at, due)
        if began:
            for task in began:
                task.told = True
            self._tell_at = now + STARTED_S
            self._watched.began(began)
        if waited:
            self._watched.relieve()
        return min(next_at, max(first_start + STARTED_S, self._tell_at))

    def _overdue(self, task: HeldTask) -> None:
        if task.started and task.stop_at:
            self._watched.overran(task)
        elif task.started:
            self._watched.stop(task, timed_out=True)

    def _due(self, task: HeldTask, now: float) -> float:
        """When to look at the task next."""
        if task.outcome is not None or task.overrun:
            return math.inf
        if task.started:
            if task.stop_at:
                return task.stop_at + self._grace
            return task.started_at + task.timeout if task.timeout else math.inf
        begun = now + task.timeout if task.timeout else math.inf  # should it start this very moment
        return min(begun, task.waiting_since + WAITED_S) if task.queued else begun
