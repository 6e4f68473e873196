"""Which tasks of a measurement ran, how often, and when first: a file in shared memory that the tasks themselves write.

It is the one way of knowing what ran, the same for every system that is measured, and believes none of them. Standard library
alone, since it is imported in each system's own environment. The file, for n tasks (n rounded up to 8):

    n bytes      how often each task was started, at most 255
    n × 8 bytes  CLOCK_MONOTONIC of its first start in ns, the same clock for all processes of a host; 0: none yet

A task has slots of its own, so processes need no lock. Two starts of one task within the same 100 ns might count as one.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LEDGER: Final = "ATF_BENCH_LEDGER"
"""The environment variable that tells tasks which file it is."""
SLEEPS: Final = "ATF_BENCH_SLEEPS"
"""The variable with the seconds that a task sleeps once it has started; not set: it does nothing."""
BYTES: Final = "ATF_BENCH_BYTES"
"""The variable with the bytes of a payload, where it has more than 20."""
MOST: Final = 255
_SHARED_MEMORY: Final = Path("/dev/shm")
_PREFIX: Final = "atf-bench-"


class RunsLedger:
    """A ledger's file, mapped.

    Args:
        path: of a file that `create` made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.slots = len(self._map) // 9
        self._first = memoryview(self._map)[self.slots :].cast("Q")

    @classmethod
    def create(cls, tasks: int, folder: Path = _SHARED_MEMORY) -> RunsLedger:
        """An empty ledger with slots for so many tasks, in shared memory where there is any."""
        slots = -(-tasks // 8) * 8
        folder = folder if folder.is_dir() else Path("/tmp")
        sweep(folder)
        path = folder / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"
        with path.open("xb") as file:
            file.truncate(slots * 9)
        return cls(path)

    def mark(self, number: int) -> None:
        """Task `number` starts, now. This is all that a task does."""
        if not self._first[number]:
            self._first[number] = time.monotonic_ns()
        count = self._map[number]
        if count < MOST:
            self._map[number] = count + 1

    def ran(self, numbers: range) -> int:
        """How many of these tasks have run."""
        return len(numbers) - self._counts(numbers).count(0)

    def never(self, numbers: range) -> int:
        """How many have not."""
        return self._counts(numbers).count(0)

    def twice(self, numbers: range) -> int:
        """How many ran more than once."""
        counts = self._counts(numbers)
        return len(numbers) - counts.count(0) - counts.count(1)

    def starts(self, numbers: range) -> Sequence[int]:
        """When each first ran, in ns of the monotonic clock; 0: it has not."""
        return self._first[numbers.start : numbers.stop].tolist()

    def resident_mib(self, pid: int) -> float:
        """MiB of it that count as resident memory of a process: every task that runs there has touched some. Linux alone."""
        mine, kib = False, 0
        for line in Path("/proc", str(pid), "smaps").read_text("utf-8", "replace").splitlines():
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):  # the range of another mapping, then its rights, offset, device, inode, and file
                mine = rest.endswith(f" {self.path}")
            elif mine and name == "Rss:":
                kib += int(rest.split()[0])
        return kib / 1024

    def clear(self) -> None:
        """Forgets everything."""
        self._map[:] = bytes(len(self._map))

    def remove(self) -> None:
        """Deletes the file; whoever has mapped it may go on writing into nothing."""
        self.path.unlink(missing_ok=True)
        self._first.release()
        self._map.close()

    def _counts(self, numbers: range) -> bytes:
        return self._map[numbers.start : numbers.stop]


def sweep(folder: Path) -> None:
    """Deletes ledgers whose owner was killed: memory that nobody would give back."""
    for path in folder.glob(f"{_PREFIX}*-*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            path.unlink(missing_ok=True)


_mine: list[RunsLedger] = []
_NUMBER: Final = 20
"""Digits of a task's number."""
_SLEEPS_S: Final = float(os.environ.get(SLEEPS, "0"))
_FILL: Final = "x" * max(int(os.environ.get(BYTES, "0")) - _NUMBER, 0)


def mark(text: str) -> None:
    """What every system's task does with its payload, whose first 20 digits are the task's number. A function that is asked to sleep blocks its thread."""
    _start(text)
    if _SLEEPS_S:
        time.sleep(_SLEEPS_S)


async def work(text: str) -> None:
    """The same of a coroutine, which sleeps without blocking its loop."""
    _start(text)
    if _SLEEPS_S:
        await asyncio.sleep(_SLEEPS_S)


def payload(number: int) -> str:
    """A payload of 20 bytes, or as many as are asked for."""
    return f"{number:0{_NUMBER}d}{_FILL}"


def _start(text: str) -> None:
    if not _mine:
        _mine.append(RunsLedger(Path(os.environ[LEDGER])))
    _mine[0].mark(int(text[:_NUMBER]))
