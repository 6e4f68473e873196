"""Files in which lambdas of `atf verify` and `atf demo` write down by themselves when they ran.

Each process appends to a file of its own, named <pid>-<nanoseconds>: one unbuffered write per line, so that a line survives the process
being killed.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOADED_NS: Final = time.monotonic_ns()
"""Tells apart two processes of one number."""


def append(variable: str, line: str) -> None:
    """Writes a line to this process's file in the directory that an environment variable names."""
    data = f"{line}\n".encode()
    written = os.write(_file(os.getpid(), os.environ[variable]), data)
    if written != len(data):
        raise OSError(f"the record took {written} of {len(data)} bytes: is the disk full?")


@functools.cache
def _file(pid: int, directory: str) -> int:
    # Threads may get here together: then each opens the same file, and every write is appended.
    return os.open(Path(directory) / f"{pid}-{_LOADED_NS}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def pid_of(process: str) -> int:
    """The process id within the name of a process's file."""
    return int(process.partition("-")[0])


class RecordFiles:
    """Reads the files of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[str, int] = {}

    def new_lines(self) -> Iterator[tuple[str, bytes]]:
        """What has been written since the last time: lines, each with the name of its process's file. One that its writer could not end is left out."""
        for path in sorted(self._directory.iterdir()):
            offset = self._offsets.get(path.name, 0)
            if path.stat().st_size == offset:
                continue
            with path.open("rb") as file:
                file.seek(offset)
                lines, newline, _half = file.read().rpartition(b"\n")
            self._offsets[path.name] = offset + len(lines) + len(newline)
            for line in lines.splitlines():
                yield path.name, line
