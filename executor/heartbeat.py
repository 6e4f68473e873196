"""Sends heartbeats: one call lists every held claim, renews their leases, and brings back who lost or shall cancel what.

Between two of them a call of a few claims says which runs have just started. Owns nothing else of a task. In production it has a thread, an event loop and a connection of its own, so that no lambda and no
busy executor delays it; it hands what it heard to the executor through `heard`, and ends the process through `end`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from atf.config.settings import Timing
from atf.exits import EXIT_NO_HEARTBEAT
from atf.log import get_logger
from atf.rpc import hsc_pb2 as h
from atf.rpc.api import HSC
from atf.runtime import Runtime, happens
from atf.task import US

from .held import HeldTask, Ledger
from .output.kept_log import KeptLog

_LEAST_S: Final = 0.05
"""Seconds that a call between two heartbeats must have."""
_LOG_S: Final = 0.5
"""Seconds between two calls that say what runs have printed whose logs somebody watches."""
_LOGS_AT_ONCE: Final = 64
"""Of these, in one call; the others come with the next ones."""
STRIKES: Final = 3
"""Consecutive failures after which it ends: `start_margin` counts with as many."""

Heard = Callable[[list[HeldTask], list[HeldTask]], None]
"""Takes what an answer said: the claims that are lost, and those whose cancellation was asked for."""

_OURS: Final = frozenset({h.OK, h.CANCEL, h.WATCHED})
"""Verdicts on claims whose leases were renewed."""
_log = get_logger(duty="heartbeat")


@dataclass
class Heartbeats:
    """The heartbeats of one executor."""

    executor_id: str
    ledger: Ledger
    """What it holds."""
    hsc: HSC
    timing: Timing
    runtime: Runtime
    heard: Heard
    """Called after every answer."""
    end: Callable[[int, str], None]
    """Ends the process with an exit code, and says why; called after the third failure in a row."""

    def __post_init__(self) -> None:
        timing = self.timing
        self._last_us = round((timing.heartbeat_timeout - timing.kill_time - timing.drift) * US)
        self._strikes = 0
        self._sent_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudged = asyncio.Event()
        self._began: list[HeldTask] = []
        self._all = False
        self._stopping = False
        self._watched: dict[HeldTask, None] = {}
        """Whose logs somebody watches, as the last answers said."""
        self._look: asyncio.TimerHandle | None = None

    def nudge(self, began: Sequence[HeldTask] = ()) -> None:
        """Asks for a heartbeat now: a task waits to start with too little of its lease left, or a drain has begun. From any thread.

        Args:
            began: only of these claims, to say that their runs have started.
        """
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake, began)

    def _wake(self, began: Sequence[HeldTask]) -> None:
        self._began += began
        self._all = self._all or not began
        self._nudged.set()

    def stop(self) -> None:
        """Ends `run` soon. From any thread."""
        self._stopping = True
        self.nudge()

    async def run(self) -> None:
        """Beats until cancelled, until `stop`, or until `end`."""
        self._loop = asyncio.get_running_loop()
        self._sent_at = self.runtime.monotonic()
        while self._strikes < STRIKES:
            await self._pause()
            if self._stopping:
                return
            if self._all or self._left() <= 0:
                await self.once()
            else:
                await self._tell()

    async def once(self) -> bool:
        """One heartbeat, if anything is held. Returns whether it was answered."""
        self._nudged.clear()
        self._began, self._all = [], False
        self._sent_at = self.runtime.monotonic()
        held = self.ledger.snapshot()
        if not held:
            self._strikes = 0
            return True
        oldest_us = self.ledger.oldest_lease_us  # 0: the last one has just been released
        if oldest_us and oldest_us + self._last_us <= self.runtime.boottime_us():
            # It stood still, and its guard with it: else that would have killed it. Its tasks may run elsewhere by now.
            self._strikes = STRIKES
            self.end(EXIT_NO_HEARTBEAT, "its leases were about to end, or have ended: it stood still for too long")
            return False
        try:
            answer = await self._ask(held, self.timing.rpc_deadline)
        except Exception as error:  # noqa: BLE001  whatever it is, the leases were not renewed
            self.strike(error)
            return False
        self._strikes = 0
        self._answered(*answer)
        return True

    async def _tell(self) -> None:
        """Says of some runs alone that they have started, in the time that is left before the next heartbeat; else that says it."""
        self._nudged.clear()
        patience = min(self.timing.rpc_deadline, self._left())
        began, self._began = [task for task in self._began if task.outcome is None and not task.lost], []
        if began and patience >= _LEAST_S:
            try:
                answer = await self._ask(began, patience)
            except Exception:  # noqa: BLE001  the next one says it, and what is wrong with the HSC
                return
            self._answered(*answer)

    async def _ask(
        self, held: list[HeldTask], patience: float
    ) -> tuple[list[HeldTask], list[str], list[h.Verdict], int]:
        """Lists these claims to the HSC. What `_answered` takes."""
        said = [task.progress for task in held]
        claims = [
            h.HeldClaim(claim=task.ref(), started=task.started, progress=progress)
            for task, progress in zip(held, said, strict=True)
        ]
        logs = self._write_logs(held, claims)
        # The lease counts from here: however long the answer takes, the store's lease ends later than ours.
        sent_us = self.runtime.boottime_us()
        async with asyncio.timeout(patience):
            reply = await self.hsc.heartbeat(
                h.HeartbeatRequest(
                    executor_id=self.executor_id,
                    claims=claims,
                    heartbeat_timeout_us=self.timing.heartbeat_timeout_us,
                    draining=self.ledger.draining.is_set(),
                ),
                timeout=patience,
            )
        if len(reply.verdicts) != len(held):
            raise ValueError(f"{len(reply.verdicts)} verdicts for {len(held)} claims")
        for task, claim in zip(held, claims, strict=True):
            task.told = task.told or claim.started
        for log, told in logs:
            log.told = told
        return held, said, list(reply.verdicts), sent_us

    def _write_logs(self, held: Sequence[HeldTask], claims: Sequence[h.HeldClaim]) -> list[tuple[KeptLog, int]]:
        """Writes logs that have changed, and says how much of each the HSC knows then.

        Those that somebody watches; and those of runs that were told to end: one that does not end takes this process with it.
        """
        written: list[tuple[KeptLog, int]] = []
        for task, claim in zip(held, claims, strict=True):
            log = task.log
            if log is None or log.told == log.written or not (task.stop_at or task in self._watched):
                continue
            written.append((log, log.written))
            task.write_log(claim.log)
            if len(written) == _LOGS_AT_ONCE:
                break
        return written

    def _answered(self, held: list[HeldTask], said: list[str], verdicts: list[h.Verdict], sent_us: int) -> None:
        answers = list(zip(held, verdicts, strict=True))
        self.ledger.renew([task for task, verdict in answers if verdict in _OURS], sent_us)
        for (task, verdict), progress in zip(answers, said, strict=True):
            # UNKNOWN: the claim's part of the store is away. What was said of it is not stored, and is said again.
            if verdict != h.UNKNOWN and task.progress is progress:
                task.progress = ""
        self._watch([task for task, _ in answers], [task for task, verdict in answers if verdict == h.WATCHED])
        lost = [task for task, verdict in answers if verdict == h.LOST]
        self.heard(lost, [task for task, verdict in answers if verdict == h.CANCEL])

    def _watch(self, asked: list[HeldTask], watched: list[HeldTask]) -> None:
        """Somebody watches the logs of some of the runs that were asked of: says soon what they have printed."""
        if watched or self._watched:
            asked_now = set(asked)
            self._watched = dict.fromkeys([task for task in self._watched if task not in asked_now] + watched)
            for task in watched:
                task.kept_log().watched = True
            if self._look is None and self._loop is not None:
                self._look = self._loop.call_later(_LOG_S, self._tell_logs)

    def _tell_logs(self) -> None:
        self._look = None
        self._watched = {task: None for task in self._watched if task.outcome is None and not task.lost}
        if self._watched and self._loop is not None:
            self._look = self._loop.call_later(_LOG_S, self._tell_logs)
            if changed := [
                task for task in self._watched if task.log is not None and task.log.told != task.log.written
            ]:
                self._wake(changed)

    def strike(self, error: Exception) -> None:
        self._strikes += 1
        _log.warning("heartbeat failed", strikes=self._strikes, error=str(error) or repr(error))
        if self._strikes >= STRIKES:
            self.end(EXIT_NO_HEARTBEAT, f"{STRIKES} heartbeats in a row failed, the last: {error or repr(error)}")

    async def _pause(self) -> None:
        """Until an interval after the last sending, or a nudge. After a failure nudges wait too: each would be a strike."""
        if self._strikes:
            await asyncio.sleep(max(0.0, self._left()))
        else:
            await happens(self._nudged, max(0.0, self._left()))

    def _left(self) -> float:
        """Seconds until the next heartbeat of all claims is due."""
        return self._sent_at + self.timing.heartbeat_interval - self.runtime.monotonic()
