"""Guards one worker: watches it, and makes sure that it is gone before anybody may run its tasks again.

1. kills the worker and all that it started before the oldest of its leases can end, or when it takes far too much memory, and where its
   apps are not imported in time
2. lets it drain when a signal asks for it, when the controller asks for it or is gone, and when it takes too much memory
3. kills it when it has not drained in time, or when somebody asks twice
4. once the whole group is dead, says what it held, and whether its end was ordered: what a drain cuts short counts nothing

Starting the worker is main.py's. It loads neither gRPC nor user code, so that nothing can keep it from killing in time. It runs one worker and ends with it.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from atf.config.settings import ExecutorSettings, Timing
from atf.executor.table import SlotState, Stage, Table
from atf.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_FORKED, EXIT_OK, EXIT_UNAVAILABLE
from atf.process.clocks import ProcessClocks
from atf.process.stops import AT_ONCE, StopRequests
from atf.task import US

from .group import Group
from .start_notes import StartNotes
from .worker_end import CRASHES, WorkerEnd, reason_of

TICK_S: Final = 0.5
"""Seconds between two looks at the worker while nothing happens."""
SLOW_S: Final = 30.0
"""Seconds of a start after which it is said where it stands, and between two such lines."""
DRAIN_SLACK_S: Final = 2.0
"""Seconds that a draining worker has beyond drain_timeout, at which it ends by itself."""
_MIB: Final = 1 << 20
_STARTS: Final = frozenset({Stage.IMPORTS, Stage.JOINS})
_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_UNASKED: Final = "ended with exit code 0 without being asked to"


class KillReason(NamedTuple):
    """Why a worker must be killed now."""

    why: str
    ordered: bool = False
    """As in WorkerEnd."""


@dataclass
class Guard:
    """The watch over one worker."""

    group: Group
    """The worker and all that it started."""
    table: Table
    """What it holds."""
    let_go: Callable[[], None]
    """Tells it to drain; called once at most."""
    drains: Callable[[str, int], None]
    """Told why the worker drains, once, and how many tasks it had started then."""
    notes: StartNotes
    """What the worker notes while it starts."""
    slow: Callable[[str], None]
    """Told where the worker stands while its start takes long."""
    settings: ExecutorSettings
    timing: Timing
    clocks: ProcessClocks

    def __post_init__(self) -> None:
        timing = self.timing
        # The kill must be complete, by a clock that may run slow, before the store can think the lease over.
        self._lease_us = round((timing.heartbeat_timeout - timing.kill_time - timing.drift) * US)
        self._asked = StopRequests()
        self._asked_to_end = False
        self._began = self._said_slow = self.clocks.monotonic()
        self._drain_by, self._drain_why = 0.0, ""

    @property
    def draining(self) -> bool:
        """Whether the worker was told to drain, or does so by itself."""
        return self._drain_by > 0

    def drain(self, why: str) -> None:
        """Tells the worker to drain. It learns so from the pipe, whatever its lambdas do with signals. May be called again."""
        if not self.draining:
            self._drain_by = self.clocks.monotonic() + self.settings.drain_timeout + DRAIN_SLACK_S
            self._drain_why = why
            self.let_go()
            self.drains(why, sum(each.state is not SlotState.HELD for each in self.table.entries()))

    def signalled(self, number: int) -> KillReason | None:
        """Takes a signal that asks to end."""
        self._asked_to_end = True
        if self._asked.at_once(number, self.clocks.monotonic()):
            return KillReason("asked twice to end", ordered=True)
        self.drain(f"{signal.Signals(number).name} asks for it")
        return None

    def told(self, word: bytes) -> KillReason | None:
        """Takes the controller's word (atf/process/stops.py); none: the controller is gone."""
        self._asked_to_end = True
        if AT_ONCE in word:
            return KillReason("its controller was asked twice to end", ordered=True)
        self.drain("its controller asks for it" if word else "its controller is gone")
        return None

    def look(self) -> KillReason | None:
        """Looks at the worker, and has it drain where that is due. Returns why it must be killed now; None: it need not."""
        settings, stage = self.settings, self.table.stage
        if stage in _STARTS:
            if verdict := self._look_at_start(stage):
                return verdict
        elif stage is not Stage.WORKS:
            self.drain("it drains by itself")
        oldest = self.table.oldest_lease_us
        if oldest and self.clocks.boottime_us() >= oldest + self._lease_us:
            return KillReason("its leases were about to end: it was frozen or starved")
        if settings.max_rss_mib or settings.rss_kill_mib:
            taken = self.group.memory_bytes() // _MIB
            if settings.rss_kill_mib and taken >= settings.rss_kill_mib:
                return KillReason(f"it took {taken} MiB of memory; max_rss_kill_mib is {settings.rss_kill_mib}")
            if settings.max_rss_mib and taken >= settings.max_rss_mib:
                self.drain(f"it took {taken} MiB of memory; max_rss_mib is {settings.max_rss_mib}")
        if self.draining and self.clocks.monotonic() >= self._drain_by:
            return KillReason(f"it did not drain within {settings.drain_timeout:g} s", ordered=True)
        return None

    def _look_at_start(self, stage: Stage) -> KillReason | None:
        """Looks at a worker that does not work yet."""
        now, limit = self.clocks.monotonic(), self.settings.start_timeout
        if stage is Stage.IMPORTS and self._asked_to_end:  # it does not listen, and nothing is lost
            return KillReason("it was asked to end while it imported its apps", ordered=True)
        if stage is Stage.IMPORTS and limit and now - self._began >= limit:
            return KillReason(f"importing its apps took longer than {limit:g} s (start_timeout){self._at_place()}")
        if now - self._said_slow >= SLOW_S:
            self._said_slow = now
            at = self._at_place() if stage is Stage.IMPORTS else ""
            self.slow(
                f"it is still {self.notes.last() or 'loading Python'}, {now - self._began:.0f} s after its start{at}"
            )
        return None

    def _at_place(self, *, crash: bool = False) -> str:
        place = self.notes.place(crash=crash)
        return f"; at {place}" if place else ""

    def wait_s(self) -> float:
        """Seconds until the next look."""
        waits = [TICK_S]
        if oldest := self.table.oldest_lease_us:
            waits.append((oldest + self._lease_us - self.clocks.boottime_us()) / US)
        if self.draining:
            waits.append(self._drain_by - self.clocks.monotonic())
        return max(0.0, min(waits))

    def watch(self, signals: int, controller: int | None) -> WorkerEnd:
        """Watches until the worker and all that it started are gone.

        Args:
            signals: a descriptor that carries the numbers of the signals this process gets.
            controller: a descriptor that carries the controller's word, and ends when the controller does; None: nobody started this guard.
        """
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        if controller is not None:
            poll.register(controller, select.POLLIN | select.POLLHUP)
        verdict: KillReason | None = None
        while verdict is None and not self.group.ended():
            for descriptor, _ in poll.poll(self.wait_s() * 1000 + 1):
                data = os.read(descriptor, 512)
                if descriptor == controller:
                    if not data:
                        poll.unregister(descriptor)
                    verdict = verdict or self.told(data)
                    continue
                for number in data:
                    if number in _STOPS:
                        verdict = verdict or self.signalled(number)
            verdict = verdict or (None if self.group.ended() else self.look())
        # Also if it ended by itself: what its lambdas have started must not outlive it.
        code = self.group.kill()
        code = 128 - code if code < 0 else code
        return self.ended(code, verdict)

    def ended(self, code: int, verdict: KillReason | None) -> WorkerEnd:
        """How the worker ended, now that it has."""
        stage = self.table.stage
        cut = stage is Stage.CUTS
        if verdict is not None and verdict.ordered and stage is Stage.IMPORTS:
            return WorkerEnd(EXIT_OK, verdict.why, ordered=True)
        failed = self._failed_start(code, verdict)
        unasked = code == EXIT_OK and stage is Stage.WORKS and not self.draining  # user code ended the process
        code = code or (EXIT_FAILED if failed or unasked else EXIT_OK)
        if verdict is not None:
            return WorkerEnd(code, f"killed: {verdict.why}", verdict.ordered or cut, failed)
        at = self._at_place(crash=True) if code in CRASHES else ""
        error = self.notes.error() if EXIT_OK < code < EXIT_FORKED else ""
        why = failed or (_UNASKED if unasked else error or f"{reason_of(code)}{at}")
        return WorkerEnd(code, f"{why}, and cut what still ran" if cut else why, cut, failed)

    def _failed_start(self, code: int, verdict: KillReason | None) -> str:
        """Why the worker never came to work; empty: it did, or was asked to end."""
        starts = self.table.stage in _STARTS
        if self._asked_to_end or not (starts or code in {EXIT_BAD_INPUT, EXIT_UNAVAILABLE}):
            return ""
        if verdict is not None:
            return f"killed: {verdict.why}"
        if error := self.notes.error():
            return error
        if self.draining:
            return self._drain_why
        did = f" while {last}" if (last := self.notes.last()) and starts else ""
        if code in CRASHES:
            return f"{reason_of(code)}{did}{self._at_place(crash=True)}"
        if code == 128 + signal.SIGKILL:
            return f"{reason_of(code)}{did}. Where nobody did that, the kernel has, for memory"
        lines = "; its own lines may say why" if code in {EXIT_BAD_INPUT, EXIT_UNAVAILABLE} else ""  # codes of ours
        return f"{reason_of(code) if code > EXIT_OK else 'ended with exit code 0'}{did}{lines}"
