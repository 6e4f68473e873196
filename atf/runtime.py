"""Gives role logic what it takes from its surroundings: clocks, chance and new asyncio tasks.

Roles never call time.time, uuid or threading themselves. Given another Runtime they run on virtual time, and every run can
be repeated. Waiting is asyncio's: `asyncio.sleep`, `asyncio.timeout` and events (`happens`) follow the loop's own clock.
"""

from __future__ import annotations

import asyncio
import platform
import random
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .process.clocks import ProcessClocks, SystemClocks

T = TypeVar("T")

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Runtime(ProcessClocks, Protocol):
    """Clocks, chance and spawning, for one role in one process."""

    random: random.Random

    def boot_id(self) -> str:
        """Names this boot of this host."""
        ...

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Runs `work` on the current loop. The task is kept from the garbage collector until it ends."""
        ...


class SystemRuntime(SystemClocks):
    """The real clocks and the operating system's chance."""

    def __init__(self) -> None:
        self.random: random.Random = random.SystemRandom()
        self._tasks: set[asyncio.Task[Any]] = set()

    def boot_id(self) -> str:
        return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else platform.node()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def new_id(chance: random.Random, bits: int = 96) -> str:
    """A fresh id of `bits` random bits, a multiple of 8, in hexadecimal."""
    return chance.randbytes(bits // 8).hex()


async def happens(event: asyncio.Event, seconds: float | None) -> bool:
    """Waits for an event, at most so many seconds; None: for ever. Returns whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels asyncio tasks and waits until they have ended, whatever came of them.

    A library may swallow a cancellation that comes together with what it was waiting for (in Python 3.11 asyncio.wait_for
    does); the task would run on for ever. So it is cancelled again until it has ended. And whoever is cancelled in here,
    perhaps by the same means, leaves only when they have ended: nobody else would end them.
    """
    left = {each for each in tasks if not each.done()}
    cancelled: asyncio.CancelledError | None = None
    while left:
        for each in left:
            each.cancel()
        try:
            await asyncio.wait(left, timeout=0.1)
        except asyncio.CancelledError as error:
            cancelled = error
        left = {each for each in left if not each.done()}
    if cancelled is not None:
        raise cancelled
