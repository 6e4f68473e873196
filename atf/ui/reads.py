"""Shares readings of the frontend among all pages: whoever asks the same within a second gets the same answer.

So twenty open tabs cost the store as much as one. Counts are read every second. Other answers are shared for longer where tabs ask for many of
them, or these take long: so they take a small part of a store that is busy, too. A reading that failed is shared for as long as another one.
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
TIMES: Final = 80
"""As many times as long as all readings of late took together, each answer is given again: they take an eightieth of the frontend's time at most."""
MOST_KEPT_S: Final = 10.0
"""But no longer than this; what was read before that is not of late."""
MOST: Final = 256
"""Answers that are kept at a time."""


class _Reading(NamedTuple):
    begun: float
    answer: asyncio.Task[tuple[Any, Exception | None, float]]
    of_counts: bool

    @property
    def took_s(self) -> float:
        """Seconds; 0 while it goes on."""
        return self.answer.result()[2] if self.answer.done() and not self.answer.cancelled() else 0

    def is_over(self, now: float, keep_s: float) -> bool:
        """Whether it is to be read anew; `now` is of the monotonic clock."""
        if not self.answer.done() or self.answer.cancelled():
            return self.answer.done()
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
            keep_s: how old the answer may be, where it counts; None: that depends on what else is read.

        Raises:
            AtfError: what the RPC raised.
        """
        key = type(request).__name__, request.SerializeToString(deterministic=True)
        now = self._runtime.monotonic()
        found = self._readings.get(key)
        if found is None or found.is_over(now, self._shared_s(now) if keep_s is None else keep_s):
            self._make_room(now)
            answer_of = self._runtime.spawn(self._read(call, request), name=key[0])
            found = _Reading(now, answer_of, of_counts=keep_s is not None)
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

    def _shared_s(self, now: float) -> float:
        """For how long an answer is shared now that does not count."""
        late = [each for each in self._readings.values() if now - each.begun < MOST_KEPT_S and not each.of_counts]
        return min(max(KEEP_S, TIMES * sum(each.took_s for each in late)), MOST_KEPT_S)

    def _make_room(self, now: float) -> None:
        old = [key for key, each in self._readings.items() if each.is_over(now, MOST_KEPT_S)]
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
