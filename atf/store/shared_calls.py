"""Concurrent callers share calls of the store, one verb's of a partition. One that is away holds up no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from atf.calls.coalescing import CallLimits, KeyedCoalescer
from atf.runtime import Runtime

from .calls import CALL_BYTES

LIMITS: Final = CallLimits(size=CALL_BYTES, late_s=0.2)
SHARED: Final = 32
"""Fewer items of a caller share a call with those of others; so many are worth one of their own, beside those that are under way."""

T = TypeVar("T")
R = TypeVar("R")


class SharedCalls(Generic[T, R]):
    """Calls of one verb.

    Args:
        call: takes a partition and some items, answers with one value for each. What it raises goes to every caller of theirs.
        size: an item's bytes.
        kind: items of one call have this in common.
        runtime: spawns the calls.
        name: of their asyncio tasks.
    """

    def __init__(
        self,
        call: Callable[[int, list[T]], Awaitable[Sequence[R]]],
        *,
        size: Callable[[T], int],
        kind: Callable[[T], Hashable] = lambda _: None,
        runtime: Runtime,
        name: str,
    ) -> None:
        self.size, self.kind = size, kind
        self._call = call
        self._shared = KeyedCoalescer(self._call_of, size=size, limits=LIMITS, runtime=runtime, name=name)

    async def ask(self, partition: int, items: list[T]) -> Sequence[R]:
        """The answers to some items of a kind, in their order. What a caller asked that is cancelled before it is sent is not sent."""
        if len(items) >= SHARED:
            return await self._call(partition, items)
        return await self._shared.of((partition, self.kind(items[0]))).ask(items)

    async def _call_of(self, key: tuple[int, Hashable], items: list[T], _until: float) -> Sequence[R]:
        return await self._call(key[0], items)
