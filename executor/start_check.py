"""The last look before a lambda starts: nothing may have changed that forbids it, and enough of its lease must be left."""

from __future__ import annotations

from collections.abc import Callable

from atf.config.settings import Timing
from atf.runtime import Runtime
from atf.task import US

from .held import HeldTask, Ledger
from .outcome import RunStopped

MayStart = Callable[[HeldTask], bool]
"""Says whether the task's lambda starts now. False: with an outcome, it has ended without running; without, it is lost
or has too little of its lease left."""


class StartCheck:
    """A MayStart; called by the worker that is about to run the task."""

    def __init__(self, ledger: Ledger, timing: Timing, runtime: Runtime) -> None:
        self._slack_us = round((timing.heartbeat_timeout - timing.start_margin) * US)
        self._ledger = ledger
        self._boottime_us = runtime.boottime_us
        self._monotonic = runtime.monotonic

    def __call__(self, task: HeldTask) -> bool:
        if task.lost or self._stopped(task) or self._boottime_us() > task.lease_us + self._slack_us:
            return False
        task.started_at = self._monotonic()
        self._ledger.start(task)
        # Once more, now that `started` is set: whoever sets one of these from here on sees that it runs (see HeldTask).
        return not task.lost and not self._stopped(task)

    @staticmethod
    def _stopped(task: HeldTask) -> bool:
        if task.cancelled:
            task.outcome = RunStopped("cancelled before it started", began=False)
        return task.cancelled
