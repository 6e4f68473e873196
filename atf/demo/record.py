"""Keeps the lambda's own record of when its runs started and ended, and what follows from it. Nothing of ATF goes into it.

Lines of atf/verify/record_files.py:

    S <nanoseconds> <task id> <run>                     a run has started
    E <nanoseconds> <task id> <run> <bytes | "failed">  it ends

The nanoseconds are CLOCK_MONOTONIC's, the same clock for all processes of a host.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from atf.errors import Internal
from atf.verify.record_files import RecordFiles, append, pid_of

DIRECTORY: Final = "ATF_DEMO_RECORD"
"""The environment variable that tells executors where the record is kept."""

_FAILED: Final = b"failed"


# --- what the lambda writes ------------------------------------------------------------------------------------------


def write_start(task_id: str, run: int) -> None:
    """A run of a task starts in this process, now."""
    append(DIRECTORY, f"S {time.monotonic_ns()} {task_id} {run}")


def write_end(task_id: str, run: int, size: int | None) -> None:
    """A run ends: `size` bytes were hashed, or None, it failed."""
    append(DIRECTORY, f"E {time.monotonic_ns()} {task_id} {run} {_FAILED.decode() if size is None else size}")


# --- what the demo reads ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class DemoRun:
    """One run of a task."""

    process: str
    number: int
    start_ns: int
    end_ns: int | None = None
    size: int | None = None  # bytes hashed; None: it failed, or has not ended

    @property
    def succeeded(self) -> bool:
        return self.size is not None


class SuccessfulEnd(NamedTuple):
    """The end of a run that succeeded."""

    at_ns: int
    task_id: str
    size: int


@dataclass
class DemoRecord:
    """All that the processes have written so far."""

    directory: Path
    runs: dict[str, list[DemoRun]] = field(default_factory=dict)
    ends: list[SuccessfulEnd] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    _open: dict[str, dict[tuple[str, int], DemoRun]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files = RecordFiles(self.directory)

    def poll(self) -> None:
        """Reads what has been written since the last time.

        Raises:
            Internal: somebody else has written there.
        """
        for process, line in self._files.new_lines():
            try:
                self._take(process, line.split())
            except (ValueError, LookupError) as error:
                raise Internal(f"{self.directory / process}: {line[:200]!r} is no line of the record") from error

    def open_runs(self, pid: int) -> list[tuple[str, DemoRun]]:
        """The runs of one process that have started and not ended."""
        mine = (runs for process, runs in self._open.items() if pid_of(process) == pid)
        return [(task_id, run) for runs in mine for (task_id, _), run in runs.items()]

    @property
    def running(self) -> int:
        """Runs without an end, those of killed processes included."""
        return sum(len(each) for each in self._open.values())

    def close_killed(self, pid: int, at_ns: int) -> list[tuple[str, DemoRun]]:
        """Takes note that a process was killed: what it ran ended then. Returns those runs."""
        ended = self.open_runs(pid)
        for task_id, run in ended:
            run.end_ns = at_ns
            del self._open[run.process][task_id, run.number]
        return ended

    def _take(self, process: str, line: list[bytes]) -> None:
        kind, at_ns, task_id, number = line[0], int(line[1]), line[2].decode(), int(line[3])
        opened = self._open.setdefault(process, {})
        if kind == b"S":
            opened[task_id, number] = run = DemoRun(process, number, at_ns)
            self.runs.setdefault(task_id, []).append(run)
            return
        run = opened.pop((task_id, number))
        run.end_ns = at_ns
        if line[4] != _FAILED:
            run.size = int(line[4])
            self.ends.append(SuccessfulEnd(at_ns, task_id, run.size))
            self.done.add(task_id)


def concurrent(runs: Mapping[str, Iterable[DemoRun]]) -> list[str]:
    """The tasks of which two runs overlapped. A run without an end lasts for ever."""
    found = []
    for task_id, each in runs.items():
        until = -math.inf
        for run in sorted(each, key=lambda run: run.start_ns):
            if run.start_ns < until:
                found.append(task_id)
                break
            until = max(until, math.inf if run.end_ns is None else run.end_ns)
    return found


def early(runs: Mapping[str, Iterable[DemoRun]], due_ns: Mapping[str, int]) -> list[str]:
    """The tasks that started before they were due."""
    return [task_id for task_id, due in due_ns.items() if any(run.start_ns < due for run in runs.get(task_id, ()))]
