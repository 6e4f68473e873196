"""Who else wants room of a full store: a job, whose ticks become tasks, and tasks that ask `ctx.first_time`.

The store refuses both. A tick comes up again, and a task whose question was refused has used up an attempt, and makes another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from atf.client import AsyncClient, TaskInfo

from . import ticks
from .frame import Trial
from .rows.jobs import judge as judge_ticks, period_s

JOB: Final = "ticks/full"
_JOB: Final = 0
"""Its number."""
FIRSTS: Final = 20
_AHEAD_S: Final = 2
_QUIET_S: Final = 5.0
"""Seconds in which a tick that was due becomes a task and runs, once there is room."""
_US: Final = 1_000_000


class Wanting:
    """A job, and tasks that ask, through one time that the store is full.

    Args:
        client: of the frontend.
        folder: where the lambdas of ticks.py write.
    """

    def __init__(self, client: AsyncClient, folder: Path) -> None:
        self._client, self._folder = client, folder
        self._asking: list[str] = []
        self._first_us = 0

    async def begin(self, since_s: float, until_s: float) -> None:
        """Makes the job, and schedules the tasks, due between two instants, in seconds from now. The store is not full yet."""
        first = int(time.time()) + _AHEAD_S
        self._first_us = first * _US
        due = datetime.fromtimestamp(first, UTC)
        task, every = ticks.ran.prepare(_JOB), f"@every {period_s(_JOB)}s"
        await self._client.schedule_job(JOB, task, every, due_time=due, misfire="all", overlap="allow")
        step = (until_s - since_s) / FIRSTS
        tasks = [ticks.first.options(delay=since_s + step * number).prepare(number) for number in range(FIRSTS)]
        self._asking = [each.id for each in await self._client.schedule_many(tasks)]

    async def end(self, within: float) -> Trial:
        """Waits until all has come, at most so many seconds, and judges."""
        asked = await self._client.wait(self._asking, timeout=within)
        settled_us = await self._caught_up(within)
        await self._client.pause_job(JOB)
        await asyncio.sleep(_QUIET_S)
        job, runs = await self._client.get_job(JOB), ticks.read(self._folder)
        ticked = [each for each in runs if each.job == _JOB]
        found = judge_ticks(ticked, {_JOB: job.ticks}, {_JOB: job.skipped}, self._first_us, settled_us)
        trial = judge(found, [each.tick for each in runs if each.job == ticks.FIRST], asked, len(self._asking))
        return trial | {"tick_late_s": [round((each.at_us - each.due_us) / _US, 2) for each in ticked]}

    async def _caught_up(self, within: float) -> int:
        """Waits until no tick is behind; the instant (µs) until which all must have come."""
        until = time.monotonic() + within
        while True:
            now_us = time.time_ns() // 1000
            job = await self._client.get_job(JOB)
            if self._first_us + job.ticks * period_s(_JOB) * _US > now_us - _US or time.monotonic() > until:
                return now_us - _US
            await asyncio.sleep(0.2)


def judge(ticked: Trial, firsts: Sequence[int], asked: Sequence[TaskInfo], asking: int) -> Trial:
    """What came of both.

    Args:
        ticked: what the judge of ticks says of the job's.
        firsts: the numbers of the tasks that were the first, a number a run.
        asked: the tasks that asked and have finished.
        asking: how many there were.
    """
    refused = sum(each.attempts - 1 for each in asked)
    bars = {
        "tasks that asked first_time did not succeed": asking - sum(each.status.name == "SUCCESS" for each in asked),
        "tasks that asked first_time were not the first": asking - len(set(firsts)),
        "no first_time was refused while the store was full": int(refused == 0),
    }
    return {
        "failures": [*ticked["failures"], *(f"{count} × {said}" for said, count in bars.items() if count)],
        "ticks": ticked["ticks"],
        "first_time_refused": refused,
    }
