"""The Runtime of a role on virtual time: every clock is the loop's, and chance comes from a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from .loop import VirtualLoop

T = TypeVar("T")

EPOCH_US: Final = 1_767_225_600_000_000
"""Where wall clocks and the store's clock begin: 2026-01-01T00:00:00Z, in microseconds since the Unix epoch."""


class VirtualRuntime:
    """One role's clocks, chance and spawning on a VirtualLoop. See atf.runtime.Runtime for each method's meaning."""

    def __init__(self, loop: VirtualLoop, *, seed: int = 0) -> None:
        self.random: random.Random = random.Random(seed)
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()

    def monotonic(self) -> float:
        return self._loop.time()

    def boottime_us(self) -> int:
        return self._loop.now_us

    def wall_us(self) -> int:
        return EPOCH_US + self._loop.now_us

    def boot_id(self) -> str:
        return "virtual"

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class IdsInOrder(random.Random):
    """Chance for a client: ids count up. Of tasks that are due at one instant the smaller id goes first, so those that a test
    schedules without moving the clock run in the order in which it did so.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._last = 0

    def getrandbits(self, k: int, /) -> int:
        self._last += 1
        return self._last % (1 << k)
