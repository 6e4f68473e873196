"""A lambda of recurring jobs that only tells which tick it ran: the load of the rows about jobs. And one that asks whether it is the first.

Every run appends a record to a file of its process: the job's number, the tick's number, its instant and when it ran (µs of the wall
clock, which the store on the same machine shares), and eight bytes of its task's id.
"""

from __future__ import annotations

import functools
import os
import struct
import time
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import atf

FOLDER: Final = "ATF_CHAOS_TICKS"
"""The variable that tells executors where they write."""
_RECORD: Final = struct.Struct("<IIqqQ")
_US: Final = 1_000_000
FIRST: Final = 1_000_000
"""The number of no job: of records that `first` writes."""

app = atf.App("ticks")


class TickRun(NamedTuple):
    """One run of a tick."""

    job: int
    tick: int
    due_us: int
    at_us: int
    task: int


@app.task(retention=30)
async def ran(ctx: atf.Context, job: int) -> None:
    """Tells of its tick."""
    _tell(ctx, job, ctx.tick)


@app.task(retention=600, backoff=atf.Backoff(1, max=4), max_attempts=100)
async def first(ctx: atf.Context, number: int) -> None:
    """Tells of its number, as of a tick of the job FIRST, if its task is the first that asks."""
    if await ctx.first_time_async(f"first-{number}"):
        _tell(ctx, FIRST, number)


def _tell(ctx: atf.Context, job: int, tick: int) -> None:
    task = int.from_bytes(blake2b(ctx.task_id.encode(), digest_size=8).digest(), "little")
    due_us = round(ctx.scheduled_at.timestamp() * _US)
    os.write(_file(os.getpid()), _RECORD.pack(job, tick, due_us, time.time_ns() // 1000, task))


@functools.cache
def _file(pid: int) -> int:
    return os.open(Path(os.environ[FOLDER]) / f"{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def runs(folder: Path) -> int:
    """How many runs there were so far."""
    return sum(each.stat().st_size for each in folder.iterdir()) // _RECORD.size


def read(folder: Path) -> list[TickRun]:
    """All runs. Half a record, of a process that was killed, is left out."""
    found = []
    for each in folder.iterdir():
        data = each.read_bytes()
        found += [TickRun(*values) for values in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size])]
    return found
