"""Keeps the lambdas' own record of when they ran. Nothing of ATF goes into it but the task's id and the number of its claim.

Each process appends to a file of its own, one unbuffered write per line, so that a line survives the process being killed:

    B <monotonic µs> <wall µs> <key> <fence>             a run begins
    E <monotonic µs> <wall µs> <key> <fence> <1 | 0>     its body ends; 1: it returned

CLOCK_MONOTONIC is the same clock for all processes of a host; it orders what happened. The wall clock is what a store on this host
tells the time by. The key is the task's id without its partition. The file is named <pid>-<nanoseconds>.
"""

from __future__ import annotations

import functools
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .events import Began, Ended, Event

DIRECTORY: Final = "ATF_VERIFY_RECORD"
"""The environment variable that tells executors where the record is kept."""
_LOADED_NS: Final = time.monotonic_ns()
"""Tells apart two processes of one number."""


# --- what the lambdas write -------------------------------------------------------------------------------------------


def began(task_id: str, fence: int) -> None:
    """A run begins in this process, now."""
    _write(f"B {now_us()} {wall_us()} {key_of(task_id)} {fence}\n")


def ended(task_id: str, fence: int, *, returned: bool) -> None:
    """Its body ends, now."""
    _write(f"E {now_us()} {wall_us()} {key_of(task_id)} {fence} {returned:d}\n")


def now_us() -> int:
    """CLOCK_MONOTONIC, in µs."""
    return time.monotonic_ns() // 1000


def wall_us() -> int:
    """The wall clock, in µs."""
    return time.time_ns() // 1000


def key_of(task_id: str) -> str:
    """The key under which a task was scheduled."""
    return task_id.partition("-")[2]


def pid_of(process: str) -> int:
    """The process id within the name of a process's file."""
    return int(process.partition("-")[0])


@functools.cache
def _file(pid: int) -> int:
    # Threads may get here together: then each opens the same file, and every write is appended.
    path = Path(os.environ[DIRECTORY]) / f"{pid}-{_LOADED_NS}"
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _write(text: str) -> None:
    line = text.encode()
    written = os.write(_file(os.getpid()), line)
    if written != len(line):
        raise OSError(f"the record took {written} of {len(line)} bytes: is the disk full?")


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
    _offsets: dict[str, int] = field(default_factory=dict)

    def poll(self) -> None:
        """Reads what has been written since the last time. A line that its writer could not end is left out."""
        for path in sorted(self.directory.iterdir()):
            if path.name in self._offsets and path.stat().st_size == self._offsets[path.name]:
                continue
            with path.open("rb") as file:
                file.seek(self._offsets.get(path.name, 0))
                lines, newline, _half = file.read().rpartition(b"\n")
            self._offsets[path.name] = self._offsets.get(path.name, 0) + len(lines) + len(newline)
            for line in lines.decode().splitlines():
                self._take(path.name, line.split())

    @property
    def processes(self) -> list[str]:
        """Every process that has written."""
        return list(self.running)

    def open_runs(self, pid: int) -> dict[tuple[str, int], int]:
        """The runs of one process that have begun and not ended: their begins by key and fence."""
        found: dict[tuple[str, int], int] = {}
        for process, runs in self.running.items():
            if pid_of(process) == pid:
                found |= runs
        return found

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
