"""Says when time alone changes something about what is held: timeouts, bodies that do not end, work that waits too long here.

Owns no task and does nothing about it: executor.py acts on what is due. Between two looks nothing can become due, so waiting costs nothing
while nothing is held, and the times are exact.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Final, NamedTuple

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


class Due(NamedTuple):
    """What a look has found."""

    timed_out: list[HeldTask]
    """Their runs must end."""
    overran: list[HeldTask]
    """Their runs were told to end, and have not within the grace."""
    began: list[HeldTask]
    """Their runs have lasted long enough for their start to be told now."""
    waited: bool
    """Some work has waited too long."""


class Deadlines:
    """The looks of one executor."""

    def __init__(self, ledger: Ledger, *, stop_grace: float, runtime: Runtime) -> None:
        self._ledger = ledger
        self._grace = stop_grace
        self._runtime = runtime
        self._next_at = math.inf
        self._tell_at = 0.0
        """Before then no start is told: others may come."""
        self._sooner = asyncio.Event()

    def put(self, tasks: Iterable[HeldTask], now: float) -> None:
        """These went to the workers at `now` of the monotonic clock: the next look may be due sooner."""
        waits = [task.timeout or WAITED_S for task in tasks]
        if waits:
            self._look_by(now + min(STARTED_S, *waits))

    def note(self, task: HeldTask) -> None:
        """A task was told to stop: the next look may be due sooner."""
        self._look_by(self._due(task, self._runtime.monotonic()))

    def _look_by(self, at: float) -> None:
        if at < self._next_at:
            self._next_at = at
            self._sooner.set()

    async def wait(self) -> None:
        """Waits until the next look is due."""
        while True:
            self._sooner.clear()
            left = self._next_at - self._runtime.monotonic()
            if not await happens(self._sooner, None if left == math.inf else max(_LEAST_S, left)):
                return

    def look(self) -> Due:
        """One look. What is returned must be acted on before the next."""
        now = self._runtime.monotonic()
        next_at, first_start = math.inf, math.inf
        found = Due([], [], [], waited=False)
        for task in self._ledger.snapshot():
            if task.outcome is not None:
                continue
            if not task.told and (task.started or task.queued):
                start = task.started_at if task.started else now  # should it start this very moment
                if max(start + STARTED_S, self._tell_at) <= now:
                    found.began.append(task)
                elif start < first_start:
                    first_start = start
            due = self._due(task, now)
            if due > now or not task.started:
                next_at = min(next_at, due)
                if due <= now:
                    found = found._replace(waited=True)
            else:  # whoever acts on it notes when it is due again
                (found.overran if task.stop_at else found.timed_out).append(task)
        if found.began:
            for task in found.began:
                task.told = True
            self._tell_at = now + STARTED_S
        self._next_at = min(next_at, max(first_start + STARTED_S, self._tell_at))
        return found

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
