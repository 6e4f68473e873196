"""How coroutine methods get a blocking face, and the way from any thread or loop to the loop on which a client's work runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


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


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The blocking face of a coroutine method, with the same arguments and documentation."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        answer: R = self._block(method, args, kwargs)
        return answer

    return call
