"""Counts how runs went, by lambda, and tells the controller once a second, which exports it: an executor has no port of its own.

What a report carries is counted once: a report that was not answered is sent again as it was, under its number. What an executor has not told when it is
killed is lost, a second at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from atf.errors import AtfError, DeadlineExceeded, Unavailable
from atf.log import get_logger
from atf.metrics.buckets import RUN_SECONDS, SECONDS
from atf.metrics.metrics import Histogram
from atf.rpc import controller_pb2 as c, task_pb2 as t
from atf.rpc.api import Controller
from atf.runtime import Runtime
from atf.task import MAX_BATCH, US

from .held import HeldTask
from .outcome import DoesNotFit, GaveUp, HandedBack, Outcome, Returned, RunFailed, RunStopped, RunTimedOut

EVERY_S: Final = 1.0
"""Seconds from the end of a run to the report of it."""
CALL_S: Final = 5.0
"""Seconds until a report without an answer is sent again."""
NUMBERS: Final[dict[type[Outcome], int]] = {
    Returned: t.SUCCEEDED,
    RunFailed: t.FAILED,
    GaveUp: t.FAILED_FATAL,
    RunTimedOut: t.TIMED_OUT,
    RunStopped: t.STOPPED,
    HandedBack: t.HANDED_BACK,
    DoesNotFit: t.MISFIT,
}
_log = get_logger(duty="report_runs")


class _LambdaCounts:
    """How the runs of a lambda went since the last report."""

    __slots__ = ("outcomes", "run_times", "start_delays")

    def __init__(self) -> None:
        self.outcomes = [0] * (max(NUMBERS.values()) + 1)
        self.start_delays = Histogram(SECONDS)
        self.run_times = Histogram(RUN_SECONDS)

    def message(self, name: str) -> c.LambdaRuns:
        """As it is reported."""
        delays, times = self.start_delays, self.run_times
        return c.LambdaRuns(
            **{"lambda": name},
            outcomes=self.outcomes,
            start_delays=delays.counts,
            start_delays_us=round(delays.total * US),
            run_times=times.counts,
            run_times_us=round(times.total * US),
        )


class RunReports:
    """The reports of one executor."""

    def __init__(self, executor_id: str, controller: Controller, runtime: Runtime) -> None:
        self._executor_id, self._controller, self._runtime = executor_id, controller, runtime
        self._counts: dict[str, _LambdaCounts] = {}
        self._some = asyncio.Event()
        self._number = 0
        self._unanswered: c.ReportRunsRequest | None = None

    def add(self, tasks: Iterable[HeldTask]) -> None:
        """Counts runs that have ended; each has an outcome."""
        for task in tasks:
            if not task.overrun:
                self._count(task, NUMBERS[type(task.outcome)], task.ended_at)  # type: ignore[index]

    def overran(self, task: HeldTask) -> None:
        """Counts a run that does not end; this process ends for it."""
        self._count(task, t.TIMED_OUT if task.timed_out else t.STOPPED, self._runtime.monotonic())

    def _count(self, task: HeldTask, outcome: int, ended_at: float) -> None:
        counts = self._counts.get(task.lambda_name)
        if counts is None:
            counts = self._counts[task.lambda_name] = _LambdaCounts()
            self._some.set()
        counts.outcomes[outcome] += 1
        if not task.started:
            return
        counts.run_times.observe(ended_at - task.started_at)
        if task.run == 1:
            # The token's counter is the instant of the claim by the store's clock: no other clock is compared with that.
            until_claimed = max(0, task.counter - task.scheduled_at_us) / US
            counts.start_delays.observe(until_claimed + task.started_at - task.waiting_since)

    async def run(self) -> None:
        """Reports until it is cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(EVERY_S)
            await self.send(CALL_S)

    async def send(self, seconds: float) -> None:
        """Sends one report, if there is something to tell. What is not answered in time is sent again by the next call."""
        request = self._unanswered or self._next()
        if request is None:
            return
        self._unanswered = request
        self._some.set()
        try:
            async with asyncio.timeout(seconds):
                await self._controller.report_runs(request, timeout=seconds)
        except (TimeoutError, Unavailable, DeadlineExceeded):
            return
        except AtfError as error:  # a controller of an earlier release knows no reports
            _log.debug("refused by the controller", error=str(error))
        self._unanswered = None
        if not self._counts:
            self._some.clear()

    def _next(self) -> c.ReportRunsRequest | None:
        names = list(self._counts)[:MAX_BATCH]
        if not names:
            return None
        self._number += 1
        runs = [self._counts.pop(name).message(name) for name in names]
        return c.ReportRunsRequest(executor_id=self._executor_id, number=self._number, runs=runs)
