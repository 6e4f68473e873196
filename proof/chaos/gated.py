"""The lambda of the row `gate`: each run appends the number that it was given to a file of its process, and nothing else."""

from __future__ import annotations

import functools
import os
import struct
from collections import Counter
from pathlib import Path
from typing import Final

import atf

FOLDER: Final = "ATF_CHAOS_GATED"
"""The variable that tells executors where they write."""
COLLECTION: Final = {"team": "web"}
_RECORD: Final = struct.Struct("<q")

app = atf.App("gated")


@app.task(retention=600)
async def tell(number: int) -> None:
    """Runs."""
    os.write(_file(os.getpid()), _RECORD.pack(number))


@functools.cache
def _file(pid: int) -> int:
    return os.open(Path(os.environ[FOLDER]) / f"{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read(folder: Path) -> Counter[int]:
    """How often each number was told. Half a record, of a process that was killed, is left out."""
    found: Counter[int] = Counter()
    for each in folder.iterdir():
        data = each.read_bytes()
        found.update(number for (number,) in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size]))
    return found
