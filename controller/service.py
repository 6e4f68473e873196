"""The controller: gives claimed tasks to the executors of its host, on their asking.

One NextWork:
1. checks the request, and hands back the claims of an answer that never arrived (answers.py),
2. waits for popped ids (poller.py),
3. claims them in the executor's name (claims.py), as far as this host keeps their lambda in no quarantine (quarantine.py),
4. numbers the answer, so that the next call can acknowledge it.

All it holds is popped ids and unacknowledged answers; whatever becomes of it, the store consumer finds those tasks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from atf.config.settings import ControllerSettings, Timing
from atf.log import get_logger
from atf.metrics.metrics import Metrics
from atf.rpc import api, controller_pb2 as c
from atf.runtime import Runtime, end
from atf.store.claim_pause import PauseLog
from atf.store.store import Store
from atf.task import US

from .answers import Answers
from .claims import ClaimCalls, refs
from .cores import Cores
from .demand import Call, Lambdas, lambda_of
from .host_state import HostState
from .lambda_sets import LambdaSets, NamedLambdas
from .losses import Death, report_death
from .poller import Poller
from .quarantine import EVERYTHING, Quarantine
from .reports import Reports
from .requests import check_host, check_request
from .run_metrics import RunMetrics
from .starts import Starts

_log = get_logger(duty="next_work")


class ControllerService:
    """api.Controller.

    Args:
        store: where the tasks are.
        hsc: takes claims and what becomes of them.
        settings: the controller's.
        timing: how long leases last.
        runtime: clocks, chance, spawning.
        host: by what name others know it.
        guarded: ids of the executors whose guards run here. These are here until they die, however long they ask for nothing.
        starts: what is known of the starts of those; it is told who asks for work.
        metrics: where it is counted how runs went.
    """

    def __init__(
        self,
        *,
        store: Store,
        hsc: api.HSC,
        settings: ControllerSettings,
        timing: Timing,
        runtime: Runtime,
        host: str = "",
        guarded: Collection[str] = frozenset(),
        starts: Starts | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._runs = RunMetrics(metrics or Metrics())
        self._starts = starts or Starts(0)
        self._runtime = runtime
        self._store = store
        self._host = host
        self._quarantine = Quarantine()
        self._fits = runtime.boot_id(), settings.pool, timing.heartbeat_timeout_us
        self._draining = asyncio.Event()
        self._open: dict[tuple[str, str], Call] = {}
        self._answers = Answers()
        self._named = LambdaSets()
        self._reports = Reports(hsc=hsc, timing=timing, runtime=runtime, lost=self._runs.lost)
        self._claims = ClaimCalls(
            hsc=hsc, reports=self._reports, timing=timing, runtime=runtime, paused=store.pause_met.set
        )
        self.poller = Poller(
            store=store,
            host=host,
            settings=settings,
            runtime=runtime,
            may_pop=self._claims.possible,
            give_back=self._reports.hand_back_unclaimed,
            may_run=self._may_run,
            heard=self._heard,
        )
        self.cores = Cores(
            store=store,
            name=settings.pool,
            runtime=runtime,
            rearrange=self.poller.rearrange,
            hungry=self.poller.waits,
            guarded=guarded,
        )
        self.state = HostState(
            store=store,
            pool=settings.pool,
            host=host,
            runtime=runtime,
            starts=self._starts,
            quarantine=self._quarantine,
            here=self.cores.here,
            executors=lambda: len({*guarded, *(executor_id for executor_id, _ in self._open)}),
            rearrange=self.poller.rearrange,
        )

    async def run(self) -> None:
        """Pops for the open calls until cancelled."""
        beside = [
            self._runtime.spawn(self.cores.run(), name="cores"),
            self._runtime.spawn(self.state.run(), name="serve"),
            self._runtime.spawn(PauseLog(self._store, self._runtime).run(), name="pauses of claims"),
        ]
        try:
            await self.poller.run()
        finally:
            await end(beside)
            await self._claims.end()
            await self._reports.end()

    async def next_work(self, request: c.NextWorkRequest, *, timeout: float = 70) -> c.NextWorkReply:
        """Waits for work for an executor, at most wait_us.

        Raises:
            InvalidArgument, FailedPrecondition: see requests.py.
        """
        check_request(request)
        check_host(request, *self._fits)
        now = self._runtime.monotonic()
        self._starts.called(request.executor_id)
        asked = self._named.asked(request, now)
        if asked is None:
            return c.NextWorkReply()
        reply = await self._take_call(request, asked, now)
        reply.set = request.set
        return reply

    async def report_runs(self, request: c.ReportRunsRequest, *, timeout: float = 10) -> c.ReportRunsReply:
        """Counts how an executor's runs went.

        Raises:
            InvalidArgument: see run_metrics.py.
        """
        self._runs.take(request)
        return c.ReportRunsReply()

    async def _take_call(self, request: c.NextWorkRequest, asked: NamedLambdas, now: float) -> c.NextWorkReply:
        executor_id = request.executor_id
        undelivered = self._answers.called(executor_id, request.stream, request.call, request.ack, now)
        if undelivered is None:
            return c.NextWorkReply(draining=self._draining.is_set())
        self._reports.hand_back(executor_id, refs(undelivered))
        if request.draining:
            self.cores.left(executor_id)
            return c.NextWorkReply(draining=self._draining.is_set())
        call = Call(
            executor_id,
            request.stream,
            asked.lambdas,
            request.max_tasks,
            signatures=asked.signatures,
            known=asked.signed,
        )
        self.state.asked(call.lambdas, now, new=self.cores.called(executor_id, call.lambdas, call.signed))
        key = executor_id, request.stream
        if (earlier := self._open.pop(key, None)) is not None:
            earlier.dismiss()
        self._open[key] = call
        try:
            return await self._answer(call, now + request.wait_us / US)
        finally:
            if self._open.get(key) is call:
                del self._open[key]

    def executor_died(self, death: Death) -> None:
        """An executor is verifiably dead: sees to it that all it held runs again, or counts as what it was."""
        for key in [key for key in self._open if key[0] == death.executor_id]:
            self._open.pop(key).dismiss()
        self.cores.left(death.executor_id)
        self._named.left(death.executor_id)
        if self.state.drains:
            self.state.tell()  # whoever waits for it sees at once how many are left
        now = self._runtime.monotonic()
        undelivered = refs(self._answers.died(death.executor_id, now))
        report_death(death, undelivered, self._reports)
        name = self._quarantine.died(death, undelivered, now)
        if name is not None:
            (found,) = (each for each in self._quarantine.listing(now) if each.lambda_name == name)
            _log.warning(
                "quarantined",
                what="this host" if name == EVERYTHING else name,
                seconds=round(found.until - now, 3),
                deaths=found.deaths,
                why=death.why,
            )
            self.state.tell()

    async def drain(self, seconds: float = 5.0) -> None:
        """Pops no more, answers all calls with `draining`, and hands back the ids it holds.

        Args:
            seconds: how long to wait at most until the HSC has taken them; it may be down.
        """
        self._draining.set()
        await self.poller.close()
        await self.cores.leave()
        await self.flush(seconds)

    async def flush(self, seconds: float) -> None:
        """Waits until the HSC knows all it has to know, at most so long."""
        until = self._runtime.monotonic() + seconds
        await self._claims.flush(seconds)
        left = await self._reports.flush(max(until - self._runtime.monotonic(), 0))
        if left:
            _log.warning("reports not delivered; the store consumer takes over", reports=left)

    def _may_run(self, executor_id: str, lambdas: Lambdas) -> Lambdas:
        if self.state.drains:
            return frozenset()
        return self._quarantine.may_run(self.cores.may_run(executor_id, lambdas), self._runtime.monotonic())

    def _heard(self, name: str) -> None:
        if name[:1] == "&":
            if name[1:] == self._host:
                self.state.tell()
        elif name[:1] == "%":
            self.cores.changed(name[1:])
        else:
            self.cores.notified(lambda_of(name))

    # --- steps -------------------------------------------------------------------------------------------------------

    async def _answer(self, call: Call, until: float) -> c.NextWorkReply:
        while not call.dismissed.is_set() and not self._draining.is_set():
            await self.poller.fill(call, until)
            if not call.ids:
                break
            ids, call.ids = self._admitted(call.ids), {}
            if not ids:
                continue
            grant = await self._claims.claim(call.executor_id, ids, call.signatures)
            if grant is None:
                break
            if grant.deferred:
                self.poller.put_back({task_id: ids[task_id] for task_id in grant.deferred if task_id in ids})
            if call.dismissed.is_set() or self._draining.is_set():
                self._reports.hand_back(call.executor_id, refs(grant.claims))
            elif grant.claims:
                all_claimed = len(grant.claims) == len(ids)
                queues = ids if all_claimed else {each.task_id: ids[each.task_id] for each in grant.claims}
                handed = {lambda_of(each) for each in set(queues.values())}
                self.cores.handed_over(call.executor_id, handed, full=len(ids) >= call.room)
                self._quarantine.handed(call.executor_id, queues, self._runtime.monotonic())
                number = self._answers.answer(call.executor_id, call.call_stream, grant.claims)
                _log.debug("next_work", executor=call.executor_id, number=number, tasks=len(grant.claims))
                return c.NextWorkReply(number=number, claims=grant.claims, claim_sent_us=grant.sent_us)
            if self._runtime.monotonic() >= until:
                break
        return c.NextWorkReply(draining=self._draining.is_set())

    def _admitted(self, ids: dict[str, str]) -> dict[str, str]:
        """Without those of which this host tries a single one first: others may have them."""
        refused, tries = self._quarantine.admit(ids, self._runtime.monotonic())
        if tries:
            self.state.tell()
        if refused:
            self._reports.hand_back_unclaimed(refused)
            ids = {task_id: queue for task_id, queue in ids.items() if task_id not in set(refused)}
        return ids
