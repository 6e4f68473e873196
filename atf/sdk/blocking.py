"""How coroutine methods get a blocking face, and the way from any thread or loop to the loop on which a client's work runs."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
Pages = tuple[AsyncGenerator[Any, None], Callable[[Any], Iterable[T]]]
"""An iterator on the client's loop, and what each page that it gives holds for the caller."""


class LoopBridge(Protocol):
    """The way to the loop that a client's work runs on."""

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Has the work done and blocks until then."""
        ...

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        """Has the work done while the caller's loop goes on."""
        ...


class Bridged:
    """Something whose coroutine methods can be run to their end from a thread."""

    def __init__(self, loop_bridge: LoopBridge) -> None:
        self._loop_bridge = loop_bridge

    def _block(self, method: Callable[..., Coroutine[Any, Any, R]], args: Any, kwargs: Any) -> R:
        return self._loop_bridge.run(method(self, *args, **kwargs))

    async def _hops(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        """What an iterator on the client's loop gives, for any loop."""
        steps, parts_of = pages
        try:
            while (found := await self._loop_bridge.hop(_next(steps))) is not None:
                for part in parts_of(found[0]):
                    yield part
        finally:
            await self._loop_bridge.hop(_close(steps))

    def _steps(self, pages: Pages[T]) -> Iterator[T]:
        """The same for a thread that blocks."""
        steps, parts_of = pages
        try:
            while (found := self._loop_bridge.run(_next(steps))) is not None:
                yield from parts_of(found[0])
        finally:
            self._loop_bridge.run(_close(steps))


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The blocking face of a coroutine method, with the same arguments and documentation."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        answer: R = self._block(method, args, kwargs)
        return answer

    return call


async def _next(steps: AsyncIterator[T]) -> tuple[T] | None:
    try:
        return (await anext(steps),)
    except StopAsyncIteration:
        return None


async def _close(steps: AsyncGenerator[Any, None]) -> None:
    await steps.aclose()
