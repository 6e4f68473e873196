"""Kills one executor's worker that has started tasks, by the lambda's own record.

A worker is stopped first (SIGSTOP), so that what the record says of it still holds when it is killed. If it has started
nothing it goes on (SIGCONT), and another is tried.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from atf.cli.local.processes import stands_still

from .record import DemoRecord, DemoRun

_PAUSE_S: Final = 0.01


@dataclass(frozen=True)
class KilledWorker:
    """An executor's worker that was killed.

    Attributes:
        pid: its process.
        at_ns: when, by CLOCK_MONOTONIC.
        cut_off: the runs that it had started and not ended.
    """

    pid: int
    at_ns: int
    cut_off: list[tuple[str, DemoRun]]


async def kill_one(workers: Callable[[], Iterable[int]], record: DemoRecord, *, within: float) -> KilledWorker | None:
    """Kills a worker that has started tasks; None: none was caught with any in time.

    Args:
        workers: answers the process ids of the executors' workers that run now.
        record: the lambda's.
        within: seconds to go on trying.
    """
    until = time.monotonic() + within
    while time.monotonic() < until:
        record.poll()
        for pid in sorted(workers(), key=lambda pid: -len(record.open_runs(pid))):
            if killed := await _strike(pid, record):
                return killed
        await asyncio.sleep(_PAUSE_S)
    return None


async def _strike(pid: int, record: DemoRecord) -> KilledWorker | None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        await stands_still(pid)
        record.poll()
        if record.open_runs(pid):
            at_ns = time.monotonic_ns()
            os.kill(pid, signal.SIGKILL)
            record.poll()
            return KilledWorker(pid, at_ns, record.close_killed(pid, at_ns))
        os.kill(pid, signal.SIGCONT)
    return None
