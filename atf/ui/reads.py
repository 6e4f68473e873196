"""Shares readings of the frontend among all pages: whoever asks the same within a second gets the same answer.

So twenty open tabs cost the store as much as one. A reading that failed is shared for as long, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from atf.runtime import Runtime

Q = TypeVar("Q", bound=Message)
R = TypeVar("R")

KEEP_S: Final = 1.0
"""Seconds for which an answer is given again."""
MOST: Final = 256
"""Answers that are kept at a time."""


class _Reading(NamedTuple):
    begun: float
    answer: asyncio.Task[Any]


class SharedReads:
    """The readings of one process.

    Args:
        runtime: the clock, and what runs a reading apart from whoever asked for it first.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._readings: dict[tuple[str, bytes], _Reading] = {}

    async def __call__(self, call: Callable[[Q], Awaitable[R]], request: Q) -> R:
        """The answer to a request, at most a second old.

        Args:
            call: the RPC.
            request: of the RPC's own type, which names it.

        Raises:
            AtfError: what the RPC raised.
        """
        key = type(request).__name__, request.SerializeToString(deterministic=True)
        now = self._runtime.monotonic()
        found = self._readings.get(key)
        if found is None or (found.answer.done() and now - found.begun >= KEEP_S):
            self._make_room(now)
            found = _Reading(now, self._runtime.spawn(_read(call, request), name=key[0]))
            self._readings[key] = found
        # Shielded: the first who asked may leave, and the others still want the answer.
        answer, error = await asyncio.shield(found.answer)
        if error is not None:
            raise error
        result: R = answer
        return result

    def forget(self) -> None:
        """Has the next readings be new ones, as after an action."""
        self._readings.clear()

    def _make_room(self, now: float) -> None:
        old = [key for key, each in self._readings.items() if each.answer.done() and now - each.begun >= KEEP_S]
        for key in old:
            del self._readings[key]
        while len(self._readings) >= MOST:
            del self._readings[next(iter(self._readings))]


async def _read(call: Callable[[Q], Awaitable[R]], request: Q) -> tuple[R | None, Exception | None]:
    """The answer, or the error: as a value, since it reaches several, or nobody."""
    try:
        return await call(request), None
    except Exception as error:  # noqa: BLE001  whoever asked for it raises it
        return None, error
