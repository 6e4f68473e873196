"""Takes ended tasks from the workers, and tells the HSC how runs ended and which claims are handed back.

The reporter makes the messages, and a sender for each kind sends them until they are answered. It calls nothing of the pipeline, which looks for room
in the ledger and in the measured run times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from atf.calls.coalescing import CallLimits, Pending
from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.config.settings import Timing
from atf.errors import AtfError, InvalidArgument
from atf.log import get_logger
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.rpc.api import HSC
from atf.runtime import Runtime
from atf.task import MAX_LOG_BYTES, US, clip

from . import run_span
from .held import HeldTask, Ledger
from .outcome import (
    DoesNotFit,
    GaveUp,
    HandedBack,
    Returned,
    RunFailed,
    RunStopped,
    RunTimedOut,
    Told,
    to_result,
)
from .output.kept_log import KeptLog
from .prefetch import Prefetch
from .run_log import say_all_ended
from .run_reports import RunReports

LIMITS: Final = CallLimits(size=3_500_000)  # gRPC refuses messages of more than 4 MiB
_CLAIM_BYTES: Final = 256
"""At most, for the claim that an item is about, and its numbers."""
CALL_S: Final = 5.0
"""Seconds until a call without an answer is repeated; each is idempotent."""
_AGAIN: Final = RetryPolicy(first=0.05, most=1.0, errors=(Exception,), never=(InvalidArgument,))
"""Whatever it is: the claims are still ours to answer for."""
_FAILED: Final = (RunFailed, GaveUp, RunTimedOut, RunStopped)
"""The outcomes of which LOGS_OF_FAILED keeps the log."""
UNANSWERED_S: Final = 0.2
"""Seconds without an answer to results after which nothing more should be begun. An answer takes milliseconds; and what is run
while the HSC is away may all have been run in vain, and makes as many suspects."""


@dataclass
class Reporter:
    """The results and hand-backs of one executor."""

    executor_id: str
    hsc: HSC
    ledger: Ledger
    """Forgets what is answered for."""
    prefetch: Prefetch
    """Counts what leaves the workers."""
    beat: Callable[[], None]
    """Has a heartbeat sent now: a task needs one before it may start."""
    run_reports: RunReports
    """Counts how runs went."""
    timing: Timing
    runtime: Runtime

    def __post_init__(self) -> None:
        sender = partial(ClaimSender, ledger=self.ledger, timing=self.timing, runtime=self.runtime)
        self.results = sender("set_results", self._set_results, self._refused)
        self.returns = sender("hand_back", self._hand_back, lambda task, _error: self.ledger.release([task]))

    def stuck(self, now: float) -> bool:
        """Whether results have gone unanswered for too long by `now`, of the monotonic clock. `Ledger.moved` is set when that ends."""
        return self.results.unanswered(now) >= UNANSWERED_S

    def collect(self, tasks: Sequence[HeldTask]) -> None:
        """Takes tasks from the workers: ended, or not to be started now."""
        now = self.runtime.monotonic()
        self.prefetch.left(task.lambda_name for task in tasks)
        ended: list[HeldTask] = []
        stale: list[HeldTask] = []
        for task in tasks:
            task.queued = False
            if task.lost:
                self.ledger.release([task])
            elif task.outcome is None:
                stale.append(task)
            else:
                ended.append(task)
                if task.ended_at:
                    self.prefetch.ran(task.lambda_name, task.ended_at - task.started_at, now)
        self.ended(ended)
        if self.ledger.draining.is_set():
            for task in ended:
                self.ledger.drained["handed_back" if isinstance(task.outcome, HandedBack) else "ended"] += 1
            self.hand_back(stale)
        elif stale:
            self.ledger.stale += stale
            self.beat()
        self.ledger.moved.set()

    def ended(self, tasks: Sequence[HeldTask]) -> None:
        """Tells how these runs ended; each has an outcome."""
        for task in tasks:
            task.ended_at = task.ended_at or self.runtime.monotonic()  # 0: it never began
        self.results.add(tasks)
        self.run_reports.add(tasks)
        say_all_ended(tasks)

    def hand_back(self, tasks: Sequence[HeldTask]) -> None:
        """Hands back tasks that have not started, and now never will here."""
        for task in tasks:
            task.queued = False
        if tasks and self.ledger.draining.is_set():
            self.ledger.drained["not_started"] += len(tasks)
        self.returns.add(tasks)

    async def _set_results(self, batch: list[HeldTask]) -> Sequence[h.Verdict]:
        now = self.runtime.monotonic()
        request = h.SetResultsRequest(executor_id=self.executor_id)
        for task in batch:
            outcome, result, encoding, error, retry_in_us = self._told(task)
            ended = request.results.add()
            task.write(ended.claim)
            ended.outcome, ended.result, ended.encoding = outcome, result, cast("t.Encoding", encoding)
            if outcome != t.SUCCEEDED:
                ended.error, ended.retry_in_us = error, retry_in_us
            if task.span is not None and task.spec.batch.id:
                ended.traceparent = run_span.for_followers(task.span, task)
            if task.log is not None and keeps_log(task, task.log):
                task.write_log(ended.log)
            if isinstance(task.outcome, DoesNotFit):
                ended.signature = task.outcome.signature
            if isinstance(task.outcome, RunStopped) and not task.outcome.began:
                ended.never_began = True
            elif task.started:
                ended.ran_us = round((task.ended_at - task.started_at) * US)
            ended.ended_ago_us = round((now - task.ended_at) * US)
        return (await self.hsc.set_results(request, timeout=CALL_S)).verdicts

    def _told(self, task: HeldTask) -> Told:
        outcome = task.outcome
        assert outcome is not None
        if type(outcome) is Returned:  # most do: at a quarter of the price, since it needs no options
            return t.SUCCEEDED, outcome.result, outcome.encoding, "", 0
        return to_result(outcome, task.spec.options, task.attempt, self.runtime.random)

    def _refused(self, task: HeldTask, error: str) -> None:
        """The HSC calls a result invalid: the attempt has failed, whatever it was. If even that is refused, the lease decides."""
        text = clip(f"the result was refused: {error}")
        if isinstance(task.outcome, RunFailed) and task.outcome.error == text:
            self.ledger.release([task])
            return
        task.outcome = RunFailed(text)
        self.ended([task])

    async def _hand_back(self, batch: list[HeldTask]) -> Sequence[h.Verdict]:
        request = h.HandBackRequest(executor_id=self.executor_id, claims=[task.ref() for task in batch])
        return (await self.hsc.hand_back(request, timeout=CALL_S)).verdicts


def keeps_log(task: HeldTask, log: KeptLog) -> bool:
    """Whether the log of a run that has ended is kept with its task."""
    return log.watched or task.logs == t.LOGS_OF_ALL or isinstance(task.outcome, _FAILED)


def _bytes_of(task: HeldTask) -> int:
    """About how many bytes of a message the task takes."""
    outcome = task.outcome
    size = _CLAIM_BYTES if task.log is None else _CLAIM_BYTES + MAX_LOG_BYTES
    if isinstance(outcome, Returned):
        return size + len(outcome.result)
    return size if outcome is None else size + 4 * len(outcome.error)


@dataclass
class ClaimSender:
    """One kind of message about held claims: sends it in batches, again and again until it is answered.

    One call is in flight; what comes meanwhile makes the next batch, so batches grow with the load. A claim leaves the ledger only
    when the HSC has answered for it, or when its lease is over: then nothing is written, and the store consumer takes care of it.
    """

    what: str
    """Its name in log lines."""
    call: Callable[[list[HeldTask]], Awaitable[Sequence[h.Verdict]]]
    """Sends a batch, returns a verdict for each."""
    refused: Callable[[HeldTask, str], None]
    """Takes what the HSC calls invalid; it is not sent again."""
    ledger: Ledger
    """Forgets what is answered for."""
    timing: Timing
    runtime: Runtime

    def __post_init__(self) -> None:
        self._log = get_logger(duty=self.what)
        self._trouble = Trouble(self._log, "hsc")
        self._asking_since: float | None = None
        self._pending: Pending[HeldTask] = Pending(LIMITS)
        self._waits = asyncio.Event()

    def add(self, tasks: Sequence[HeldTask]) -> None:
        """Has `run` send this, as soon as it can; once that has ended, nothing is sent any more: the process is about to be gone."""
        if tasks:
            self._pending.extend(tasks, list(map(_bytes_of, tasks)))
            self._waits.set()

    def unanswered(self, now: float) -> float:
        """Seconds of the monotonic clock for which calls have gone without an answer; 0: none is asked for."""
        return 0.0 if self._asking_since is None else now - self._asking_since

    async def run(self) -> None:
        """Sends what is added until it is cancelled, and gives up then what is not answered."""
        while True:
            await self._waits.wait()
            while len(self._pending):
                await self._send(self._pending.take())
            self._waits.clear()

    async def _send(self, batch: list[HeldTask]) -> None:
        """Sends one batch until it is answered."""
        ours = batch

        async def attempt() -> Sequence[h.Verdict]:
            nonlocal ours
            ours = self._still_ours(ours)
            if ours and self._asking_since is None:
                self._asking_since = self.runtime.monotonic()
            return await self.call(ours) if ours else []

        try:
            verdicts = await retry(attempt, _AGAIN, self.runtime, trouble=(self._trouble, self.what))
        except InvalidArgument as error:
            self._asking_since = None
            await self._narrow(ours, error)
        else:
            if ours:
                self._answered(ours, verdicts)
            if ours or not len(self._pending):
                self._asking_since = None

    def _still_ours(self, batch: list[HeldTask]) -> list[HeldTask]:
        over = self.runtime.boottime_us() - self.timing.heartbeat_timeout_us
        gone = [task for task in batch if task.lost or task.lease_us <= over]
        if not gone:
            return batch
        self._log.warning("lease over before the answer; the tasks will run again", tasks=len(gone))
        self.ledger.release(gone)
        return [task for task in batch if task not in gone]

    async def _narrow(self, batch: list[HeldTask], error: AtfError) -> None:
        """One bad item must not fail its batch: finds it by halves, and gives it away."""
        if len(batch) == 1:
            self._log.error("refused by the hsc", task=batch[0].task_id, error=str(error))
            self.refused(batch[0], str(error))
            self.ledger.moved.set()
            return
        half = len(batch) // 2
        await self._send(batch[:half])
        await self._send(batch[half:])

    def _answered(self, batch: list[HeldTask], verdicts: Sequence[h.Verdict]) -> None:
        again = [task for task, verdict in zip(batch, verdicts, strict=True) if verdict == h.UNKNOWN]
        lost = sum(verdict not in {h.OK, h.UNKNOWN} for verdict in verdicts)
        self.ledger.release(task for task, verdict in zip(batch, verdicts, strict=True) if verdict != h.UNKNOWN)
        say = self._log.warning if lost else self._log.debug  # a claim that is lost is run again by somebody
        say(self.what, tasks=len(batch) - len(again), lost=lost)
        if again:  # a part of the store is away; what comes meanwhile for the others does not wait for it
            asyncio.get_running_loop().call_later(_AGAIN.most, self.add, again)
