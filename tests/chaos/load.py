"""A service on a host of the lab: it schedules a steady stream of tasks until it is told to stop, then asks what became of them.

    python -P -m tests.chaos.load PREFIX --rate 20 --seconds 0.3 --durability replicated

SIGTERM stops the stream. What was not accepted yet is called for again until it is; then the tasks get `--settle` seconds to
finish. What it does and hears goes into the diary.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import time
from typing import Any

from atf.client import AsyncClient, TaskInfo
from atf.errors import AtfError, TaskNotFound
from atf.lambdas import Prepared

from . import diary

_CALL_S = 10.0
"""Seconds that one call takes at most, repetitions by the client included."""
_AT_ONCE = 2_000
"""Calls under way at most: while the store is away they pile up."""
_LATER_EVERY, _LATER_S = 10, 2.0
"""Every tenth task is to run later."""
_LONG_EVERY, _LONG_S = 40, 20.0
"""Some run for so long that they outlast a lease that nobody renews."""


class Load:
    """One stream of tasks."""

    def __init__(self, client: AsyncClient, prefix: str, seconds: float, durability: str) -> None:
        self._client, self._prefix, self._seconds = client, prefix, seconds
        self._more: dict[str, Any] = {"durability": durability} if durability else {}
        self._ids: dict[str, str] = {}  # by key
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def run(self, rate: float, stop: asyncio.Event) -> None:
        """Schedules until `stop`, and returns when all are accepted."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                await self._room.acquire()
                if stop.is_set():
                    break
                group.create_task(self._schedule(number))

    async def _schedule(self, number: int) -> None:
        key = f"{self._prefix}-{number}"
        delay = _LATER_S if number % _LATER_EVERY == 0 else 0.0
        task = diary.work_async if number % 2 else diary.work
        seconds = _LONG_S if number % _LONG_EVERY == 1 else self._seconds
        prepared: Prepared[int] = task.options(key=key, delay=delay, max_losses=100, **self._more).prepare(seconds)
        diary.write("C", key)
        due_us = diary.wall_us() + round(delay * 1e6)
        while key not in self._ids:
            try:
                self._ids[key] = (await self._client.schedule(prepared)).id
            except AtfError as error:
                print(f"{type(error).__name__}: {error}", flush=True)
                await asyncio.sleep(0.1)
        diary.write("A", key, due_us)
        self._room.release()

    async def conclude(self, seconds: float) -> None:
        """Waits for the ends of all tasks, and notes what the store says of each."""
        keys = {task_id: key for key, task_id in self._ids.items()}
        finished = {each.id: each for each in await self._client.wait(keys, timeout=seconds)}
        ahead_us = diary.wall_us() - time.monotonic_ns() // 1000
        for task_id, key in keys.items():
            task = finished.get(task_id) or await self._get(task_id)
            if task is None:
                diary.write("F", key, "-", 0)
                continue
            if isinstance(task.result, int) and task.finished_at is not None:
                took_us = round(task.finished_at.timestamp() * 1e6) - ahead_us
                diary.write_at(took_us, "R", key, task.result)
            diary.write("F", key, task.status.name, int(task.finished_at is not None))

    async def _get(self, task_id: str) -> TaskInfo | None:
        try:
            return await self._client.get(task_id)
        except TaskNotFound:
            return None


async def main() -> None:
    """Runs one load."""
    parser = argparse.ArgumentParser()
    parser.add_argument("prefix")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--durability", default="")
    parser.add_argument("--settle", type=float, default=120)
    given = parser.parse_args()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncClient(timeout=_CALL_S) as client:
        load = Load(client, given.prefix, given.seconds, given.durability)
        await load.run(given.rate, stop)
        print("all accepted", flush=True)
        await load.conclude(given.settle)
    print("concluded", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
