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
import contextlib
import re
from collections.abc import Callable, Collection
from typing import Final

from atf.config.settings import ControllerSettings, Timing
from atf.errors import AtfError, FailedPrecondition, InvalidArgument
from atf.log import get_logger
from atf.rpc import api
from atf.rpc import controller_pb2 as c
from atf.runtime import Runtime, end, happens
from atf.store.capacity import STARTS
from atf.store.claim_pause import PauseLog
from atf.store.store import Store
from atf.task import MAX_BATCH, US, check_lambda, check_name

from .answers import Answers
from .claims import ClaimCalls, refs
from .cores import Cores
from .demand import Call, Lambdas, lambda_of
from .lambda_sets import LambdaSets, NamedLambdas
from .losses import Death, report_death
from .poller import Poller
from .quarantine import EVERYTHING, Quarantine
from .reports import Reports
from .starts import Starts

MAX_WAIT_US: Final = 60 * US
MAX_LAMBDAS: Final = 4_096
"""Of one executor: so many names of the greatest length are half of what a message may have."""
_LANE: Final = re.compile(r"[a-z]{0,16}")
MAX_ACK: Final = 1 << 53
_SIGNATURE: Final = re.compile(r"[a-z0-9_-]{1,32}")

KNOWN_S: Final = 30.0
"""Seconds for which workers that said they are alive count as such."""
FAILING_KNOWN_S: Final = 300.0
"""Seconds for which it is known why none can start here: a controller that has given up is not forgotten before somebody has looked."""

_DRAINING_S: Final = 1.0
"""Seconds between two times that a host which drains says how many executors are left: somebody waits for it."""

ASKED_S: Final = 2 * MAX_WAIT_US / US
"""Seconds after its last call that an executor's lambdas count as served here: twice what a call may wait."""

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
    ) -> None:
        self._starts = starts or Starts(0)
        self._timing = timing
        self._runtime = runtime
        self._store = store
        self._pool = settings.pool
        self._host = host
        self._guarded = guarded
        self._quarantine = Quarantine()
        self._drains = False
        self.on_drain: Callable[[bool], None] = lambda _: None
        """Called when an operator has this host drain, or take tasks again."""
        self._tell = asyncio.Event()
        self._starts.changed.append(self._tell.set)
        self._asked: dict[Lambdas, float] = {}
        """The sets of lambdas that executors here run, and when each was asked for last."""
        self._boot_id = runtime.boot_id()
        self._draining = asyncio.Event()
        self._open: dict[tuple[str, str], Call] = {}
        self._answers = Answers()
        self._named = LambdaSets()
        self._reports = Reports(hsc=hsc, timing=timing, runtime=runtime)
        self._claims = ClaimCalls(
            hsc=hsc, reports=self._reports, timing=timing, runtime=runtime, paused=store.pause_met.set
        )
        self._poller = Poller(
            store=store,
            host=host,
            settings=settings,
            runtime=runtime,
            may_pop=self._claims.possible,
            give_back=self._reports.hand_back_unclaimed,
            may_run=self._may_run,
            heard=self._heard,
        )
        self._cores = Cores(
            store=store,
            pool=settings.pool,
            runtime=runtime,
            rearrange=self._poller.rearrange,
            hungry=self._poller.waits,
            guarded=guarded,
        )

    async def run(self) -> None:
        """Pops for the open calls until cancelled."""
        beside = [
            self._runtime.spawn(self._cores.run(), name="cores"),
            self._runtime.spawn(self._stay_known(), name="serve"),
            self._runtime.spawn(PauseLog(self._store, self._runtime).run(), name="pauses of claims"),
        ]
        try:
            await self._poller.run()
        finally:
            await end(beside)
            await self._claims.end()
            await self._reports.end()

    async def _stay_known(self) -> None:
        """Says again and again that workers of this pool are alive, and at once what this host sets aside and which code is new here."""
        while True:
            now = self._runtime.monotonic()
            change = self._quarantine.next_change(now)
            self._poller.rearrange()
            await self.say_state()
            rest = _DRAINING_S if self._drains and self._executors() else KNOWN_S / 3
            await happens(self._tell, rest if change is None else min(change - now, rest))
            self._tell.clear()

    async def say_state(self) -> None:
        """Says to the store what there is to know of this host."""
        now, why_not = self._runtime.monotonic(), self._starts.to_say
        aside = {each.lambda_name: max(each.until - now, 0.0) for each in self._quarantine.listing(now)}
        known = FAILING_KNOWN_S if why_not not in {"", STARTS} else KNOWN_S
        with contextlib.suppress(AtfError):  # the poller says what is wrong with the store
            drains = await self._store.serve(
                self._pool, known, self._host, aside, self._serves(now), executors=self._executors(), why_not=why_not
            )
            self._drain_host(self._drains if drains is None else drains)

    def _drain_host(self, drains: bool) -> None:
        """What an operator wants of this host holds until the store says otherwise."""
        if drains == self._drains:
            return
        self._drains = drains
        _log.info("host drains" if drains else "host takes tasks again", host=self._host)
        self._poller.rearrange()
        self.on_drain(drains)

    def _executors(self) -> int:
        return len({*self._guarded, *(executor_id for executor_id, _ in self._open)})

    def _serves(self, now: float) -> list[str]:
        self._asked = {each: asked for each, asked in self._asked.items() if asked + ASKED_S > now}
        signed = self._cores.signed()
        unsigned = self._cores.lambdas().union(*self._asked).difference([each.partition(" ")[0] for each in signed])
        return sorted(signed | unsigned)

    async def next_work(self, request: c.NextWorkRequest, *, timeout: float = 70) -> c.NextWorkReply:
        """Waits for work for an executor, at most wait_us.

        Raises:
            InvalidArgument: a field breaks a rule.
            FailedPrecondition: the executor runs on another host, where CLOCK_BOOTTIME is another clock, or takes leases to
                last longer or shorter than they do.
        """
        self._check(request)
        now = self._runtime.monotonic()
        self._starts.called(request.executor_id)
        asked = self._named.asked(request, now)
        if asked is None:
            return c.NextWorkReply()
        reply = await self._take_call(request, asked, now)
        reply.set = request.set
        return reply

    async def _take_call(self, request: c.NextWorkRequest, asked: NamedLambdas, now: float) -> c.NextWorkReply:
        executor_id = request.executor_id
        undelivered = self._answers.called(executor_id, request.lane, request.call, request.ack, now)
        if undelivered is None:
            return c.NextWorkReply(draining=self._draining.is_set())
        self._reports.hand_back(executor_id, refs(undelivered))
        if request.draining:
            self._cores.left(executor_id)
            return c.NextWorkReply(draining=self._draining.is_set())
        call = Call(
            executor_id, request.lane, asked.lambdas, request.max_tasks, signatures=asked.signatures, known=asked.signed
        )
        if self._cores.called(executor_id, call.lambdas, call.signed) or call.lambdas not in self._asked:
            self._tell.set()
        self._asked[call.lambdas] = now
        key = executor_id, request.lane
        earlier = self._open.pop(key, None)
        if earlier is not None:
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
        self._cores.left(death.executor_id)
        self._named.left(death.executor_id)
        if self._drains:
            self._tell.set()  # whoever waits for it sees at once how many are left
        now = self._runtime.monotonic()
        undelivered = refs(self._answers.died(death.executor_id, now))
        report_death(death, undelivered, self._reports)
        name = self._quarantine.died(death, undelivered, now)
        if name is not None:
            (found,) = (each for each in self._quarantine.listing(now) if each.lambda_name == name)
            _log.warning(
                "set aside",
                what="this host" if name == EVERYTHING else name,
                seconds=round(found.until - now, 3),
                deaths=found.deaths,
                why=death.why,
            )
            self._tell.set()

    async def drain(self, seconds: float = 5.0) -> None:
        """Pops no more, answers all calls with `draining`, and hands back the ids it holds.

        Args:
            seconds: how long to wait at most until the HSC has taken them; it may be down.
        """
        self._draining.set()
        await self._poller.close()
        await self._cores.leave()
        await self.flush(seconds)

    async def flush(self, seconds: float) -> None:
        """Waits until the HSC knows all it has to know, at most so long."""
        until = self._runtime.monotonic() + seconds
        await self._claims.flush(seconds)
        left = await self._reports.flush(max(until - self._runtime.monotonic(), 0))
        if left:
            _log.warning("reports not delivered; the store consumer takes over", reports=left)

    def _may_run(self, executor_id: str, lambdas: Lambdas) -> Lambdas:
        if self._drains:
            return frozenset()
        return self._quarantine.may_run(self._cores.may_run(executor_id, lambdas), self._runtime.monotonic())

    def _heard(self, name: str) -> None:
        if name[:1] == "&":
            if name[1:] == self._host:
                self._tell.set()
        elif name[:1] == "%":
            self._cores.changed(name[1:])
        else:
            self._cores.notified(lambda_of(name))

    # --- steps -------------------------------------------------------------------------------------------------------

    def _check(self, request: c.NextWorkRequest) -> None:
        check_name(request.executor_id, "executor_id")
        if not _LANE.fullmatch(request.lane):
            raise InvalidArgument(f"lane {request.lane[:40]!r}: use at most 16 letters, a to z")
        if not 1 <= request.max_tasks <= MAX_BATCH:
            raise InvalidArgument(f"max_tasks {request.max_tasks}: use 1 to {MAX_BATCH}")
        if not 0 <= request.wait_us <= MAX_WAIT_US:
            raise InvalidArgument(f"wait_us {request.wait_us}: use 0 to {MAX_WAIT_US} (60 s)")
        if not 0 <= request.ack <= MAX_ACK:  # numbers go on from there
            raise InvalidArgument(f"ack {request.ack}: use the number of the last answer, or 0")
        if not 0 <= request.set <= MAX_ACK:
            raise InvalidArgument(f"set {request.set}: number the lambdas' sets from 1; 0 is none")
        if not request.lambdas and not request.set:
            raise InvalidArgument("lambdas: name at least one that the executor can run")
        if len(request.lambdas) > MAX_LAMBDAS:
            raise InvalidArgument(f"{len(request.lambdas)} lambdas: at most {MAX_LAMBDAS} in one executor")
        for name in request.lambdas:
            check_lambda(name)
        self._check_signatures(request)
        self._check_host(request)

    @staticmethod
    def _check_signatures(request: c.NextWorkRequest) -> None:
        if len(request.signatures) != len(request.lambdas):
            raise InvalidArgument(
                f"{len(request.signatures)} signatures of {len(request.lambdas)} lambdas: give one of each, in their order"
            )
        for each in request.signatures:
            if not _SIGNATURE.fullmatch(each):
                raise InvalidArgument(f"signature {each[:40]!r}: use 1 to 32 of the characters a-z 0-9 _ -")

    def _check_host(self, request: c.NextWorkRequest) -> None:
        if request.boot_id != self._boot_id:
            raise FailedPrecondition(
                "the executor runs on another host than this controller, or its host has been started anew since; leases are"
                " dated by the host's own clock, so each host needs a controller of its own: start one there"
            )
        if request.pool not in {"", self._pool}:
            raise FailedPrecondition(
                f"the executor belongs to the pool {request.pool[:64]!r}, and this controller to {self._pool!r}: start it with the"
                " controller's --pool, or with none"
            )
        asked_us, ours_us = request.heartbeat_timeout_us, self._timing.heartbeat_timeout_us
        if asked_us != ours_us:
            raise FailedPrecondition(
                f"the executor is set to heartbeat_timeout = {asked_us / US:g} s, and this controller to {ours_us / US:g} s: they"
                " must agree on how long a lease lasts. Start the executor with the controller's (ATF_HEARTBEAT_TIMEOUT)"
            )

    async def _answer(self, call: Call, until: float) -> c.NextWorkReply:
        while not call.dismissed.is_set() and not self._draining.is_set():
            await self._poller.fill(call, until)
            if not call.ids:
                break
            ids, call.ids = self._admitted(call.ids), {}
            if not ids:
                continue
            grant = await self._claims.claim(call.executor_id, ids, call.signatures)
            if grant is None:
                break
            if grant.deferred:
                self._poller.put_back({task_id: ids[task_id] for task_id in grant.deferred if task_id in ids})
            if call.dismissed.is_set() or self._draining.is_set():
                self._reports.hand_back(call.executor_id, refs(grant.claims))
            elif grant.claims:
                all_claimed = len(grant.claims) == len(ids)
                queues = ids if all_claimed else {each.task_id: ids[each.task_id] for each in grant.claims}
                handed = {lambda_of(each) for each in set(queues.values())}
                self._cores.handed_over(call.executor_id, handed, full=len(ids) >= call.room)
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
            self._tell.set()
        if refused:
            self._reports.hand_back_unclaimed(refused)
            ids = {task_id: queue for task_id, queue in ids.items() if task_id not in set(refused)}
        return ids
