"""The controller: gives claimed tasks to the executors of its host, on their asking.

One NextWork:
1. checks the request (requests.py), and hands back the claims of an answer that never arrived (answers.py),
2. asks the HSC for claims in the executor's name (asks.py), as far as this host takes any (eligible.py),
3. keeps those that may run here now, and hands back the others,
4. numbers the answer, so that the next call can acknowledge it.

All it holds is open calls and unacknowledged answers. It knows the HSC and its executors, and no task store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from atf.auth.caller import permit_executor
from atf.config.settings import ControllerSettings, Timing
from atf.log import get_logger
from atf.metrics.metrics import Metrics
from atf.rpc import api, controller_pb2 as c, task_pb2 as t
from atf.runtime import Runtime
from atf.task import US

from .answers import Answers
from .asks import Asks
from .calls import OpenCall
from .eligible import Eligible
from .entrance import Entrance
from .here import ExecutorsHere
from .host_state import HostState
from .lambda_sets import LambdaSets, NamedLambdas
from .losses import Death, report_death
from .quarantine import EVERYTHING, Quarantine
from .reports import Reports
from .requests import check_enter, check_host, check_request
from .run_metrics import RunMetrics
from .starts import Starts

_log = get_logger(duty="next_work")


class ControllerService:
    """api.Controller.

    Args:
        hsc: takes and claims tasks, and takes what becomes of them.
        settings: the controller's.
        timing: how long leases last.
        runtime: clocks, chance, spawning.
        host: by what name others know it.
        guarded: ids of the executors whose guards run here. These are here until they die, however long they ask for nothing.
        starts: what is known of the starts of those; it is told who asks for work.
        metrics: where it is counted how runs went.
        entrance: lets executors in; None: everybody on this host may ask.
    """

    def __init__(
        self,
        *,
        hsc: api.HSC,
        settings: ControllerSettings,
        timing: Timing,
        runtime: Runtime,
        host: str = "",
        guarded: Collection[str] = frozenset(),
        starts: Starts | None = None,
        metrics: Metrics | None = None,
        entrance: Entrance | None = None,
    ) -> None:
        self._entrance = entrance
        self._runs = RunMetrics(metrics or Metrics())
        self._starts = starts or Starts(0)
        self._runtime = runtime
        self._quarantine = Quarantine()
        self._fits = runtime.boot_id(), settings.pool, timing.heartbeat_timeout_us
        self._draining = False
        self._open: dict[tuple[str, str], OpenCall] = {}
        self._answers = Answers()
        self._named = LambdaSets()
        self._here = ExecutorsHere(runtime, guarded)
        self._eligible = Eligible(self._quarantine, runtime)
        self._reports = Reports(hsc=hsc, timing=timing, runtime=runtime, lost=self._runs.lost)
        self._asks = Asks(
            hsc=hsc,
            eligible=self._eligible,
            pool=settings.pool,
            host=host,
            timing=timing,
            runtime=runtime,
        )
        self.state = HostState(
            hsc=hsc,
            pool=settings.pool,
            host=host,
            runtime=runtime,
            starts=self._starts,
            quarantine=self._quarantine,
            here=self._here,
            guarded=guarded,
            eligible=self._eligible,
        )

    async def run(self) -> None:
        """Reports what there is to know of the host until cancelled."""
        try:
            await self.state.run()
        finally:
            await self._reports.end()

    async def next_work(self, request: c.NextWorkRequest, *, timeout: float = 70) -> c.NextWorkReply:
        """Waits for work for an executor, at most wait_us.

        Raises:
            InvalidArgument, FailedPrecondition: see requests.py.
            PermissionDenied: another executor asks in its name.
        """
        check_request(request)
        permit_executor(request.executor_id)
        check_host(request, *self._fits)
        now = self._runtime.monotonic()
        self._starts.called(request.executor_id)
        asked = self._named.asked(request, now)
        if asked is None:
            return c.NextWorkReply()
        reply = await self._take_call(request, asked, now)
        reply.set = request.set
        return reply

    async def enter(self, request: c.EnterRequest, *, timeout: float = 10) -> t.Credential:
        """Gives an executor what it shows from now on; nothing, where callers show nothing.

        Raises:
            InvalidArgument, Unauthenticated: see entrance.py.
        """
        if self._entrance is None:
            check_enter(request)
            return t.Credential()
        return await self._entrance.enter(request)

    async def report_runs(self, request: c.ReportRunsRequest, *, timeout: float = 10) -> c.ReportRunsReply:
        """Counts how an executor's runs went.

        Raises:
            InvalidArgument: see run_metrics.py.
        """
        permit_executor(request.executor_id)
        self._runs.take(request)
        return c.ReportRunsReply()

    def executor_died(self, death: Death) -> None:
        """An executor is verifiably dead: sees to it that all it held runs again, or counts as what it was."""
        for key in [key for key in self._open if key[0] == death.executor_id]:
            self._open.pop(key).withdraw()
        self._left(death.executor_id)
        if self._entrance is not None:
            self._entrance.left(death.executor_id)
        self._named.left(death.executor_id)
        now = self._runtime.monotonic()
        undelivered = self._answers.died(death.executor_id, now)
        claims = refs(undelivered.claims)
        report_death(death, claims, self._reports)
        self._reports.give_up(death.executor_id, undelivered.nonces)
        name = self._quarantine.died(death, claims, now)
        if name is not None:
            (found,) = (each for each in self._quarantine.listing(now) if each.lambda_name == name)
            _log.warning(
                "quarantined",
                what="this host" if name == EVERYTHING else name,
                seconds=round(found.until - now, 3),
                deaths=found.deaths,
                why=death.why,
            )
            self._eligible.changed()
            self.state.tell()

    async def drain(self, seconds: float = 5.0) -> None:
        """Asks for no more, and answers all calls with `draining`.

        Args:
            seconds: how long to wait at most until the HSC has taken what it has to know; it may be down.
        """
        self._draining = True
        for call in self._open.values():
            call.withdraw()
        self.state.leaves = True
        await asyncio.gather(self.state.say(), self.flush(seconds))

    async def flush(self, seconds: float) -> None:
        """Waits until the HSC knows all it has to know, at most so long."""
        if left := await self._reports.flush(seconds):
            _log.warning("reports not delivered; the store consumer takes over", reports=left)

    # --- steps -------------------------------------------------------------------------------------------------------

    async def _take_call(self, request: c.NextWorkRequest, runs: NamedLambdas, now: float) -> c.NextWorkReply:
        executor_id, key = request.executor_id, (request.executor_id, request.stream)
        undelivered = self._answers.called(*key, request.call, request.ack, now, request.nonce)
        if undelivered is None:
            return c.NextWorkReply(draining=self._draining)
        self._reports.hand_back(executor_id, refs(undelivered))
        if (earlier := self._open.pop(key, None)) is not None:
            earlier.withdraw()
        if request.draining:
            self._left(executor_id)
            return c.NextWorkReply(draining=self._draining)
        if self._here.called(executor_id, runs):
            self.state.tell()
        call = OpenCall(
            executor_id=executor_id,
            stream=request.stream,
            nonce=request.nonce,
            runs=runs,
            room=request.max_tasks,
            since=now,
        )
        self._open[key] = call
        try:
            return await self._answer(call, now + request.wait_us / US)
        finally:
            if self._open.get(key) is call:
                del self._open[key]

    async def _answer(self, call: OpenCall, until: float) -> c.NextWorkReply:
        grant = None if self._draining else await self._asks.next_claims(call, until)
        if grant is None:
            if call.unknown and self._open.get((call.executor_id, call.stream)) is call:
                self._reports.give_up(
                    call.executor_id, [call.nonce]
                )  # else its executor does so, or its death has done it
            return c.NextWorkReply(draining=self._draining)
        claims = [] if call.withdrawn else self._eligible.admit(call.executor_id, grant.claims)
        if len(claims) < len(grant.claims):
            kept = {each.task_id for each in claims}
            self._reports.hand_back(call.executor_id, refs(each for each in grant.claims if each.task_id not in kept))
        if not claims:
            return c.NextWorkReply(draining=self._draining)
        number = self._answers.answer(call.executor_id, call.stream, claims)
        _log.debug("next_work", executor=call.executor_id, number=number, tasks=len(claims))
        return c.NextWorkReply(number=number, claims=claims, claim_sent_us=grant.sent_us)

    def _left(self, executor_id: str) -> None:
        """An executor takes no more work."""
        if self._here.left(executor_id) or self._eligible.drains:
            self.state.tell()  # whoever waits for the host to be empty sees at once how many are left


def refs(claims: Iterable[t.Claim]) -> list[t.ClaimRef]:
    """What proves claims."""
    return [t.ClaimRef(task_id=each.task_id, token=each.token) for each in claims]
