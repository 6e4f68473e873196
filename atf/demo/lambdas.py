"""The demo's lambdas. The one that matters: the Dropbox content hash of a file, with a record of its own of each start and end."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

import atf

from . import record

app = atf.App("demo")

_CHUNK_BYTES: Final = 64 << 10
_BLOCK_BYTES: Final = 4 * 1024 * 1024


class FirstAttemptFails(Exception):
    """The failure of a first attempt, for the demo to show a retry."""


@app.task
def hello() -> int:
    """The executor that ran this, by its process id."""
    time.sleep(0.01)  # so that one executor does not take them all
    return os.getpid()


@app.task(max_attempts=5, backoff=atf.Backoff(0.5, factor=2, max=5))
def content_hash(ctx: atf.Context, path: str, *, fails_first: bool = False, lingers: float = 0) -> str:
    """The content hash of a file in hexadecimal; "" for a file that can't be read any more.

    Args:
        ctx: this run.
        path: the file.
        fails_first: whether the first attempt fails.
        lingers: seconds it takes longer, as a slow disk would.
    """
    record.write_start(ctx.task_id, ctx.run)
    size = None
    try:
        if lingers:
            time.sleep(lingers)
        if fails_first and ctx.attempt == 1:
            raise FirstAttemptFails("a first attempt fails here, as one in fifty does in this demo")
        digest, size = read_hash(path)
        return digest
    finally:
        record.write_end(ctx.task_id, ctx.run, size)


def read_hash(path: str) -> tuple[str, int]:
    """Reads small chunks, so that a file of any size takes little memory. Returns the hash and the bytes read."""
    blocks, block, size = hashlib.sha256(), hashlib.sha256(), 0
    chunk = memoryview(bytearray(_CHUNK_BYTES))
    try:
        with Path(path).open("rb") as file:
            while count := file.readinto(chunk[: _BLOCK_BYTES - size % _BLOCK_BYTES]):
                block.update(chunk[:count])
                size += count
                if size % _BLOCK_BYTES == 0:
                    blocks.update(block.digest())
                    block = hashlib.sha256()
    except OSError:
        return "", 0
    if size % _BLOCK_BYTES:
        blocks.update(block.digest())
    return blocks.hexdigest(), size
