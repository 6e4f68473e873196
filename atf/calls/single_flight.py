"""A reading that many share: one call of the store answers all who asked for it before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Reads for whoever calls it. Calls that come while it reads share the next reading: none is answered by one that began before.

    Args:
        read: reads; what it raises reaches the call that had it read, and the next call reads again.
    """

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._reading = asyncio.Lock()
        self._begun = 0
        self._found: tuple[int, T] | None = None

    async def __call__(self) -> T:
        before = self._begun
        async with self._reading:
            if self._found is None or self._found[0] <= before:
                self._begun += 1
                self._found = self._begun, await self._read()
            return self._found[1]
