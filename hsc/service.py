"""The heartbeat and status controller: decodes a call, calls one verb of the task store, encodes the answer.

It keeps nothing between two calls. A claim that is malformed was never given by anyone, so its verdict is LOST, and the
others of its batch go on. Implements atf.rpc.api.HSC; `timeout` is the transport's matter.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar, cast

from atf import task as rules
from atf.config.settings import HscSettings, Timing
from atf.errors import AtfError, FailedPrecondition, InvalidArgument
from atf.log import get_logger
from atf.metrics.table import LEASES_LOST, TASKS_ENDED
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.sdk.kept_logs import KEPT_LOGS
from atf.sdk.tracing import TRACEPARENT_CHARS
from atf.store.store import Store
from atf.store.values.claims import (
    ClaimedTask,
    ClaimRenewal,
    FirstTimeKey,
    HeldClaim,
    KeptRunLog,
    Outcome,
    RunResult,
    Verdict,
)
from atf.store.values.tasks import TaskRecord
from atf.task import US, Status, clip, partition_of

DEFAULT_DEPLOY_GRACE_US: Final = HscSettings().deploy_grace_us
MAX_RAN_US: Final = 366 * 86_400 * US
MAX_LOG_CUT_BYTES: Final = 1 << 50
MAX_CLAIM_BYTES: Final = rules.MAX_BATCH_BYTES - (64 << 10)
"""Of claims in one answer; the ids that are lost or deferred come on top."""
_OUTCOMES: Final = {int(each): each for each in Outcome}
_ENCODINGS: Final = frozenset({t.JSON, t.RAW})
_SIGNATURE: Final = re.compile(r"[a-z0-9_-]{1,32}")
_WORD: Final = re.compile(r"[!-~]{1,128}")

T = TypeVar("T")

_log = get_logger()


class HscService:
    """Records claims and outcomes.

    Args:
        store: where they are.
        timing: how long leases last.
        deploy_grace_us: for how long a payload may fit no live executor before that is a failed attempt.
    """

    def __init__(self, *, store: Store, timing: Timing, deploy_grace_us: int = DEFAULT_DEPLOY_GRACE_US) -> None:
        self._store = store
        self._grace_us = deploy_grace_us
        self._lease_us = timing.heartbeat_timeout_us

    async def claim_tasks(self, request: h.ClaimTasksRequest, *, timeout: float = 10) -> h.ClaimTasksReply:
        """Claims tasks in an executor's name."""
        _check_token("executor_id", request.executor_id)
        _check_token("nonce", request.nonce, rules.MAX_NONCE_CHARS)
        _check_count("task_ids", len(request.task_ids), rules.MAX_BATCH)
        self._check_lease(request.heartbeat_timeout_us)
        ids = [each for each in dict.fromkeys(request.task_ids) if self._exists(each)]
        bad = set(request.task_ids).difference(ids)
        _check_count("signatures", len(request.signatures), rules.MAX_BATCH)
        for name, signature in request.signatures.items():
            rules.check_lambda(name)
            _check_signature(signature)
        batch = await self._store.claim(request.executor_id, request.nonce, ids, MAX_CLAIM_BYTES, request.signatures)
        reply = h.ClaimTasksReply(lost=[*batch.lost, *sorted(bad)], deferred=batch.deferred)
        for each in batch.claims:
            _fill_claim(reply.claims.add(), each)
        return reply

    async def heartbeat(self, request: h.HeartbeatRequest, *, timeout: float = 10) -> h.HeartbeatReply:
        """Renews leases, and says which runs have started."""
        _check_token("executor_id", request.executor_id)
        _check_count("claims", len(request.claims), rules.MAX_HELD)
        self._check_lease(request.heartbeat_timeout_us)
        beats = [
            ClaimRenewal(
                _claim_of(each.claim),
                each.started,
                clip(each.progress, rules.MAX_PROGRESS_BYTES),
                _log_of(each.log) if each.HasField("log") else None,
            )
            for each in request.claims
        ]
        verdicts = await self._verdicts(
            beats,
            lambda each: each.held.task_id,
            lambda some: self._store.heartbeat(some, draining=request.draining),
        )
        return h.HeartbeatReply(verdicts=_encoded(verdicts))

    async def set_results(self, request: h.SetResultsRequest, *, timeout: float = 10) -> h.SetResultsReply:
        """Records how runs ended."""
        _check_token("executor_id", request.executor_id)
        _check_count("results", len(request.results), rules.MAX_BATCH)
        results = [_result(each, self._grace_us) for each in request.results]
        verdicts = await self._verdicts(results, lambda each: each.held.task_id, self._store.set_results)
        lost = verdicts.count(Verdict.LOST)
        _log.debug("set_results", executor=request.executor_id, runs=len(verdicts) - lost, lost=lost)
        return h.SetResultsReply(verdicts=_encoded(verdicts))

    async def hand_back(self, request: h.HandBackRequest, *, timeout: float = 10) -> h.HandBackReply:
        """Returns claims that never started, and ids that were popped but never claimed."""
        _check_token("executor_id", request.executor_id)
        _check_count("claims and unclaimed", len(request.claims) + len(request.unclaimed), rules.MAX_HELD)
        claims = [_claim_of(each) for each in request.claims]
        returned = await self._verdicts(claims, lambda each: each.task_id, lambda some: self._store.hand_back(some, []))
        returned += await self._verdicts(
            request.unclaimed, lambda each: each, lambda some: self._store.hand_back([], some)
        )
        _log.debug("hand_back", executor=request.executor_id, claims=len(claims), unclaimed=len(request.unclaimed))
        return h.HandBackReply(verdicts=_encoded(returned))

    async def report_loss(self, request: h.ReportLossRequest, *, timeout: float = 10) -> h.ReportLossReply:
        """Takes claims away from an executor that is dead."""
        _check_token("executor_id", request.executor_id)
        _check_count("claims", len(request.claims), rules.MAX_HELD)
        why = request.why[: rules.MAX_WHY_CHARS]
        claims = [_claim_of(each) for each in request.claims]
        verdicts = await self._verdicts(
            claims,
            lambda each: each.task_id,
            lambda some: self._store.report_loss(some, why, shared=request.shared),
        )
        lost = verdicts.count(Verdict.OK)
        self._store.metrics.counter(LEASES_LOST).inc(lost)
        _log.debug("report_loss", executor=request.executor_id, claims=len(claims), lost=lost, why=why)
        ids = [each.task_id for each, verdict in zip(claims, verdicts, strict=True) if verdict is Verdict.OK]
        return h.ReportLossReply(verdicts=_encoded(verdicts), runs=await self._lost(ids))

    async def _lost(self, ids: Sequence[str]) -> list[h.LostRun]:
        """What can be said of runs that have just been lost. The losses are on record: that this can't be read is no failure."""
        try:
            records = await self._store.get_tasks(ids) if ids else []
        except AtfError:
            return []
        found = [each for each in records if each is not None]
        for each in found:
            if each.status in rules.FINISHED:
                self._store.metrics.counter(TASKS_ENDED, each.lambda_name, each.status.name).inc()
        return [_lost_run(each) for each in found]

    async def first_time(self, request: h.FirstTimeRequest, *, timeout: float = 10) -> h.FirstTimeReply:
        """Says which tasks are the first that ask for their keys."""
        _check_token("executor_id", request.executor_id)
        _check_count("keys", len(request.keys), rules.MAX_BATCH)
        for each in request.keys:
            partition_of(each.task_id, self._store.partitions)
            rules.check_name(each.namespace, "namespace")
            rules.check_first_time(each.key, each.ttl_us)
        asked = [FirstTimeKey(each.task_id, each.namespace, each.key, each.ttl_us) for each in request.keys]
        return h.FirstTimeReply(first=await self._store.first_time(asked) if asked else [])

    def _check_lease(self, asked_us: int) -> None:
        """An executor that counts on less than it gets is safe: so a longer timeout comes into use, the HSC first."""
        if asked_us > self._lease_us:
            raise FailedPrecondition(
                f"the controller or executor is set to heartbeat_timeout = {asked_us / US:g} s, and this HSC to"
                f" {self._lease_us / US:g} s: it would count on leases that have ended. Start one of them with the other's value"
                " (ATF_HEARTBEAT_TIMEOUT)"
            )

    async def _verdicts(
        self,
        items: Sequence[T],
        task_id: Callable[[T], str],
        verb: Callable[[Sequence[T]], Awaitable[list[Verdict]]],
    ) -> list[Verdict]:
        """The store's verdicts on the items whose ids can exist, LOST on the others, in the order of the items."""
        good = [each for each in items if self._exists(task_id(each))]
        if len(good) == len(items):
            return await verb(items) if items else []
        verdicts = iter(await verb(good) if good else [])
        return [next(verdicts) if self._exists(task_id(each)) else Verdict.LOST for each in items]

    def _exists(self, task_id: str) -> bool:
        try:
            partition_of(task_id, self._store.partitions)
        except InvalidArgument:
            return False
        return True


def _check_token(name: str, value: str, most: int = 128) -> None:
    if len(value) > most or not _WORD.fullmatch(value):
        raise InvalidArgument(f"{name} {value[:200]!r}: use 1 to {most} printable characters of ASCII without spaces")


def _check_count(name: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidArgument(f"{count} {name}: at most {most} in one call")


def _claim_of(claim: t.ClaimRef) -> HeldClaim:
    token = claim.token
    return HeldClaim(claim.task_id, token.counter, token.nonce)


def _fill_claim(claim: t.Claim, claimed: ClaimedTask) -> None:
    claim.task_id, claim.spec, claim.scheduled_at_us = claimed.task_id, claimed.spec, claimed.scheduled_at_us
    claim.attempt, claim.run, claim.losses, claim.alone = claimed.attempt, claimed.run, claimed.losses, claimed.alone
    if claimed.logs:
        claim.logs = KEPT_LOGS.get(claimed.logs, t.LOGS_OF_FAILED)
    token = claim.token
    token.counter, token.nonce = claimed.counter, claimed.nonce


def _check_signature(digest: str) -> None:
    if not _SIGNATURE.fullmatch(digest):
        raise InvalidArgument(f"signature {digest[:40]!r}: use 1 to 32 of the characters a-z 0-9 _ -")


def _result(result: h.Result, grace_us: int) -> RunResult:
    held, value, encoding, error = _claim_of(result.claim), result.result, result.encoding, result.error
    outcome = _OUTCOMES.get(result.outcome)
    if outcome is None:
        raise InvalidArgument(f"result of {held.task_id!r}: outcome {result.outcome} is none of SUCCEEDED to MISFIT")
    if len(value) > rules.MAX_RESULT_BYTES:
        raise InvalidArgument(
            f"result of {held.task_id!r}: {len(value)} bytes, at most {rules.MAX_RESULT_BYTES} (64 KiB)"
        )
    if encoding not in _ENCODINGS:
        raise InvalidArgument(f"result of {held.task_id!r}: encoding {encoding}; use JSON (0) or RAW (1)")
    retry_us, ended_us = _clamped(result.retry_in_us, rules.MAX_AHEAD_US), _clamped(result.ended_ago_us, MAX_RAN_US)
    if outcome is Outcome.MISFIT:
        _check_signature(result.signature)
        misfit = RunResult(held, outcome, error=error, retry_in_us=retry_us, ended_ago_us=ended_us)
        return misfit._replace(signature=result.signature, grace_us=grace_us)
    began = not (outcome is Outcome.STOPPED and result.never_began)
    ran_us = _clamped(result.ran_us, MAX_RAN_US)
    found = RunResult(held, outcome, value, encoding, clip(error) if error else "", retry_us, ran_us, ended_us, began)
    if result.traceparent:
        found = found._replace(traceparent=result.traceparent[:TRACEPARENT_CHARS])
    return found._replace(log=_log_of(result.log)) if result.HasField("log") else found


def _log_of(log: t.RunLog) -> KeptRunLog | None:
    """A run's log within its bounds; None: there is nothing in it."""
    text, cut_bytes = log.text, log.cut_bytes
    if len(data := text.encode()) > rules.MAX_LOG_BYTES:
        text = data[-rules.MAX_LOG_BYTES :].decode("utf-8", "ignore")
        cut_bytes += len(data) - len(text.encode())
    if not text:
        return None
    return KeptRunLog(max(log.run, 1), max(log.attempt, 1), text, _clamped(cut_bytes, MAX_LOG_CUT_BYTES))


def _lost_run(record: TaskRecord) -> h.LostRun:
    return h.LostRun(
        task_id=record.id,
        **{"lambda": record.lambda_name},
        attempt=record.attempts + 1,
        losses=record.losses,
        max_losses=record.most_losses,
        last=record.status is Status.FATAL_FAILURE,
    )


def _clamped(us: int, most: int) -> int:
    return us if 0 <= us <= most else min(max(us, 0), most)


def _encoded(verdicts: Iterable[Verdict]) -> list[h.Verdict]:
    return cast("list[h.Verdict]", list(verdicts))
