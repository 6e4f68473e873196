"""The heartbeat and status controller: decodes a call, calls one verb of the task store, encodes the answer.

Of claims and outcomes it keeps nothing between two calls. A claim that is malformed was never given by anyone, so its verdict is LOST, and the
others of its batch go on. Long polls are kept open for who waits for tasks (next_claims.py) and for the hosts' reports (hosts.py).
Implements atf.rpc.api.HSC; `timeout` is the transport's matter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from atf import task as rules
from atf.auth.caller import permit_executor, permit_some
from atf.auth.grants import Verb
from atf.config.settings import HscSettings, Timing
from atf.errors import AtfError, FailedPrecondition, InvalidArgument
from atf.intake.asks import FRESH_S
from atf.intake.intake import Intake
from atf.log import get_logger
from atf.metrics.table import LEASES_LOST, TASKS_ENDED
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.rpc.lambda_sets import KnownSets
from atf.runtime import Runtime, end
from atf.store.claim_pause import PauseLog
from atf.store.store import Store
from atf.store.values.claims import ClaimRenewal, FirstTimeKey, Verdict
from atf.task import US, clip, partition_of

from .credentials import CredentialIssuer
from .encoding import (
    check_count,
    check_token,
    claim_of,
    encoded,
    log_of,
    lost_run,
    result_of,
)
from .hosts import Hosts
from .next_claims import NextClaims
from .pools import Pools

T = TypeVar("T")

_log = get_logger()


class HscService:
    """Gives claims, and records what becomes of them.

    Args:
        store: where they are.
        timing: how long leases last.
        settings: its own.
        runtime: clocks, chance, spawning.
        fresh: seconds for which an ask may be given something; more where its controllers are in this process.
    """

    def __init__(
        self,
        *,
        store: Store,
        timing: Timing,
        runtime: Runtime,
        settings: HscSettings | None = None,
        fresh: float = FRESH_S,
    ) -> None:
        settings = settings or HscSettings()
        self._store = store
        self._runtime = runtime
        self._grace_us = settings.deploy_grace_us
        self._lease_us = timing.heartbeat_timeout_us
        self._pools, sets = Pools(store, runtime), KnownSets()
        self.intake = Intake(
            store=store,
            ageing=settings.ageing,
            runtime=runtime,
            only=self._pools.only,
            heard=self._heard,
            handed=self._pools.handed,
        )
        self._pools.serve(self.intake)
        self._next_claims = NextClaims(intake=self.intake, pools=self._pools, sets=sets, runtime=runtime, fresh=fresh)
        self._hosts = Hosts(store=store, pools=self._pools, sets=sets, runtime=runtime)
        self._issuer = CredentialIssuer(store, runtime, settings.credential_life)

    async def run(self) -> None:
        """Gives claims until cancelled."""
        beside = [
            self._runtime.spawn(PauseLog(self._store, self._runtime).run(), name="pauses of claims"),
            self._runtime.spawn(self._hosts.run(), name="hosts that live"),
        ]
        self._pools.start()
        try:
            await self.intake.run()
        finally:
            await end(beside)
            await self._pools.end()

    async def drain(self) -> None:
        """Gives nothing any more: who waits is to ask another HSC. What becomes of claims is recorded all the same."""
        self._hosts.close()
        await self.intake.close()

    def _heard(self, name: str) -> None:
        if name[:1] == "&":
            self._hosts.notified(name[1:])
        elif name[:1] == "%":
            self._pools.changed(name[1:])
        else:
            self._pools.notified(name)

    async def next_claims(self, request: h.NextClaimsRequest, *, timeout: float = 70) -> h.NextClaimsReply:
        """Takes tasks from the queues and claims them for an executor, once there are some."""
        self._check_lease(request.heartbeat_timeout_us)
        return await self._next_claims.answer(request)

    async def report_host(self, request: h.ReportHostRequest, *, timeout: float = 70) -> h.ReportHostReply:
        """Notes what there is to know of a worker host, and says whether an operator has it drain."""
        return await self._hosts.report(request)

    async def heartbeat(self, request: h.HeartbeatRequest, *, timeout: float = 10) -> h.HeartbeatReply:
        """Renews leases, and says which runs have started."""
        check_token("executor_id", request.executor_id)
        permit_executor(request.executor_id)
        check_count("claims", len(request.claims), rules.MAX_HELD)
        self._check_lease(request.heartbeat_timeout_us)
        beats = [
            ClaimRenewal(
                claim_of(each.claim),
                each.started,
                clip(each.progress, rules.MAX_PROGRESS_BYTES),
                log_of(each.log) if each.HasField("log") else None,
            )
            for each in request.claims
        ]
        verdicts = await self._verdicts(
            beats,
            lambda each: each.held.task_id,
            lambda some: self._store.heartbeat(some, draining=request.draining),
        )
        return h.HeartbeatReply(verdicts=encoded(verdicts))

    async def set_results(self, request: h.SetResultsRequest, *, timeout: float = 10) -> h.SetResultsReply:
        """Records how runs ended."""
        check_token("executor_id", request.executor_id)
        permit_executor(request.executor_id)
        check_count("results", len(request.results), rules.MAX_BATCH)
        results = [result_of(each, self._grace_us) for each in request.results]
        verdicts = await self._verdicts(results, lambda each: each.held.task_id, self._store.set_results)
        lost = verdicts.count(Verdict.LOST)
        _log.debug("set_results", executor=request.executor_id, runs=len(verdicts) - lost, lost=lost)
        return h.SetResultsReply(verdicts=encoded(verdicts))

    async def hand_back(self, request: h.HandBackRequest, *, timeout: float = 10) -> h.HandBackReply:
        """Returns claims that never started, and what asks claimed whose answers nobody takes; these claim nothing any more."""
        check_token("executor_id", request.executor_id)
        permit_executor(request.executor_id)
        check_count("claims", len(request.claims), rules.MAX_HELD)
        check_count("nonces", len(request.nonces), rules.MAX_BATCH)
        for each in request.nonces:
            check_token("nonce", each, rules.MAX_NONCE_CHARS)
        claims = [claim_of(each) for each in request.claims]
        returned = await self._verdicts(claims, lambda each: each.task_id, self._store.hand_back)
        if request.nonces:
            self.intake.give_up(request.nonces)
            await self._store.give_up_asks(request.nonces)
        _log.debug("hand_back", executor=request.executor_id, claims=len(claims), asks=len(request.nonces))
        return h.HandBackReply(verdicts=encoded(returned))

    async def report_loss(self, request: h.ReportLossRequest, *, timeout: float = 10) -> h.ReportLossReply:
        """Takes claims away from an executor that is dead."""
        check_token("executor_id", request.executor_id)
        check_count("claims", len(request.claims), rules.MAX_HELD)
        why = request.why[: rules.MAX_WHY_CHARS]
        claims = [claim_of(each) for each in request.claims]
        verdicts = await self._verdicts(
            claims,
            lambda each: each.task_id,
            lambda some: self._store.report_loss(some, why, shared=request.shared),
        )
        lost = verdicts.count(Verdict.OK)
        self._store.metrics.counter(LEASES_LOST).inc(lost)
        _log.debug("report_loss", executor=request.executor_id, claims=len(claims), lost=lost, why=why)
        ids = [each.task_id for each, verdict in zip(claims, verdicts, strict=True) if verdict is Verdict.OK]
        return h.ReportLossReply(verdicts=encoded(verdicts), runs=await self._lost(ids))

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
        return [lost_run(each) for each in found]

    async def first_time(self, request: h.FirstTimeRequest, *, timeout: float = 10) -> h.FirstTimeReply:
        """Says which tasks are the first that ask for their keys."""
        check_token("executor_id", request.executor_id)
        permit_executor(request.executor_id)
        check_count("keys", len(request.keys), rules.MAX_BATCH)
        for each in request.keys:
            partition_of(each.task_id, self._store.partitions)
            rules.check_name(each.namespace, "namespace")
            rules.check_first_time(each.key, each.ttl_us)
        permit_some(Verb.WORK, *{each.namespace for each in request.keys})
        asked = [FirstTimeKey(each.task_id, each.namespace, each.key, each.ttl_us) for each in request.keys]
        return h.FirstTimeReply(first=await self._store.first_time(asked) if asked else [])

    async def issue_credential(self, request: h.IssueCredentialRequest, *, timeout: float = 10) -> t.Credential:
        """Gives a controller what one of its executors shows from then on."""
        return await self._issuer.issue(request.executor_id)

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
