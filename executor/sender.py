"""Sends what concerns held claims to the HSC in batches, again and again until it is answered.

One call is in flight; what comes meanwhile makes the next batch, so batches grow with the load. A claim leaves the ledger only
when the HSC has answered for it, or when its lease is over: then nothing is written, and the store consumer takes care of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from atf.calls.retry import Pauses, RetryPolicy, Trouble
from atf.config.settings import Timing
from atf.errors import AtfError, InvalidArgument
from atf.log import get_logger
from atf.rpc import hsc_pb2 as h
from atf.runtime import Runtime
from atf.task import MAX_BATCH

from .held import HeldTask, Ledger

MAX_BYTES: Final = 3_500_000
"""Of one message; gRPC refuses more than 4 MiB."""
_CLAIM_BYTES: Final = 256
"""At most, for the claim that an item is about, and its numbers."""
CALL_S: Final = 5.0
"""Seconds until a call without an answer is repeated; each is idempotent."""
_RETRY_FIRST_S: Final = 0.05
_RETRY_MOST_S: Final = 1.0


M = TypeVar("M")


class Sender(Generic[M]):
    """One kind of message about held claims.

    Args:
        what: its name in log lines.
        call: sends a batch, returns a verdict for each.
        size: about how many bytes of the batch's message an item takes, beside the claim.
        refused: takes what the HSC calls invalid; it is not sent again.
        ledger: forgets what is answered for.
        moved: called whenever something has left.
        timing: how long a lease lasts.
        runtime: clocks and chance.
    """

    def __init__(
        self,
        what: str,
        *,
        call: Callable[[list[tuple[HeldTask, M]]], Awaitable[Sequence[h.Verdict]]],
        size: Callable[[M], int],
        refused: Callable[[HeldTask, str], None],
        ledger: Ledger,
        moved: Callable[[], None],
        timing: Timing,
        runtime: Runtime,
    ) -> None:
        self._what = what
        self._call = call
        self._size = size
        self._refused = refused
        self._ledger = ledger
        self._moved = moved
        self._lease_us = timing.heartbeat_timeout_us
        self._runtime = runtime
        self._log = get_logger(duty=what)
        self._pauses = Pauses(RetryPolicy(_RETRY_FIRST_S, _RETRY_MOST_S), runtime)
        self._trouble = Trouble(self._log, "hsc")
        self._waiting: deque[tuple[HeldTask, M]] = deque()
        self._asking_since: float | None = None
        self._wake = asyncio.Event()

    def add(self, items: Sequence[tuple[HeldTask, M]]) -> None:
        """Takes what is to be sent."""
        self._waiting.extend(items)
        if items:
            self._wake.set()

    def unanswered(self, now: float) -> float:
        """Seconds of the monotonic clock for which calls have gone without an answer; 0: none is asked for."""
        return 0.0 if self._asking_since is None else now - self._asking_since

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            await self._wake.wait()
            while self._waiting:
                await self.once()
            self._asking_since = None
            self._wake.clear()

    async def once(self) -> None:
        """Sends one batch until it is answered."""
        batch = self._batch()
        while batch := self._still_ours(batch):
            if self._asking_since is None:
                self._asking_since = self._runtime.monotonic()
            try:
                verdicts = await self._call(batch)
            except InvalidArgument as error:
                self._asking_since = None
                batch = self._narrow(batch, error)
                self._moved()
            except Exception as error:  # noqa: BLE001  whatever it is: the claims are still ours to answer for
                self._trouble.failed(self._what, error)
                await asyncio.sleep(self._pauses.next())
            else:
                self._asking_since = None
                self._trouble.ended(self._what)
                self._pauses.reset()
                self._answered(batch, verdicts)
                return

    def _batch(self) -> list[tuple[HeldTask, M]]:
        batch: list[tuple[HeldTask, M]] = []
        size = 0
        while self._waiting and len(batch) < MAX_BATCH:
            size += self._size(self._waiting[0][1]) + _CLAIM_BYTES
            if batch and size > MAX_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _still_ours(self, batch: list[tuple[HeldTask, M]]) -> list[tuple[HeldTask, M]]:
        over = self._runtime.boottime_us() - self._lease_us
        gone = [task for task, _ in batch if task.lost or task.lease_us <= over]
        if not gone:
            return batch
        self._log.warning("lease over before the answer; the tasks will run again", tasks=len(gone))
        self._ledger.release(gone)
        self._moved()
        return [each for each in batch if not (each[0].lost or each[0].lease_us <= over)]

    def _narrow(self, batch: list[tuple[HeldTask, M]], error: AtfError) -> list[tuple[HeldTask, M]]:
        """One bad item must not fail its batch: finds it by halves, and gives it away."""
        if len(batch) == 1:
            self._log.error("refused by the hsc", task=batch[0][0].task_id, error=str(error))
            self._refused(batch[0][0], str(error))
            return []
        half = len(batch) // 2
        self._waiting.extendleft(reversed(batch[half:]))
        return batch[:half]

    def _answered(self, batch: list[tuple[HeldTask, M]], verdicts: Sequence[h.Verdict]) -> None:
        again = [each for each, verdict in zip(batch, verdicts, strict=True) if verdict == h.UNKNOWN]
        lost = sum(verdict not in {h.OK, h.UNKNOWN} for verdict in verdicts)
        self._ledger.release(each[0] for each, verdict in zip(batch, verdicts, strict=True) if verdict != h.UNKNOWN)
        say = self._log.warning if lost else self._log.debug  # a claim that is lost is run again by somebody
        say(self._what, tasks=len(batch) - len(again), lost=lost)
        self._moved()
        if again:  # a part of the store is away; what comes meanwhile for the others does not wait for it
            self._runtime.spawn(self._add_later(again), name=f"{self._what} again")

    async def _add_later(self, items: list[tuple[HeldTask, M]]) -> None:
        await asyncio.sleep(_RETRY_MOST_S)
        self.add(items)
