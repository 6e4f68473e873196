"""An executor: the pipeline of its tasks, and what interrupts it, from the first call for work to the end of a drain.

It takes everything from its constructor and runs on one event loop; the process around it is worker_main.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from atf.calls.retry import Trouble
from atf.codec.cipher import cipher_of
from atf.config.settings import ExecutorSettings, Timing
from atf.log import get_logger
from atf.rpc.api import HSC, Controller
from atf.runtime import Runtime, end
from atf.sdk.lambdas import Lambda

from .deadlines import Deadlines
from .fetch import LEAVE_S, Asker, fetches
from .first_time import FirstTimes
from .given_up import GivenUp
from .heartbeat import Heard, Heartbeats
from .held import HeldTask, Ledger
from .interrupts import Interrupts
from .isolation.runs import IsolatedRuns
from .perform import Performer, StartCheck
from .pipeline import Pipeline
from .prefetch import Prefetch
from .report import Reporter
from .run_reports import RunReports
from .table import Table
from .workers import Workers

_log = get_logger(duty="executor")


async def _no_hooks(_within_s: float) -> None:
    """There are no stop hooks."""


class Executor:
    """Runs the tasks of one executor.

    Args:
        executor_id: new for every process.
        lambdas: by name; all that it announces.
        controller: gives work.
        hsc: takes results and what is handed back.
        workers: where lambdas run.
        table: where it writes what it holds, for its guard.
        settings: bounds and graces.
        timing: the arithmetic of leases.
        runtime: clocks, chance, spawning.
        isolated: runs lambdas with isolate=True in processes of their own; None: they run in workers like all others.
        drains: called when a drain has begun, so that the guard learns of it.
        stop_hooks: called once nothing runs any more, with the seconds that are left of the drain.

    Attributes:
        ledger: what it holds.
        pipeline: the way of its tasks.
        interrupts: what cuts into that.
    """

    def __init__(
        self,
        *,
        executor_id: str,
        lambdas: Mapping[str, Lambda[..., Any]],
        controller: Controller,
        hsc: HSC,
        workers: Workers,
        table: Table,
        settings: ExecutorSettings,
        timing: Timing,
        runtime: Runtime,
        isolated: IsolatedRuns | None = None,
        drains: Callable[[], None] = lambda: None,
        stop_hooks: Callable[[float], Awaitable[None]] = _no_hooks,
    ) -> None:
        self.executor_id, self.ledger = executor_id, Ledger(table)
        self._workers, self._timing, self._runtime = workers, timing, runtime
        self.drains, self.stop_hooks = drains, stop_hooks
        self._beats: Heartbeats | None = None
        first_times = FirstTimes(executor_id=executor_id, hsc=hsc, bridge=workers.bridge, runtime=runtime)
        self._performer = Performer(
            lambdas, runtime, first_times.of, self.ledger.draining, isolated, cipher=cipher_of(settings.codec_keys)
        )
        self.deadlines = Deadlines(self.ledger, stop_grace=settings.stop_grace, runtime=runtime)
        self.interrupts = Interrupts(self.ledger, workers, self._performer, self.deadlines, settings, runtime)
        self._given_up = GivenUp(executor_id, hsc, timing.heartbeat_timeout, runtime)
        asker = Asker(
            executor_id,
            {name: each.digest for name, each in lambdas.items()},
            controller,
            timing.heartbeat_timeout_us,
            runtime,
            Trouble(get_logger(duty="fetch"), "controller"),
            self._given_up,
            settings.pool,
        )
        prefetch = Prefetch()
        self._run_reports = RunReports(executor_id, controller, runtime)
        self.pipeline = Pipeline(
            self.ledger,
            workers,
            self.deadlines,
            self.interrupts,
            Reporter(executor_id, hsc, self.ledger, prefetch, self._beat, self._run_reports, timing, runtime),
            prefetch,
            fetches(asker, {name: each.is_async for name, each in lambdas.items()}),
            timing.heartbeat_timeout_us,
            runtime,
        )

    def heartbeats(self, hsc: HSC, end: Callable[[int, str], None], heard: Heard | None = None) -> Heartbeats:
        """Makes its heartbeats, which whoever runs it runs beside it.

        Args:
            hsc: where to.
            end: ends the process with an exit code, and says why.
            heard: has `heard` called on the executor's loop, where they run on another one.
        """
        self._beats = Heartbeats(
            self.executor_id, self.ledger, hsc, self._timing, self._runtime, heard or self.heard, end
        )
        return self._beats

    def _beat(self, began: Sequence[HeldTask] = ()) -> None:
        """Has a heartbeat sent now: of all claims, or only of those whose runs have `began`."""
        if self._beats is not None:
            self._beats.nudge(began)

    async def run(self) -> int:
        """Works until drained.

        Returns:
            The exit code: 0 drained; 75 a claim was lost while its `def` ran; 76 a lambda did not end. After 75 and 76 a body
            may still run: the caller MUST end the process.

        Raises:
            FailedPrecondition, Unauthenticated: as of Fetch.next.
        """
        pipeline, interrupts, spawn = self.pipeline, self.interrupts, self._runtime.spawn
        reporter = pipeline.reporter
        self._workers.open(self._performer, StartCheck(self.ledger, self._timing, self._runtime), reporter.collect)
        asking = [spawn(pipeline.ask(each), name="fetch") for each in pipeline.fetches]
        duties = [
            *asking,
            spawn(pipeline.keep_releasing(), name="release"),
            spawn(reporter.results.run(), name="set_results"),
            spawn(reporter.returns.run(), name="hand_back"),
            spawn(self._given_up.run(), name="given up"),
            spawn(self._run_reports.run(), name="report_runs"),
            spawn(self._watch(), name="deadlines"),
        ]
        draining = spawn(interrupts.draining.wait(), name="draining")
        leaving: asyncio.Task[None] | None = None
        try:
            await asyncio.wait({draining, *duties}, return_when=asyncio.FIRST_COMPLETED)
            self.drain()
            for each in asking:
                each.cancel()
            leaving = spawn(self._leave(asking), name="leave")
            await interrupts.drain_out()
            if not interrupts.aborted:
                await self.stop_hooks(interrupts.deadline - self._runtime.monotonic())
            for duty in duties:
                if duty.done() and not duty.cancelled():
                    duty.result()  # a bug, or the wrong host: it is raised here
            if not interrupts.code:
                await asyncio.gather(asyncio.wait({leaving}), self._run_reports.send(LEAVE_S))
            _log.info("drained", code=interrupts.code, **self.ledger.drained)
            return interrupts.code
        finally:
            try:
                await end([draining, *duties, *([leaving] if leaving is not None else [])])
            finally:
                self._workers.close()

    async def _leave(self, asking: Sequence[asyncio.Task[None]]) -> None:
        """Tells the controller that no more is wanted, once no call can bring more."""
        await end(asking)
        await asyncio.gather(self._given_up.told(LEAVE_S), *(each.leave() for each in self.pipeline.fetches))

    async def _watch(self) -> None:
        """Acts on what is due, whenever that is."""
        while True:
            due = self.deadlines.look()
            for task in due.timed_out:
                self.interrupts.stop(task, timed_out=True)
            for task in due.overran:
                if self.interrupts.overran(task):
                    self._run_reports.overran(task)
                    self.drain()
            if due.began:
                self._beat(due.began)
            if due.waited:
                self.pipeline.relieve()
            await self.deadlines.wait()

    # --- from outside -----------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Takes no more, hands back what has not started, lets the rest end; then `run` returns. May be called again."""
        if self.interrupts.drain():
            self._beat()
            self.drains()
            held = len(self.ledger.tasks)
            waiting = self.pipeline.empty()
            _log.info("draining", started=held - waiting, handed_back=waiting)

    def abort(self, code: int, why: str) -> None:
        """Ends `run` at once with this exit code."""
        self.interrupts.abort(code, why)

    def heard(self, lost: Sequence[HeldTask], cancelled: Sequence[HeldTask]) -> None:
        """A heartbeat was answered: these claims are not ours any more, these shall be cancelled, the others are renewed."""
        for task in lost:
            self.interrupts.lose(task)
        for task in cancelled:
            self.interrupts.stop(task, timed_out=False)
        self.pipeline.renewed()
