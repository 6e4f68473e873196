"""Claims tasks, renews their leases, and ends them by results, losses and hand-backs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from atf.errors import AtfError, ClaimsPaused, Unavailable
from atf.metrics.table import TASKS_ENDED
from atf.store.servers.sockets import Arg
from atf.task import MAX_BATCH, MAX_WHY_CHARS, clip

from . import library
from .calls import CALL_BYTES, SharedCalls, by_partition
from .claim_pause import ClaimPause
from .next_claims import NextClaimVerbs, claimed_task
from .run_logs import log_entry
from .values.claims import ClaimBatch, ClaimRenewal, HeldClaim, Outcome, RunResult, Verdict

MAX_MISFIT_BYTES: Final = 1 << 10
"""Of what is kept of the error of a payload that does not fit."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_ENDS: Final = ("SUCCESS", "FATAL_FAILURE", "CANCELLED")
_VERDICTS: Final = {int(each): each for each in Verdict}


class ClaimVerbs(NextClaimVerbs):
    """The verbs of Store about claims. One that is over is told so; the store stays as it is."""

    @cached_property
    def _set_results_calls(self) -> SharedCalls[RunResult, Verdict]:
        def size(result: RunResult) -> int:
            return len(result.result) + len(result.error) + (len(result.log.text) if result.log is not None else 0)

        return SharedCalls(self._set_results, size=size, runtime=self._runtime, name="set_results")

    async def claim(
        self, owner: str, nonce: str, ids: Sequence[str], max_bytes: int, signatures: Mapping[str, str] = _NONE
    ) -> ClaimBatch:
        """ENQUEUED → CLAIMED. The same owner, nonce and ids again answer the same; an id given twice is answered once.

        Args:
            owner: the executor it is for.
            nonce: a fresh one per call, the same one for a repetition.
            ids: what to claim.
            max_bytes: what the specs and their overhead may come to. A first task that is larger is claimed alone.
            signatures: lambda -> digest of the signature that the executor runs. What is known not to fit that counts as lost.

        Where some partitions are away, their ids count as lost; they come again with their leases or enqueue timeouts.

        Raises:
            ClaimsPaused: claims are paused.
            Unavailable: all of the ids' partitions are away, or their claims did not come to be as durable as set.
        """
        batch = ClaimBatch([], [], [])
        signed = "".join(f" {name}={digest}" for name, digest in signatures.items())

        async def claim(partition: int, mine: list[str]) -> list[str]:
            """Answers what is still to be claimed: it was only too much for one call."""
            left = max(max_bytes - sum(len(each.spec) + library.CLAIM_OVERHEAD for each in batch.claims), 0)
            room = min(left, CALL_BYTES)
            args: list[Arg] = [owner, nonce, self._lease_us, room, int(not batch.claims), signed, *mine]
            reply = await self._lease("claim", partition, args, demand=self.settings.floor)
            if reply and reply[0] == b"paused":
                pause = ClaimPause.from_reply(reply[1:])
                raise ClaimsPaused(pause.sentence if pause else "claims are paused")
            return _sort_in(batch, nonce, mine, reply, cut=room < left)

        # A queue may hold an id twice, and a repetition within one call would be answered as a repetition of the call.
        ids = list(dict.fromkeys(ids))
        parts: defaultdict[int, list[str]] = defaultdict(list)
        for task_id in ids:
            parts[self._partition(task_id)].append(task_id)  # all are checked before the first is claimed
        away: list[Unavailable] = []
        answered = False
        for partition, mine in sorted(parts.items()):
            # one after the other: the bytes of the answer are counted over all of them
            try:
                for start in range(0, len(mine), MAX_BATCH):
                    left = mine[start : start + MAX_BATCH]
                    while left:
                        left = await claim(partition, left)
                answered = True
            except Unavailable as error:
                if not self._link.parted:
                    raise  # the others lie on the same server, and each call of it may take the whole timeout
                away.append(error)
                seen = {each.task_id for each in batch.claims}.union(batch.lost, batch.deferred)
                batch.lost.extend(each for each in mine if each not in seen)
        if away and not answered:
            raise away[0]
        return batch

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

    async def hand_back(self, claims: Sequence[HeldClaim], unclaimed: Sequence[str]) -> list[Verdict]:
        """CLAIMED (never started) or ENQUEUED (popped, never claimed) → ENQUEUED; counts nothing."""

        async def return_claims(partition: int, batch: list[HeldClaim]) -> list[Verdict]:
            args: list[Arg] = [len(batch), *(part for each in batch for part in each)]
            return [Verdict(each) for each in await self._call("hand_back", partition, args)]

        async def return_ids(partition: int, batch: list[str]) -> list[Verdict]:
            return [Verdict(each) for each in await self._call("hand_back", partition, [0, *batch])]

        returned = await by_partition(claims, lambda each: self._partition(each.task_id), return_claims)
        return returned + await by_partition(unclaimed, self._partition, return_ids)

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


def _sort_in(
    batch: ClaimBatch, nonce: str, ids: Sequence[str], reply: Sequence[list[bytes]], *, cut: bool
) -> list[str]:
    """Puts what the store answered for each id where it belongs.

    With `cut`, the call had less room than the answer has left, and what did not fit is to be claimed by another one.

    Returns:
        These ids; none where the call claimed nothing: another one would not, either.
    """
    deferred = []
    for task_id, answer in zip(ids, reply, strict=True):
        if len(answer) == 1:
            batch.lost.append(task_id)
        elif len(answer) == 2:
            deferred.append(task_id)
        else:
            queue, *entry = answer
            batch.claims.append(claimed_task(queue.decode(), nonce, entry))
    if cut and len(deferred) < len(ids):
        return deferred
    batch.deferred.extend(deferred)
    return []


def _in_one_line(why: str) -> str:
    """Why a run has ended, as it goes into the list of runs, where each is a line."""
    return " ".join(why.split())[:MAX_WHY_CHARS]


def _unknown(_error: AtfError) -> Verdict:
    return Verdict.UNKNOWN
