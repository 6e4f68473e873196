"""Lambdas with limits that only tell when they ran, and beside how many others: the load of the rows `quotas` and `quotas-cluster`.

A run of `paced` appends when it began to a file of its process. A run of `few` holds a lock on a file of its own, which the kernel
takes away with its process; it counts the locks that are held, itself among them, and appends when it began and how many ran.
Both instants are µs of the wall clock.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import os
import struct
import time
from pathlib import Path
from typing import Final, NamedTuple

import atf

FOLDER: Final = "ATF_CHAOS_LIMITED"
"""The variable that tells executors where they write."""
RATE: Final = 100
MAX_RUNNING: Final = 5
_RECORD: Final = struct.Struct("<qI")

app = atf.App("limited")


class LimitedRun(NamedTuple):
    """One run."""

    at_us: int
    beside: int  # runs at that instant, this one among them; 0: nobody counted


@app.task(rate=RATE, retention=600)
async def paced() -> None:
    """Runs."""
    _tell("paced", 0)


@app.task(max_running=MAX_RUNNING, retention=60)
async def few(ctx: atf.Context, seconds: float) -> None:
    """Runs for a while, beside no more than four others."""
    running = Path(os.environ[FOLDER]) / "running"
    mine = os.open(running / f"{ctx.task_id}.{ctx.fence}", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with (running / "everybody").open("w") as everybody:
            fcntl.flock(everybody, fcntl.LOCK_EX)  # one after the other looks
            fcntl.flock(mine, fcntl.LOCK_EX)
            _tell("few", sum(map(_held, running.iterdir())))
        await asyncio.sleep(seconds)
    finally:
        os.close(mine)


def _held(path: Path) -> bool:
    """Whether somebody runs under this file's lock; what nobody holds any more is removed."""
    if path.name == "everybody":
        return False
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        path.unlink()
        return False
    finally:
        os.close(file)


def _tell(what: str, beside: int) -> None:
    os.write(_file(os.environ[FOLDER], what, os.getpid()), _RECORD.pack(time.time_ns() // 1000, beside))


@functools.cache
def _file(folder: str, what: str, pid: int) -> int:
    return os.open(Path(folder) / what / f"{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def made(folder: Path) -> Path:
    """A folder for the record."""
    for each in ("paced", "few", "running"):
        (folder / each).mkdir(parents=True)
    return folder


def read(folder: Path, what: str) -> list[LimitedRun]:
    """All runs of `paced` or `few`, in their order. Half a record, of a process that was killed, is left out."""
    found = []
    for each in (folder / what).iterdir():
        data = each.read_bytes()
        found += [
            LimitedRun(*values) for values in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size])
        ]
    return sorted(found)
