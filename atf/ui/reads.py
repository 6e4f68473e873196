"""Shares readings of the frontend among all pages: whoever asks the same within a second gets the same answer.

So twenty open tabs cost the store as much as one. A reading that takes long is shared for longer, so that tabs take no more of a store that is
busy. That does not hold of counts, which are cheap: these are read every second. A reading that failed is shared for as long as another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from atf.rpc import api, frontend_pb2 as f
from atf.runtime import Runtime
from atf.task import US

Q = TypeVar("Q", bound=Message)
R = TypeVar("R")

KEEP_S: Final = 1.0
"""Seconds for which an answer is given again at least."""
TIMES: Final = 100
"""As many times as long as a reading took its answer is given again: it takes a hundredth of the frontend's time at most."""
MOST_KEPT_S: Final = 10.0
"""But no longer than this."""
MOST: Final = 256
"""Answers that are kept at a time."""


class _Reading(NamedTuple):
    begun: float
    answer: asyncio.Task[tuple[Any, Exception | None, float]]

    def is_over(self, now: float, keep_s: float | None = None) -> bool:
        """Whether it is to be read anew; `now` is of the monotonic clock. `keep_s`: see SharedReads."""
        if not self.answer.done() or self.answer.cancelled():
            return self.answer.done()
        _, _, took = self.answer.result()
        if keep_s is None:
            keep_s = min(max(KEEP_S, TIMES * took), MOST_KEPT_S)
        return now - self.begun >= keep_s


class SharedReads:
    """The readings of one process.

    Args:
        runtime: the clock, and what runs a reading apart from whoever asked for it first.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._readings: dict[tuple[str, bytes], _Reading] = {}

    async def __call__(self, call: Callable[[Q], Awaitable[R]], request: Q, *, keep_s: float | None = None) -> R:
        """The answer to a request, mostly at most a second old.

        Args:
            call: the RPC.
            request: of the RPC's own type, which names it.
            keep_s: how old the answer may be; None: that depends on how long it takes.

        Raises:
            AtfError: what the RPC raised.
        """
        key = type(request).__name__, request.SerializeToString(deterministic=True)
        now = self._runtime.monotonic()
        found = self._readings.get(key)
        if found is None or found.is_over(now, keep_s):
            self._make_room(now)
            found = _Reading(now, self._runtime.spawn(self._read(call, request), name=key[0]))
            self._readings[key] = found
        # Shielded: the first who asked may leave, and the others still want the answer.
        answer, error, _ = await asyncio.shield(found.answer)
        if error is not None:
            raise error
        result: R = answer
        return result

    def forget(self) -> None:
        """Has the next readings be new ones, as after an action."""
        self._readings.clear()

    def _make_room(self, now: float) -> None:
        old = [key for key, each in self._readings.items() if each.is_over(now)]
        for key in old:
            del self._readings[key]
        while len(self._readings) >= MOST:
            del self._readings[next(iter(self._readings))]

    async def _read(self, call: Callable[[Q], Awaitable[R]], request: Q) -> tuple[R | None, Exception | None, float]:
        """The answer, or the error, as a value, since it reaches several, or nobody; and how many seconds that took."""
        answer, failed, begun = None, None, self._runtime.monotonic()
        try:
            answer = await call(request)
        except Exception as error:  # noqa: BLE001  whoever asked for it raises it
            failed = error
        return answer, failed, self._runtime.monotonic() - begun


RECENT_US: Final = 3_600 * US
"""Failures of this time count as wrong."""


async def cluster_status(frontend: api.Frontend, read: SharedReads) -> f.GetStatusReply:
    """How the cluster stands, with the counts of all tasks: at most a second old."""
    return await read(frontend.get_status, f.GetStatusRequest(recent_us=RECENT_US), keep_s=KEEP_S)
