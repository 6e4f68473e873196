"""Watches the processes of a cluster whose lambdas keep a record of their runs, and strikes at them: kills, freezes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Final

from atf.cli.local.cluster import Cluster
from atf.cli.local.processes import ExecutorPids, stands_still
from atf.errors import Unavailable

from .outcome import Strike
from .record import VerifyRecord, now_us
from .record_files import pid_of
from .watch import ProcessWatch

LOOK_S: Final = 0.05


class WatchedCluster:
    """A cluster and what is seen of it.

    Attributes:
        cluster: the roles.
        record: what the lambdas wrote.
        deaths: of the processes that ran tasks, by their names in the record, and of what else was put under watch.
        strikes: what was done so far.
    """

    def __init__(self, cluster: Cluster, record: VerifyRecord) -> None:
        self.cluster, self.record = cluster, record
        self.deaths = ProcessWatch()
        self.strikes: list[Strike] = []

    def poll(self) -> None:
        """Reads the record, watches every process that has written, and closes those that are dead."""
        self.record.poll()
        for process in self.record.processes:
            self.deaths.watch(process, pid_of(process))
            if self.deaths.died_us(process):
                self.record.close(process)

    def workers(self) -> list[ExecutorPids]:
        """The executors that run now, the one that runs most tasks first."""
        self.poll()
        return sorted(self.cluster.executors(), key=lambda each: -len(self.record.open_runs(each.worker)))

    async def enough_workers(self, count: int, within: float = 60.0) -> list[ExecutorPids]:
        """Waits until so many executors run tasks.

        Raises:
            Unavailable: they do not, in time.
        """
        until = time.monotonic() + within
        while time.monotonic() < until:
            self.poll()
            writers = {pid_of(each) for each in self.record.processes}
            if len(found := [each for each in self.workers() if each.worker in writers]) >= count:
                return found
            await asyncio.sleep(LOOK_S)
        raise Unavailable(f"fewer than {count} executors run tasks after {within:g} s")

    def kill(self, role: str, what: str = "kill", number: signal.Signals = signal.SIGKILL) -> Strike:
        """Signals a role, or "store", as an accident would; it is started again. SIGKILL, unless said otherwise.

        Raises:
            ProcessLookupError: it has died meanwhile; nothing was done.
        """
        pid = self.cluster.pid(role)
        if pid:
            self.deaths.watch(f"{role}-{pid}", pid)
        strike = Strike(what, role, pid, now_us())
        self.cluster.kill(role, number)
        return self._struck(strike)

    async def kill_worker(self, worker: int) -> Strike:
        """SIGKILL to an executor's worker.

        Raises:
            ProcessLookupError: it has died meanwhile; nothing was done.
        """
        os.kill(worker, signal.SIGSTOP)  # what the record says of it then holds when it is killed
        await stands_still(worker)
        self.poll()
        strike = self._struck(Strike("kill", "executor", worker, now_us(), cut_off=list(self.record.open_runs(worker))))
        with suppress(ProcessLookupError):  # stopped, it may have been ended by its guard before
            os.kill(worker, signal.SIGKILL)
        return strike

    async def freeze(self, role: str, *pids: int) -> Strike:
        """SIGSTOP to processes; `thaw` ends it. The first one is the strike's.

        Raises:
            ProcessLookupError: one has died meanwhile; those before it stand still.
        """
        at_us = now_us()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await stands_still(pids[0])
        self.poll()
        return self._struck(Strike("freeze", role, pids[0], at_us, cut_off=list(self.record.open_runs(pids[0]))))

    def thaw(self, strike: Strike, *pids: int) -> None:
        """SIGCONT to the processes of a freeze, those that are gone left out."""
        strike.until_us = now_us()
        for pid in pids or (strike.pid,):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _struck(self, strike: Strike) -> Strike:
        self.strikes.append(strike)
        return strike
