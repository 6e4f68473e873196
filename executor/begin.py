"""The last look before a lambda starts: nothing may have changed that forbids it, and enough of its lease must be left."""

from __future__ import annotations

from collections.abc import Callable

from atf.config import Timing
from atf.errors import ConfigError
from atf.runtime import Runtime

from .held import HeldTask, Ledger
from .outcome import Stopped

Begin = Callable[[HeldTask], bool]
"""Says whether the task's lambda starts now. False: with an outcome, it has ended without running; without, it is lost
or has too little of its lease left."""

_LEAST_SLACK_S = 0.05


class LastLook:
    """A Begin; called by the lane that is about to run the task.

    Raises:
        ConfigError: the times leave a fresh lease no room: a task would hardly ever start.
    """

    def __init__(self, ledger: Ledger, timing: Timing, runtime: Runtime) -> None:
        slack = timing.heartbeat_timeout - timing.start_margin
        if slack < _LEAST_SLACK_S:
            raise ConfigError(
                f"heartbeat_timeout = {timing.heartbeat_timeout} s leaves {slack:.3f} s beyond the"
                f" {timing.start_margin} s that a starting task needs. Raise it by {_LEAST_SLACK_S - slack:.3f} s at least"
            )
        self._slack_us = round(slack * 1_000_000)
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
        if task.stopping:
            task.outcome = Stopped("cancelled before it started")
        return task.stopping
