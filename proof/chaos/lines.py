"""A lambda that tells when its runs begin and end, and a client that gives its tasks out by ordering keys, in their order.

Every run appends two records to a file of its process: key, place in the key's line, 1 for the begin or 0 for the end, and when (seconds, CLOCK_MONOTONIC).
"""

from __future__ import annotations

import asyncio
import functools
import os
import struct
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import atf
from atf.client import AsyncClient
from atf.errors import ResourceExhausted, Unavailable

FOLDER: Final = "ATF_CHAOS_LINES"
"""The variable that tells executors where they write."""
RECORD: Final = struct.Struct("<IHHd")
FAILS_OF: Final = 20
"""One task in so many fails at its first attempt."""
BATCH: Final = 256
_AT_ONCE: Final = 3

app = atf.App("lines")


@app.task(max_attempts=20, backoff=atf.Backoff(0.05, factor=1, max=0.05, jitter=0), retention=120)
async def step(ctx: atf.Context, line: int, place: int) -> None:
    """Tells that it began and ended; now and then its first attempt fails."""
    file = _file(os.getpid())
    os.write(file, RECORD.pack(line, place, 1, time.monotonic()))
    await asyncio.sleep(0.005)  # long enough to be cut off now and then
    fails = ctx.attempt == 1 and zlib.crc32(f"{line} {place}".encode()) % FAILS_OF == 0
    os.write(file, RECORD.pack(line, place, 0, time.monotonic()))
    if fails:
        raise RuntimeError("it rained")


@functools.cache
def _file(pid: int) -> int:
    return os.open(Path(os.environ[FOLDER]) / f"{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


class RecordedRun(NamedTuple):
    """One run, by what it wrote down itself. `ended`: of one that was cut off, when its process was killed, or wrote last."""

    began: float
    ended: float
    line: int
    place: int
    whole: bool


def read(folder: Path, killed: Mapping[int, float]) -> list[RecordedRun]:
    """Every run in the order of their begins; `killed`: process -> when."""
    runs = []
    for file in folder.iterdir():
        data = file.read_bytes()
        begun: dict[tuple[int, int], float] = {}
        last = 0.0
        for line, place, begins, at in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]):
            last = max(last, at)
            if begins:
                begun[line, place] = at
            else:
                runs.append(RecordedRun(begun.pop((line, place)), at, line, place, True))
        for (line, place), began in begun.items():
            runs.append(RecordedRun(began, killed.get(int(file.name), last), line, place, False))
    return sorted(runs)


def ended(folder: Path) -> int:
    """How many records there are, about: two a run."""
    return sum(each.stat().st_size for each in folder.iterdir()) // RECORD.size // 2


class OpenRuns:
    """How many runs of each process have begun and not ended, by what they wrote so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[int, tuple[int, int]] = {}  # process -> bytes read, runs open then

    def of(self, pid: int) -> int:
        """Of one process; 0 where it has not run anything."""
        read, count = self._seen.get(pid, (0, 0))
        try:
            with (self._folder / f"{pid}").open("rb") as file:
                if os.fstat(file.fileno()).st_size < read:  # it was emptied
                    read, count = 0, 0
                file.seek(read)
                data = file.read()
        except FileNotFoundError:
            return 0
        data = data[: len(data) // RECORD.size * RECORD.size]
        count += sum(1 if begins else -1 for _, _, begins, _ in RECORD.iter_unpack(data))
        self._seen[pid] = read + len(data), count
        return count


def broken_order(runs: list[RecordedRun]) -> tuple[int, int]:
    """Runs that began before one that stands before them in their line had, and runs that began before the line's run before had ended."""
    by_line: defaultdict[int, list[RecordedRun]] = defaultdict(list)
    for run in runs:
        by_line[run.line].append(run)
    disorder = overlaps = 0
    for line in by_line.values():
        furthest, until = -1, 0.0
        for run in line:
            disorder += run.place < furthest or run.place > furthest + 1
            overlaps += run.began < until
            furthest, until = max(furthest, run.place), max(until, run.ended)
    return disorder, overlaps


async def schedule(client: AsyncClient, lines: int, places: int, *, ordered: bool) -> None:
    """Schedules so many tasks of so many keys, due now, each key's in their order; or the same without keys."""

    async def some(first: int) -> None:
        mine = range(first, lines, _AT_ONCE)
        for place in range(places):
            for start in range(0, len(mine), BATCH):
                await _sure(client, list(_tasks(mine[start : start + BATCH], place, ordered=ordered)))

    await asyncio.gather(*(some(each) for each in range(_AT_ONCE)))


def _tasks(lines: range, place: int, *, ordered: bool) -> Iterator[atf.Prepared[None]]:
    for line in lines:
        if ordered:
            yield step.options(key=f"o{line}-{place}", ordering_key=f"line-{line}").prepare(line, place)
        else:
            yield step.options(key=f"u{line}-{place}").prepare(line, place)


async def _sure(client: AsyncClient, tasks: list[atf.Prepared[None]]) -> None:
    while True:
        try:
            await client.schedule_many(tasks)
            return
        except (Unavailable, ResourceExhausted):
            await asyncio.sleep(0.2)
