"""A batch whose items tell of their runs, and the client that submits it: the load of the row about batches.

    python -P -m proof.chaos.batched BATCH ITEMS

submits it, or goes on with it where it ended, and takes its time, so that it can be killed on the way. Every run appends a line of JSON to a file
of its process:

    ["item", batch, number, claim]        a run of an item has come to its end
    ["callback", batch, task, summary]    the completion callback has run
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import atf

FOLDER: Final = "ATF_CHAOS_BATCHED"
"""The variable that tells executors where they write."""
MOST_S: Final = 0.1
"""Seconds that an item takes at most."""
SUBMIT_S: Final = 6.0
"""Seconds that the client takes at least for all items."""
_STEPS: Final = 50

app = atf.App("batched")


@app.task
async def item(ctx: atf.Context, number: int) -> list[int]:
    """Tells of its end, and gives the number of its claim, so that the result names its run."""
    assert ctx.batch is not None
    await asyncio.sleep(random.uniform(0, MOST_S))
    _write("item", ctx.batch.id, ctx.batch.number, ctx.fence)
    return [number, ctx.fence]


@app.task
async def ended(ctx: atf.Context, batch: dict[str, Any]) -> None:
    """The completion callback."""
    _write("callback", batch["id"], ctx.task_id, batch)


def _write(*words: Any) -> None:
    os.write(_file(os.getpid()), json.dumps(words).encode() + b"\n")


@functools.cache
def _file(pid: int) -> int:
    return os.open(Path(os.environ[FOLDER]) / f"{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read(folder: Path, batch: str) -> list[list[Any]]:
    """What runs of a batch have told. Half a line, of a process that was killed, is left out."""
    lines = [line for each in folder.iterdir() for line in each.read_bytes().split(b"\n")[:-1]]
    return [told for line in lines if (told := json.loads(line))[1] == batch]


async def submit(batch: str, items: int) -> None:
    """Submits the batch, bit by bit."""

    async def numbers() -> AsyncIterator[int]:
        for number in range(items):
            if number % max(1, items // _STEPS) == 0:
                await asyncio.sleep(SUBMIT_S / _STEPS)
            yield number

    async with atf.AsyncClient(timeout=60) as client:
        await client.batch(item, numbers(), batch_id=batch, batch_size=100, on_complete=ended)


if __name__ == "__main__":
    asyncio.run(submit(sys.argv[1], int(sys.argv[2])))
