"""Sends what concerns held claims to the HSC in batches, again and again until it is answered.

One call is in flight; what comes meanwhile makes the next batch, so batches grow with the load. A claim leaves the ledger only
when the HSC has answered for it, or when its lease is over: then nothing is written, and the store consumer takes care of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

from atf.calls.coalescing import CallLimits, Coalescer
from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.config.settings import Timing
from atf.errors import AtfError, InvalidArgument
from atf.log import get_logger
from atf.rpc import hsc_pb2 as h
from atf.runtime import Runtime

from .held import HeldTask, Ledger

LIMITS: Final = CallLimits(size=3_500_000)  # gRPC refuses messages of more than 4 MiB
_CLAIM_BYTES: Final = 256
"""At most, for the claim that an item is about, and its numbers."""
CALL_S: Final = 5.0
"""Seconds until a call without an answer is repeated; each is idempotent."""
_AGAIN: Final = RetryPolicy(first=0.05, most=1.0, errors=(Exception,), never=(InvalidArgument,))
"""Whatever it is: the claims are still ours to answer for."""


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
        self._refused = refused
        self._ledger = ledger
        self._moved = moved
        self._lease_us = timing.heartbeat_timeout_us
        self._runtime = runtime
        self._log = get_logger(duty=what)
        self._trouble = Trouble(self._log, "hsc")
        self._asking_since: float | None = None
        self._broken = asyncio.Event()
        self._bug: Exception | None = None
        self._calls: Coalescer[tuple[HeldTask, M], None] = Coalescer(
            self._send_all, size=lambda each: size(each[1]) + _CLAIM_BYTES, limits=LIMITS, runtime=runtime, name=what
        )

    def add(self, items: Sequence[tuple[HeldTask, M]]) -> None:
        """Sends this, as soon as it can."""
        self._calls.add(items)

    def unanswered(self, now: float) -> float:
        """Seconds of the monotonic clock for which calls have gone without an answer; 0: none is asked for."""
        return 0.0 if self._asking_since is None else now - self._asking_since

    async def run(self) -> None:
        """Lasts until it is cancelled, and gives up then what is not answered. Raises what a bug raised."""
        try:
            await self._broken.wait()
            assert self._bug is not None
            raise self._bug
        finally:
            await self._calls.close()

    async def _send_all(self, batch: list[tuple[HeldTask, M]], _until: float) -> list[None]:
        try:
            await self._send(batch)
        except Exception as error:  # noqa: BLE001  raised by `run`
            self._bug = self._bug or error
            self._broken.set()
        return [None] * len(batch)

    async def _send(self, batch: list[tuple[HeldTask, M]]) -> None:
        """Sends one batch until it is answered."""
        ours = batch

        async def attempt() -> Sequence[h.Verdict]:
            nonlocal ours
            ours = self._still_ours(ours)
            if ours and self._asking_since is None:
                self._asking_since = self._runtime.monotonic()
            return await self._call(ours) if ours else []

        try:
            verdicts = await retry(attempt, _AGAIN, self._runtime, failed=partial(self._trouble.failed, self._what))
        except InvalidArgument as error:
            self._asking_since = None
            await self._narrow(ours, error)
        else:
            if ours:
                self._trouble.ended(self._what)
                self._answered(ours, verdicts)
            if ours or not self._calls.waiting:
                self._asking_since = None

    def _still_ours(self, batch: list[tuple[HeldTask, M]]) -> list[tuple[HeldTask, M]]:
        over = self._runtime.boottime_us() - self._lease_us
        gone = [task for task, _ in batch if task.lost or task.lease_us <= over]
        if not gone:
            return batch
        self._log.warning("lease over before the answer; the tasks will run again", tasks=len(gone))
        self._ledger.release(gone)
        self._moved()
        return [each for each in batch if not (each[0].lost or each[0].lease_us <= over)]

    async def _narrow(self, batch: list[tuple[HeldTask, M]], error: AtfError) -> None:
        """One bad item must not fail its batch: finds it by halves, and gives it away."""
        if len(batch) == 1:
            self._log.error("refused by the hsc", task=batch[0][0].task_id, error=str(error))
            self._refused(batch[0][0], str(error))
            self._moved()
            return
        half = len(batch) // 2
        await self._send(batch[:half])
        await self._send(batch[half:])

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
        await asyncio.sleep(_AGAIN.most)
        self.add(items)
