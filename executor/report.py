"""What the HSC is told of claims: how runs ended, and which claims are handed back.

Makes the messages; sending them until they are answered is sender.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from atf.config.settings import Timing
from atf.rpc import hsc_pb2 as h
from atf.rpc import task_pb2 as t
from atf.rpc.api import HSC
from atf.runtime import Runtime
from atf.task import US, clip

from .held import HeldTask, Ledger
from .outcome import DoesNotFit, Returned, RunFailed, RunStopped, Told, to_result
from .run_log import say_all_ended
from .sender import CALL_S, Sender

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
    moved: Callable[[], None]
    """Called whenever something has left the ledger."""
    timing: Timing
    runtime: Runtime

    def __post_init__(self) -> None:
        self.results: Sender[Told] = Sender(
            "set_results",
            call=self._set_results,
            size=_told_bytes,
            refused=self._refused,
            ledger=self.ledger,
            moved=self.moved,
            timing=self.timing,
            runtime=self.runtime,
        )
        self.returns: Sender[None] = Sender(
            "hand_back",
            call=self._hand_back,
            size=lambda _: 0,
            refused=lambda task, _error: self.ledger.release([task]),
            ledger=self.ledger,
            moved=self.moved,
            timing=self.timing,
            runtime=self.runtime,
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
