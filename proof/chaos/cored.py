"""Eleven lambdas that only tell when they began and in which executor: the load of the row `cores`.

A run appends the instant, µs of the wall clock, its lambda's number and the process id of its executor's guard to a file of its process.
"""

from __future__ import annotations

import functools
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import atf

FOLDER: Final = "ATF_CHAOS_CORED"
"""The variable that tells executors where they write."""
LAMBDAS: Final = 11
WORK_S: Final = 0.05
_RECORD: Final = struct.Struct("<qII")

app = atf.App("cored")


class CoredRun(NamedTuple):
    """One run."""

    at_us: int
    number: int  # of its lambda
    guard: int  # process id


def _made(number: int) -> Callable[[int], None]:
    def work(asked_us: int) -> None:
        record = _RECORD.pack(time.time_ns() // 1000, number, os.getppid())
        os.write(_file(os.getpid()), record + struct.pack("<q", asked_us))
        time.sleep(WORK_S)

    work.__name__ = work.__qualname__ = f"l{number}"
    return work


works = [app.task(retention=60, name=f"l{number}")(_made(number)) for number in range(LAMBDAS)]


@functools.cache
def _file(pid: int) -> int:
    return os.open(Path(os.environ[FOLDER]) / f"{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read(folder: Path) -> list[tuple[CoredRun, int]]:
    """Every run so far, the first one first, and when its task was asked for."""
    found = []
    size = _RECORD.size + 8
    for path in folder.iterdir():
        data = path.read_bytes()
        for start in range(0, len(data) - size + 1, size):
            (asked_us,) = struct.unpack_from("<q", data, start + _RECORD.size)
            found.append((CoredRun(*_RECORD.unpack_from(data, start)), asked_us))
    return sorted(found)
