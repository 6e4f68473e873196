"""A lambda that only tells that it ran, and clients that schedule it a million times: the load of a backlog.

Every run appends twelve bytes to a file of its process: the task's number, and when (seconds, CLOCK_MONOTONIC).

    python -P -m proof.chaos.tally HOST:PORT FIRST COUNT      schedules tasks FIRST, FIRST + 1, ... as fast as it can
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import atf
from atf.client import AsyncClient
from atf.errors import ResourceExhausted, Unavailable

FOLDER: Final = "ATF_CHAOS_TALLY"
"""The variable that tells executors where they write."""
RECORD: Final = struct.Struct("<Id")
BATCH: Final = 256
_AT_ONCE: Final = 3
_CALL_S: Final = 60.0

app = atf.App("tally")


@app.task(retention=30)
async def tick(number: int) -> None:
    """Runs."""
    os.write(_file(os.getpid()), RECORD.pack(number, time.monotonic()))


@functools.cache
def _file(pid: int) -> int:
    return os.open(Path(os.environ[FOLDER]) / f"{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def runs(folder: Path) -> int:
    """How many runs there were so far."""
    return sum(each.stat().st_size for each in folder.iterdir()) // RECORD.size


def read(folder: Path) -> list[tuple[int, float]]:
    """Number and instant of every run, in their order."""
    found = [pair for each in folder.iterdir() for pair in RECORD.iter_unpack(_whole(each.read_bytes()))]
    return sorted(found, key=lambda pair: pair[1])


def _whole(data: bytes) -> bytes:
    return data[: len(data) // RECORD.size * RECORD.size]


async def schedule(client: AsyncClient, numbers: range) -> None:
    """Schedules these tasks, due now; repeats what the store has no room or no time for."""
    batches: Iterator[range] = (numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH))

    async def some() -> None:
        for batch in batches:
            prepared = [tick.options(key=f"n{number}").prepare(number) for number in batch]
            while True:
                try:
                    await client.schedule_many(prepared)
                    break
                except (Unavailable, ResourceExhausted):
                    await asyncio.sleep(0.2)

    await asyncio.gather(*itertools.starmap(some, [()] * _AT_ONCE))


async def main() -> None:
    """One client."""
    address, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    async with AsyncClient(address, timeout=_CALL_S) as client:
        await schedule(client, range(first, first + count))


if __name__ == "__main__":
    asyncio.run(main())
