"""A service on a host of the lab: the stream of atf.verify.load as a process of its own, which asks in the end what became of its tasks.

    python -P -m proof.chaos.load FILE PREFIX SEED LOAD     LOAD: the fields of atf.verify.load.Load, in JSON

SIGTERM ends the stream. What was not accepted yet is called for again until it is; then the tasks get a while to finish. FILE
gets a line of JSON for each of these, at once:

    ["C", µs, key]                a task is called for
    ["A", µs, key, µs]            it is accepted; due then, by the wall clock
    ["E", key, {…}]               at the end: the fields of its Ending
    ["R", {…}]                    at the end: the calls that failed, by kind
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from atf.client import AsyncClient, TaskInfo
from atf.errors import TaskNotFound
from atf.verify.events import Accepted, Called
from atf.verify.lambdas import NAMESPACE
from atf.verify.load import Load, PlannedTask, Stream, planned
from atf.verify.outcome import FinalRecord

SETTLE_S: Final = 200.0
"""Seconds that calls get to be answered after the end of the stream, and tasks to finish after that."""
_CALL_S: Final = 10.0
"""Seconds that one call takes at most, repetitions by the client included."""
_LOOK_S: Final = 0.05
_AT_ONCE: Final = 64


@dataclass
class Heard:
    """What a load has written so far.

    Attributes:
        called: when each task was called for first, by key (µs, CLOCK_MONOTONIC).
        accepted: when it was accepted, and when it is due (µs of the wall clock).
        endings: what became of it.
        refused: calls that failed, by kind.
    """

    path: Path
    called: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, tuple[int, int]] = field(default_factory=dict)
    endings: dict[str, FinalRecord] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    _read: int = 0

    def poll(self) -> None:
        """Reads what is new."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            lines, newline, _half = file.read().rpartition(b"\n")
        self._read += len(lines) + len(newline)
        for line in lines.splitlines():
            match json.loads(line):
                case ["C", at_us, key]:
                    self.called[key] = at_us
                case ["A", at_us, key, due_us]:
                    self.accepted[key] = at_us, due_us
                case ["E", key, fields]:
                    self.endings[key] = FinalRecord(**fields)
                case ["R", refused]:
                    self.refused = refused

    def plans(self, load: Load, seed: int, prefix: str) -> Iterator[PlannedTask]:
        """What was asked for."""
        for each in planned(load, seed, prefix):
            if each.key not in self.called:
                return
            yield each


async def run(path: Path, prefix: str, seed: int, load: Load) -> None:
    """Runs one load until SIGTERM, and to its end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    with path.open("w", encoding="utf-8", buffering=1) as file:
        async with AsyncClient(timeout=_CALL_S) as client:
            stream = Stream(client, os.environ[NAMESPACE], load, planned(load, seed, prefix))
            streaming, telling = loop.create_task(stream.run()), loop.create_task(_tell(stream, file))
            await asyncio.wait({streaming, loop.create_task(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
            streaming.cancel()
            with suppress(asyncio.CancelledError):
                await streaming
            await stream.wait_accepted(SETTLE_S)
            await asyncio.sleep(2 * _LOOK_S)
            telling.cancel()
            for key, ending in (await _endings(client, stream)).items():
                _write(file, "E", key, asdict(ending))
        _write(file, "R", stream.refused)


async def _tell(stream: Stream, file: IO[str]) -> None:
    told = 0
    while True:
        for event in stream.events[told:]:
            told += 1
            match event:
                case Called(at_us, key):
                    _write(file, "C", at_us, key)
                case Accepted(at_us, key, due_us):
                    _write(file, "A", at_us, key, due_us)
                case _:
                    pass
        await asyncio.sleep(_LOOK_S)


async def _endings(client: AsyncClient, stream: Stream) -> dict[str, FinalRecord]:
    """What the store says of each accepted task when it has had time to finish; nothing of those it does not know."""
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def get(task_id: str) -> TaskInfo | None:
        async with at_once:
            with suppress(TaskNotFound):
                return await client.get(task_id)
            return None

    known = {each.id: each for each in await asyncio.gather(*map(get, stream.accepted.values())) if each}
    finished = {each.id: each for each in await client.wait(known, timeout=SETTLE_S)}
    found: dict[str, FinalRecord] = {}
    for key, task_id in stream.accepted.items():
        if task_id in known and (task := finished.get(task_id) or await get(task_id)) is not None:
            found[key] = _ending(task)
    return found


def _ending(task: TaskInfo) -> FinalRecord:
    return FinalRecord(task.status.name, task.status.finished, task.attempts, task.losses, task.result)


def _write(file: IO[str], *words: Any) -> None:
    file.write(json.dumps(words) + "\n")


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Load(**json.loads(sys.argv[4]))))
