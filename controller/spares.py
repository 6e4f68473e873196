"""Keeps executors that stand by, so that one whose code has changed, or that died, has a successor at once.

A spare has loaded ATF and no user code: it loads that when it takes the place of an executor, and is one from then on (executor/guarding/stand_by.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from atf.log import get_logger
from atf.runtime import Runtime, happens

from .pool import ExecutorGuard

REFILL_S: Final = 0.5
"""Seconds after a spare was taken until the next one starts: the executors that start meanwhile need the processor."""


class SpareGuard(ExecutorGuard, Protocol):
    """A guard whose executor stands by."""

    def begin(self) -> None:
        """Has it start its executor."""
        ...


_log = get_logger(duty="pool")

Say = Callable[[str], None]
StartSpare = Callable[[Say, bool], Awaitable[SpareGuard]]
"""Starts a guard; the arguments are what takes the lines that it writes, and whether its executor stands by."""


class _Spare:
    """One that stands by; its lines go to whoever has taken it."""

    def __init__(self) -> None:
        self.say: Say = lambda _line: None

    async def started(self, start: StartSpare) -> SpareGuard:
        """Starts its guard."""
        self.guard = await start(self._hear, True)
        return self.guard

    def _hear(self, line: str) -> None:
        self.say(line)


class Spares:
    """Starts guards of executors, and keeps some that stand by.

    Args:
        size: how many; 0: none.
        start_guard: starts one.
        runtime: clocks, spawning.
    """

    def __init__(self, size: int, start_guard: StartSpare, runtime: Runtime) -> None:
        self._size, self._start, self._runtime = size, start_guard, runtime
        self._ready: list[_Spare] = []
        self._ends: set[asyncio.Task[None]] = set()
        self._taken = asyncio.Event()

    async def start(self, on_line: Say) -> ExecutorGuard:
        """A guard whose executor starts now.

        Raises:
            OSError: its process can't be started.
        """
        self._taken.set()
        if not self._ready:
            return await self._start(on_line, False)
        spare = self._ready.pop(0)
        spare.say = on_line
        spare.guard.begin()
        return spare.guard

    async def run(self) -> None:
        """Keeps so many standing by until it is cancelled; then they end."""
        try:
            while self._size:
                await self._taken.wait()
                self._taken.clear()
                if await happens(self._taken, REFILL_S):
                    continue
                with contextlib.suppress(OSError):  # no process can be started now: the next executor says why
                    await self._fill()
        finally:
            for spare in self._ready:
                spare.guard.end_at_once()
            self._ready.clear()

    async def ended(self) -> None:
        """Waits until those that stood by have ended, after `run`, and those that were taken."""
        if self._ends:
            await asyncio.wait(self._ends)

    async def _fill(self) -> None:
        while len(self._ready) < self._size:
            spare = _Spare()
            guard = await spare.started(self._start)
            self._ready.append(spare)
            ends = self._runtime.spawn(self._until_end(spare, guard), name="spare")
            self._ends.add(ends)
            ends.add_done_callback(self._ends.discard)

    async def _until_end(self, spare: _Spare, guard: SpareGuard) -> None:
        """Forgets one that ends while it stands by. One that was taken is the pool's."""
        code = await guard.wait()
        if spare in self._ready:
            self._ready.remove(spare)
            _log.warning("an executor that stood by has ended", guard=guard.pid, code=code)
