"""Tells the HSC how runs ended, and which claims are handed back.

The reporter makes the messages, and a sender for each kind sends them until they are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar, cast

from atf.calls.coalescing import CallLimits, Coalescer
from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.config.settings import Timing
from atf.errors import AtfError, InvalidArgument
from atf.log import get_logger
from atf.rpc import hsc_pb2 as h
from atf.rpc import task_pb2 as t
from atf.rpc.api import HSC
from atf.runtime import Runtime
from atf.task import US, clip

from .held import HeldTask, Ledger
from .outcome import DoesNotFit, Returned, RunFailed, RunStopped, Told, to_result
from .run_log import say_all_ended

LIMITS: Final = CallLimits(size=3_500_000)  # gRPC refuses messages of more than 4 MiB
_CLAIM_BYTES: Final = 256
"""At most, for the claim that an item is about, and its numbers."""
CALL_S: Final = 5.0
"""Seconds until a call without an answer is repeated; each is idempotent."""
_AGAIN: Final = RetryPolicy(first=0.05, most=1.0, errors=(Exception,), never=(InvalidArgument,))
"""Whatever it is: the claims are still ours to answer for."""
UNANSWERED_S: Final = 0.2
"""Seconds without an answer to results after which nothing more should be begun. An answer takes milliseconds; and what is run
while the HSC is away may all have been run in vain, and makes as many suspects."""

M = TypeVar("M")


@dataclass
class Reporter:
    """The results and hand-backs of one executor."""

    executor_id: str
    hsc: HSC
    ledger: Ledger
    """Forgets what is answered for."""
    moved: Callable[[], None]
    """Called whenever something has left the ledger."""
    timing: Timing
    runtime: Runtime

    def __post_init__(self) -> None:
        self.results: ClaimSender[Told] = ClaimSender(
            "set_results",
            self._set_results,
            _told_bytes,
            self._refused,
            self.ledger,
            self.moved,
            self.timing,
            self.runtime,
        )
        self.returns: ClaimSender[None] = ClaimSender(
            "hand_back",
            self._hand_back,
            lambda _: 0,
            lambda task, _error: self.ledger.release([task]),
            self.ledger,
            self.moved,
            self.timing,
            self.runtime,
        )

    def stuck(self, now: float) -> bool:
        """Whether results have gone unanswered for too long by `now`, of the monotonic clock. `moved` is called when that ends."""
        return self.results.unanswered(now) >= UNANSWERED_S

    def ended(self, tasks: Sequence[HeldTask]) -> None:
        """Tells how these runs ended; each has an outcome."""
        self.results.add([(task, self._told(task)) for task in tasks])
        say_all_ended(tasks)

    def unstarted(self, tasks: Iterable[HeldTask]) -> None:
        """Hands these back; none of them has started or will."""
        self.returns.add([(task, None) for task in tasks])

    def _told(self, task: HeldTask) -> Told:
        outcome = task.outcome
        assert outcome is not None
        task.ended_at = task.ended_at or self.runtime.monotonic()
        if type(outcome) is Returned:  # most do: at a quarter of the price, since it needs no options
            return t.SUCCEEDED, outcome.result, outcome.encoding, "", 0
        return to_result(outcome, task.spec.options, task.attempt, self.runtime.random)

    async def _set_results(self, batch: list[tuple[HeldTask, Told]]) -> Sequence[h.Verdict]:
        now = self.runtime.monotonic()
        request = h.SetResultsRequest(executor_id=self.executor_id)
        for task, (outcome, result, encoding, error, retry_in_us) in batch:
            ended = request.results.add()
            task.write(ended.claim)
            ended.outcome, ended.result, ended.encoding = outcome, result, cast("t.Encoding", encoding)
            if outcome != t.SUCCEEDED:
                ended.error, ended.retry_in_us = error, retry_in_us
            if isinstance(task.outcome, DoesNotFit):
                ended.signature = task.outcome.signature
            if isinstance(task.outcome, RunStopped) and not task.outcome.began:
                ended.never_began = True
            elif task.started:
                ended.ran_us = round((task.ended_at - task.started_at) * US)
            ended.ended_ago_us = round((now - task.ended_at) * US)
        return (await self.hsc.set_results(request, timeout=CALL_S)).verdicts

    def _refused(self, task: HeldTask, error: str) -> None:
        """The HSC calls a result invalid: the attempt has failed, whatever it was. If even that is refused, the lease decides."""
        text = f"the result was refused: {error}"
        if isinstance(task.outcome, RunFailed) and task.outcome.error == clip(text):
            self.ledger.release([task])
            return
        task.outcome = RunFailed(clip(text))
        self.ended([task])

    async def _hand_back(self, batch: list[tuple[HeldTask, None]]) -> Sequence[h.Verdict]:
        request = h.HandBackRequest(executor_id=self.executor_id, claims=[task.ref() for task, _ in batch])
        return (await self.hsc.hand_back(request, timeout=CALL_S)).verdicts


def _told_bytes(told: Told) -> int:
    _, result, _, error, _ = told
    return len(result) + 4 * len(error)


@dataclass
class ClaimSender(Generic[M]):
    """One kind of message about held claims: sends it in batches, again and again until it is answered.

    One call is in flight; what comes meanwhile makes the next batch, so batches grow with the load. A claim leaves the ledger only
    when the HSC has answered for it, or when its lease is over: then nothing is written, and the store consumer takes care of it.
    """

    what: str
    """Its name in log lines."""
    call: Callable[[list[tuple[HeldTask, M]]], Awaitable[Sequence[h.Verdict]]]
    """Sends a batch, returns a verdict for each."""
    size: Callable[[M], int]
    """About how many bytes of the batch's message an item takes, beside the claim."""
    refused: Callable[[HeldTask, str], None]
    """Takes what the HSC calls invalid; it is not sent again."""
    ledger: Ledger
    """Forgets what is answered for."""
    moved: Callable[[], None]
    """Called whenever something has left."""
    timing: Timing
    runtime: Runtime

    def __post_init__(self) -> None:
        self._log = get_logger(duty=self.what)
        self._trouble = Trouble(self._log, "hsc")
        self._asking_since: float | None = None
        self._over = False
        self._broken = asyncio.Event()
        self._bug: Exception | None = None
        self._calls: Coalescer[tuple[HeldTask, M], None] = Coalescer(
            self._send_all,
            size=lambda each: self.size(each[1]) + _CLAIM_BYTES,
            limits=LIMITS,
            runtime=self.runtime,
            name=self.what,
        )

    def add(self, items: Sequence[tuple[HeldTask, M]]) -> None:
        """Sends this, as soon as it can; once `run` has ended, nothing more: the process is about to be gone."""
        if not self._over:
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
            self._over = True
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
                self._asking_since = self.runtime.monotonic()
            return await self.call(ours) if ours else []

        try:
            verdicts = await retry(attempt, _AGAIN, self.runtime, failed=partial(self._trouble.failed, self.what))
        except InvalidArgument as error:
            self._asking_since = None
            await self._narrow(ours, error)
        else:
            if ours:
                self._trouble.ended(self.what)
                self._answered(ours, verdicts)
            if ours or not self._calls.waiting:
                self._asking_since = None

    def _still_ours(self, batch: list[tuple[HeldTask, M]]) -> list[tuple[HeldTask, M]]:
        over = self.runtime.boottime_us() - self.timing.heartbeat_timeout_us
        gone = [task for task, _ in batch if task.lost or task.lease_us <= over]
        if not gone:
            return batch
        self._log.warning("lease over before the answer; the tasks will run again", tasks=len(gone))
        self.ledger.release(gone)
        self.moved()
        return [each for each in batch if not (each[0].lost or each[0].lease_us <= over)]

    async def _narrow(self, batch: list[tuple[HeldTask, M]], error: AtfError) -> None:
        """One bad item must not fail its batch: finds it by halves, and gives it away."""
        if len(batch) == 1:
            self._log.error("refused by the hsc", task=batch[0][0].task_id, error=str(error))
            self.refused(batch[0][0], str(error))
            self.moved()
            return
        half = len(batch) // 2
        await self._send(batch[:half])
        await self._send(batch[half:])

    def _answered(self, batch: list[tuple[HeldTask, M]], verdicts: Sequence[h.Verdict]) -> None:
        again = [each for each, verdict in zip(batch, verdicts, strict=True) if verdict == h.UNKNOWN]
        lost = sum(verdict not in {h.OK, h.UNKNOWN} for verdict in verdicts)
        self.ledger.release(each[0] for each, verdict in zip(batch, verdicts, strict=True) if verdict != h.UNKNOWN)
        say = self._log.warning if lost else self._log.debug  # a claim that is lost is run again by somebody
        say(self.what, tasks=len(batch) - len(again), lost=lost)
        self.moved()
        if again:  # a part of the store is away; what comes meanwhile for the others does not wait for it
            self.runtime.spawn(self._add_later(again), name=f"{self.what} again")

    async def _add_later(self, items: list[tuple[HeldTask, M]]) -> None:
        await asyncio.sleep(_AGAIN.most)
        self.add(items)
