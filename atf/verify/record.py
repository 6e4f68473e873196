"""Keeps the lambdas' own record of when they ran. Nothing of ATF goes into it but the task's id and the number of its claim.

Lines of record_files.py:

    B <monotonic µs> <wall µs> <key> <fence>             a run begins
    E <monotonic µs> <wall µs> <key> <fence> <1 | 0>     its body ends; 1: it returned

CLOCK_MONOTONIC is the same clock for all processes of a host; it orders what happened. The wall clock is what a store on this host
tells the time by. The key is the task's id without its partition.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .events import Began, Ended, Event
from .record_files import RecordFiles, append, pid_of

DIRECTORY: Final = "ATF_VERIFY_RECORD"
"""The environment variable that tells executors where the record is kept."""


# --- what the lambdas write -------------------------------------------------------------------------------------------


def began(task_id: str, fence: int) -> None:
    """A run begins in this process, now."""
    append(DIRECTORY, f"B {now_us()} {wall_us()} {key_of(task_id)} {fence}")


def ended(task_id: str, fence: int, *, returned: bool) -> None:
    """Its body ends, now."""
    append(DIRECTORY, f"E {now_us()} {wall_us()} {key_of(task_id)} {fence} {returned:d}")


def now_us() -> int:
    """CLOCK_MONOTONIC, in µs."""
    return time.monotonic_ns() // 1000


def wall_us() -> int:
    """The wall clock, in µs."""
    return time.time_ns() // 1000


def key_of(task_id: str) -> str:
    """The key under which a task was scheduled."""
    return task_id.partition("-")[2]


# --- what the observer reads ------------------------------------------------------------------------------------------


@dataclass
class VerifyRecord:
    """All that the processes have written so far.

    Attributes:
        directory: where they write.
        begun: the begins in the order of reading; each `store_us` is still the wall clock at that very run's begin.
        ends: the ends.
        running: by process: when each of its runs that has not ended began, by key and fence.
    """

    directory: Path
    begun: list[Began] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    running: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files = RecordFiles(self.directory)

    def poll(self) -> None:
        """Reads what has been written since the last time."""
        for process, line in self._files.new_lines():
            self._take(process, line.decode().split())

    @property
    def processes(self) -> list[str]:
        """Every process that has written."""
        return list(self.running)

    def open_runs(self, pid: int) -> dict[tuple[str, int], int]:
        """The runs of one process that have begun and not ended: their begins by key and fence."""
        mine = (runs for process, runs in self.running.items() if pid_of(process) == pid)
        return {key: at_us for runs in mine for key, at_us in runs.items()}

    def close(self, process: str) -> None:
        """Takes note that a process is dead: nothing runs in it."""
        self.running[process] = {}

    def _take(self, process: str, words: list[str]) -> None:
        kind, at_us, wall, key, fence = words[0], int(words[1]), int(words[2]), words[3], int(words[4])
        mine = self.running.setdefault(process, {})
        if kind == "B":
            mine[key, fence] = at_us
            self.begun.append(Began(at_us, key, fence, process, wall))
        else:
            mine.pop((key, fence), None)
            self.ends.append(Ended(at_us, key, fence, process, words[5] == "1"))


def events(record: VerifyRecord) -> list[Event]:
    """The record as events: each begin with the latest instant that the wall clock had shown anywhere until then."""
    found: list[Event] = []
    latest = 0
    for run in sorted(record.begun, key=lambda run: run.at_us):
        latest = max(latest, run.store_us)
        found.append(Began(run.at_us, run.task_id, run.fence, run.process, latest))
    found += record.ends
    return found
