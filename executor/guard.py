"""The guard of one worker: watches it, and makes sure that it is gone before anybody may run its tasks again.

1. kills the worker and all that it started before the oldest of its leases can end, or when it takes too much memory
2. lets it drain on SIGTERM and SIGINT, and when the controller that started the guard is gone
3. once the whole group is dead, says what it held

Starting the worker is main.py's. It loads neither gRPC nor user code, so that nothing can keep it from killing in time. It runs one worker and ends with it.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from typing import Any, Final

from atf.config import ExecutorSettings, Timing
from atf.exits import EXIT_BAD_INPUT, EXIT_FORKED, EXIT_NO_HEARTBEAT, EXIT_OK, EXIT_OVERRUN
from atf.runtime import Runtime
from atf.task import US

from .group import Group
from .table import SlotState, Table

TICK_S: Final = 0.5
"""Seconds between two looks at the worker while nothing happens."""
DRAIN_SLACK_S: Final = 2.0
"""Seconds that a draining worker has beyond drain_timeout, at which it ends by itself."""
_MIB: Final = 1 << 20
_WHY: Final = {
    EXIT_OK: "drained",
    EXIT_BAD_INPUT: "refused to start; its own lines say why",
    EXIT_FORKED: "came back from a fork within a lambda",
    EXIT_NO_HEARTBEAT: "could not keep its leases",
    EXIT_OVERRUN: "a lambda did not end when it had to",
}


class Guard:
    """The watch over one worker.

    Args:
        group: the worker and all that it starts.
        table: what it holds.
        let_go: tells it to drain; called once at most.
        settings: drain_timeout and max_rss_mib.
        timing: the arithmetic of leases.
        runtime: clocks.
    """

    def __init__(
        self,
        group: Group,
        table: Table,
        let_go: Callable[[], None],
        *,
        settings: ExecutorSettings,
        timing: Timing,
        runtime: Runtime,
    ) -> None:
        self._group = group
        self._table = table
        self._let_go = let_go
        self._settings = settings
        # The kill must be complete, by a clock that may run slow, before the store can think the lease over.
        self._lease_us = round((timing.heartbeat_timeout - timing.kill_time - timing.drift) * US)
        self._runtime = runtime
        self._drain_by = 0.0

    @property
    def draining(self) -> bool:
        """Whether the worker was told to drain."""
        return self._drain_by > 0

    def drain(self) -> None:
        """Tells the worker to drain. It learns so from the pipe, whatever its lambdas do with signals."""
        if not self.draining:
            self._drain_by = self._runtime.monotonic() + self._settings.drain_timeout + DRAIN_SLACK_S
            self._let_go()

    def verdict(self) -> str:
        """Why the worker must be killed now; empty: it need not."""
        oldest = self._table.oldest_lease_us
        if oldest and self._runtime.boottime_us() >= oldest + self._lease_us:
            return "its leases were about to end: it was frozen or starved"
        bound = self._settings.max_rss_mib
        if bound and (taken := self._group.memory_bytes() // _MIB) >= bound:
            return f"it took {taken} MiB of memory; max_rss_mib is {bound}"
        if self.draining and self._runtime.monotonic() >= self._drain_by:
            return f"it did not drain within {self._settings.drain_timeout:g} s"
        return ""

    def wait_s(self) -> float:
        """Seconds until the next look."""
        waits = [TICK_S]
        if oldest := self._table.oldest_lease_us:
            waits.append((oldest + self._lease_us - self._runtime.boottime_us()) / US)
        if self.draining:
            waits.append(self._drain_by - self._runtime.monotonic())
        return max(0.0, min(waits))

    def watch(self, signals: int, controller: int | None) -> tuple[int, str]:
        """Watches until the worker and all that it started are gone.

        Args:
            signals: a descriptor that carries the numbers of the signals this process gets.
            controller: a descriptor that ends when the controller does; None: nobody started this guard.

        Returns:
            The worker's exit code, 128 + n for signal n, and why it ended.
        """
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        if controller is not None:
            poll.register(controller, select.POLLIN | select.POLLHUP)
        why = ""
        while not why and not self._group.ended():
            for descriptor, _ in poll.poll(self.wait_s() * 1000 + 1):
                data = os.read(descriptor, 512)
                if descriptor == controller:
                    if not data:
                        poll.unregister(descriptor)
                        self.drain()
                    continue
                for number in data:
                    if number in {signal.SIGTERM, signal.SIGINT}:
                        why = "asked twice to end" if self.draining else ""
                        self.drain()
            why = why or ("" if self._group.ended() else self.verdict())
        # Also if it ended by itself: what its lambdas have started must not outlive it.
        code = self._group.kill()
        code = 128 - code if code < 0 else code
        return code, f"killed: {why}" if why else _reason(code)


def death(executor_id: str, pid: int, code: int, why: str, table: Table) -> dict[str, Any]:
    """The event that says what a dead worker held."""
    claims: dict[SlotState, list[list[Any]]] = {state: [] for state in SlotState}
    suspects = []
    for entry in table.entries():
        claim: list[Any] = [entry.task_id, entry.counter, entry.nonce]
        if entry.state is SlotState.TIMED_OUT:
            claim += [entry.retry_in_us, entry.error]
        claims[entry.state].append(claim)
        if entry.suspect and entry.state is SlotState.STARTED:
            suspects.append(entry.task_id)
    return {
        "event": "dead",
        "executor": executor_id,
        "pid": pid,
        "code": code,
        "why": why,
        "held": claims[SlotState.HELD],
        "started": claims[SlotState.STARTED],
        "suspects": suspects,
        "timed_out": claims[SlotState.TIMED_OUT],
        "stopped": claims[SlotState.STOPPED],
    }


def _reason(code: int) -> str:
    if code > 128:
        name = signal.Signals(code - 128).name if code - 128 in list(signal.Signals) else f"signal {code - 128}"
        return f"killed by {name}"
    return _WHY.get(code, f"ended with exit code {code}")
