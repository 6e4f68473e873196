"""The lambdas of the laboratory, and the diary that they and the load keep: lines in files that all hosts share.

Each process appends to a file of its own, one unbuffered write a line, so that a line survives its writer:

    C <µs> <key>                          Schedule is called for a task
    A <µs> <key> <due: wall clock, µs>    it has answered: the task is accepted
    B <µs> <key> <fence> <wall clock, µs> a run begins
    E <µs> <key> <fence> <1 = returned>   its body ends
    R <µs> <key> <fence>                  at the end: the store has the result of this claim, and took it then
    F <µs> <key> <status, or -> <1 = finished>  at the very end: what the store says of the task

The first number is CLOCK_MONOTONIC, which all hosts of a lab share, as they share the wall clock that store servers tell.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from pathlib import Path
from typing import Final

import atf
from atf.verify.history import Accepted, Began, Called, Ended, Event, Found, Recorded

FOLDER: Final = "ATF_LAB_DIARY"
"""The variable that tells processes where the diary is."""
app = atf.App("lab")

_LOADED_NS: Final = time.monotonic_ns()
"""Tells apart two processes of one number."""


@app.task(backoff=atf.Backoff(0.2, factor=1, jitter=0))
def work(ctx: atf.Context, seconds: float) -> int:
    """Takes its time in a thread."""
    write("B", key_of(ctx.task_id), ctx.fence, wall_us())
    time.sleep(seconds)
    write("E", key_of(ctx.task_id), ctx.fence, 1)
    return ctx.fence


@app.task(backoff=atf.Backoff(0.2, factor=1, jitter=0))
async def work_async(ctx: atf.Context, seconds: float) -> int:
    """Takes its time on the event loop."""
    write("B", key_of(ctx.task_id), ctx.fence, wall_us())
    returned = 0
    try:
        await asyncio.sleep(seconds)
        returned = 1
    finally:
        write("E", key_of(ctx.task_id), ctx.fence, returned)
    return ctx.fence


def wall_us() -> int:
    """The wall clock, in µs."""
    return time.time_ns() // 1000


def key_of(task_id: str) -> str:
    """The key under which a task was scheduled: its id without the partition."""
    return task_id.partition("-")[2]


def pid_of(process: str) -> int:
    """The process id within the name of a process's file."""
    return int(process.partition("-")[0])


def write(kind: str, *fields: object) -> None:
    """Appends a line of now."""
    write_at(time.monotonic_ns() // 1000, kind, *fields)


def write_at(at_us: int, kind: str, *fields: object) -> None:
    """Appends a line of another instant."""
    words = (kind, at_us, *fields)
    os.write(_file(os.getpid()), (" ".join(map(str, words)) + "\n").encode())


@functools.cache
def _file(pid: int) -> int:
    path = Path(os.environ[FOLDER]) / f"{pid}-{_LOADED_NS}"
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


class Reader:
    """All that the processes have written, read bit by bit.

    Attributes:
        events: those read so far, of each process in the order of its writing.
    """

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self._folder = folder
        self._offsets: dict[str, int] = {}

    def poll(self) -> list[Event]:
        """Reads what is new; all events. Of a line that its writer could not end nothing is read."""
        for path in sorted(self._folder.iterdir()):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path.name, 0))
                lines, newline, _half = file.read().rpartition(b"\n")
            self._offsets[path.name] = self._offsets.get(path.name, 0) + len(lines) + len(newline)
            self.events += [_event(path.name, line.split()) for line in lines.decode().splitlines()]
        return self.events


def _event(process: str, words: list[str]) -> Event:
    kind, at_us, key = words[0], int(words[1]), words[2]
    match kind, words[3:]:
        case "C", []:
            return Called(at_us, key)
        case "A", [due]:
            return Accepted(at_us, key, int(due))
        case "B", [fence, wall]:
            return Began(at_us, key, int(fence), process, int(wall))
        case "E", [fence, returned]:
            return Ended(at_us, key, int(fence), process, returned == "1")
        case "R", [fence]:
            return Recorded(at_us, key, int(fence))
        case "F", [status, finished]:
            return Found(at_us, key, "" if status == "-" else status, finished == "1")
    raise ValueError(f"no line of a diary: {words}")
