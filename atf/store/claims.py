"""Renews the leases of claims, and ends claims by results, losses and hand-backs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from atf.errors import AtfError
from atf.metrics.table import TASKS_ENDED
from atf.store.servers.sockets import Arg
from atf.task import MAX_WHY_CHARS, clip

from .calls import SharedCalls, by_partition
from .next_claims import NextClaimVerbs
from .run_logs import log_entry
from .values.claims import ClaimRenewal, HeldClaim, Outcome, RunResult, Verdict

MAX_MISFIT_BYTES: Final = 1 << 10
"""Of what is kept of the error of a payload that does not fit."""
_ENDS: Final = ("SUCCESS", "FATAL_FAILURE", "CANCELLED")
_VERDICTS: Final = {int(each): each for each in Verdict}


class ClaimVerbs(NextClaimVerbs):
    """The verbs of Store about claims. One that is over is told so; the store stays as it is."""

    @cached_property
    def _set_results_calls(self) -> SharedCalls[RunResult, Verdict]:
        def size(result: RunResult) -> int:
            return len(result.result) + len(result.error) + (len(result.log.text) if result.log is not None else 0)

        return SharedCalls(self._set_results, size=size, runtime=self._runtime, name="set_results")

    async def heartbeat(self, beats: Sequence[ClaimRenewal], *, draining: bool = False) -> list[Verdict]:
        """CLAIMED, PROCESSING keep their claim for another heartbeat timeout; CLAIMED → PROCESSING where started.

        With `draining`, the executor was asked to end: should one of these leases expire, that is no loss, three times in a row at most.

        UNKNOWN where a claim's partition is away; Unavailable where all are.
        """

        async def call(partition: int, batch: list[ClaimRenewal]) -> list[Verdict]:
            args: list[Arg] = [self._lease_us, int(draining)]
            for each in batch:
                log = log_entry(each.log) if each.log is not None else b""
                args += (*each.held, int(each.started), each.progress, log)
            return [_VERDICTS[each] for each in await self._lease("heartbeat", partition, args)]

        return await by_partition(beats, lambda each: self._partition(each.held.task_id), call, failed=_unknown)

    async def set_results(self, results: Sequence[RunResult]) -> list[Verdict]:
        """CLAIMED, PROCESSING → SUCCESS, RETRIABLE_FAILURE, FATAL_FAILURE or CANCELLED; handed back → ENQUEUED or NEW; misfit → NEW. Idempotent by token.

        UNKNOWN where a claim's partition is away; Unavailable where all are.
        """
        calls = self._set_results_calls
        return await by_partition(
            results, lambda each: self._partition(each.held.task_id), calls.ask, calls.size, failed=_unknown
        )

    async def _set_results(self, partition: int, batch: list[RunResult]) -> list[Verdict]:
        args: list[Arg] = []
        for each in batch:
            (
                held,
                outcome,
                result,
                encoding,
                error,
                retry_in_us,
                ran_us,
                ended_ago_us,
                began,
                signature,
                grace_us,
                log,
                traceparent,
            ) = each
            if outcome is Outcome.HANDED_BACK:
                error = _in_one_line(error)
            elif outcome is Outcome.MISFIT:
                result, error = f"{signature} {grace_us}".encode(), clip(error, MAX_MISFIT_BYTES)
            elif outcome is Outcome.SUCCEEDED:
                error = traceparent
            else:
                result = traceparent.encode()
            args += (*held, int(outcome), result, encoding, error, retry_in_us, ran_us if began else "", ended_ago_us)
            args.append(log_entry(log) if log is not None else b"")
        reply = await self._call("set_results", partition, args)
        self._count_ended(reply[len(batch) :])
        return [_VERDICTS[each] for each in reply[: len(batch)]]

    def _count_ended(self, told: Sequence[Any]) -> None:
        """Counts tasks by how they ended: after each queue come the numbers of those that ended so, as far as there are any."""
        name, statuses = "", iter(_ENDS)
        for each in told:
            if isinstance(each, bytes):
                name, statuses = each.decode().rpartition(":")[0], iter(_ENDS)
            else:
                status = next(statuses)
                if each:
                    self.metrics.counter(TASKS_ENDED, name, status).inc(each)

    async def hand_back(self, claims: Sequence[HeldClaim]) -> list[Verdict]:
        """CLAIMED, never started → ENQUEUED; counts nothing."""

        async def call(partition: int, batch: list[HeldClaim]) -> list[Verdict]:
            args: list[Arg] = [part for each in batch for part in each]
            return [Verdict(each) for each in await self._call("hand_back", partition, args)]

        return await by_partition(claims, lambda each: self._partition(each.task_id), call)

    async def report_loss(self, claims: Sequence[HeldClaim], why: str, *, shared: bool = False) -> list[Verdict]:
        """CLAIMED, PROCESSING of a dead executor → ENQUEUED, losses += 1; FATAL_FAILURE at max_losses.

        With `shared`, several tasks that had been lost before ran in that executor, and none of these can be blamed: no
        loss is counted, and each of them runs alone from now on.
        """
        why = _in_one_line(why)

        async def call(partition: int, batch: list[HeldClaim]) -> list[Verdict]:
            args: list[Arg] = [why, int(shared), *(part for each in batch for part in each)]
            return [Verdict(each) for each in await self._call("report_loss", partition, args)]

        return await by_partition(claims, lambda each: self._partition(each.task_id), call)


def _in_one_line(why: str) -> str:
    """Why a run has ended, as it goes into the list of runs, where each is a line."""
    return " ".join(why.split())[:MAX_WHY_CHARS]


def _unknown(_error: AtfError) -> Verdict:
    return Verdict.UNKNOWN
