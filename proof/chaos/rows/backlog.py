"""Row: a million due tasks and no executors for three times the enqueue_timeout, then executors.

ATF_CHAOS_TASKS=100000 makes the backlog smaller. The steady rate is that of the same executors just before, while tasks are
scheduled as they are run. Both rates are of the middle of what was run: neither start nor end of it counts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from redis.exceptions import RedisError

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient
from atf.embedded.child import Child
from atf.store import keys
from proof.chaos import tally
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.storewatch import connect

TASKS: Final = 1_000_000
ENQUEUE_TIMEOUT_S: Final = 10.0
TIMES: Final = 3
EXECUTORS: Final = 2
CLIENTS: Final = 2
DRAIN_BAR: Final = 0.9
OUTSTANDING: Final = 2_000
"""Tasks scheduled and not run, while the steady rate is measured."""
_NAME: Final = "tally/tick"
_SAMPLE_S: Final = 0.5
_SAY_S: Final = 10.0
_STALLED_S: Final = 60.0
_MIDDLE: Final = 0.1
"""Share of a course that is left out at each end."""


class Queue:
    """Looks again and again whether the queue has more entries than there are tasks for it."""

    def __init__(self, url: str) -> None:
        self.looks, self.too_many, self.longest, self.live = 0, 0, 0, 0
        self._client = connect(url)

    async def look(self) -> None:
        """Looks once: the queue and its tasks at the same instant."""
        queue = keys.queue(_NAME, 1)
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.llen(f"rq:queue:{keys.rq_name(0, queue)}")
            for status in ("ENQUEUED", "NEW", "CLAIMED", "PROCESSING", "RETRIABLE_FAILURE"):
                pipe.zcard(f"{keys.record(0)}:s:{queue}:{status}")
            length, enqueued, *others = await pipe.execute()
        self.looks += 1
        self.too_many += length > enqueued
        self.longest, self.live = max(self.longest, length), enqueued + sum(others)

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            with suppress(RedisError, OSError):
                await self.look()
            await asyncio.sleep(_SAMPLE_S)


class BacklogCourse:
    """One backlog, from its making to its end."""

    def __init__(self, cluster: Cluster, folder: Path, env: dict[str, str], tasks: int, progress: Progress) -> None:
        self._cluster, self._folder, self._env, self._tasks, self._progress = cluster, folder, env, tasks, progress
        self.steady = max(tasks // 20, 5_000)

    async def run(self) -> Trial:
        """Steady work, then the backlog."""
        queue = Queue(self._cluster.redis_url)
        watching = asyncio.create_task(queue.run())
        try:
            await self._flow()
            await self._cluster.halt("controller")
            began = time.monotonic()
            await self._fill(queue)
            filled = time.monotonic() - began
            for number in range(TIMES):
                await asyncio.sleep(ENQUEUE_TIMEOUT_S)
                self._progress.say(f"no executors for {(number + 1) * ENQUEUE_TIMEOUT_S:g} s; {queue.live} tasks live")
            await self._cluster.resume("controller")
            await self._until(lambda: tally.runs(self._folder) >= self.steady + self._tasks)
            await asyncio.sleep(ENQUEUE_TIMEOUT_S)  # time for what runs twice
            await queue.look()
        finally:
            watching.cancel()
        return self._judge(queue, filled)

    async def _flow(self) -> None:
        """Schedules as fast as tasks are run."""
        async with AsyncClient(self._cluster.frontend_address, timeout=60) as client:
            for first in range(0, self.steady, OUTSTANDING // 2):
                await tally.schedule(client, range(first, min(first + OUTSTANDING // 2, self.steady)))
                while first - tally.runs(self._folder) > OUTSTANDING:
                    await asyncio.sleep(0.005)
        await self._until(lambda: tally.runs(self._folder) >= self.steady)

    async def _fill(self, queue: Queue) -> None:
        share = -(-self._tasks // CLIENTS)
        clients = []
        for number in range(CLIENTS):
            first = self.steady + number * share
            count = min(share, self.steady + self._tasks - first)
            words = ["-m", "proof.chaos.tally", self._cluster.frontend_address, str(first), str(count)]
            clients.append(Child([sys.executable, "-P", *words], env=self._env, on_line=self._progress.say))
        said = time.monotonic()
        while any(each.running for each in clients):
            await asyncio.sleep(_SAMPLE_S)
            if time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                self._progress.say(f"{queue.live} of {self._tasks} tasks are scheduled")
        codes = [await each.wait() for each in clients]
        if any(codes):
            raise OSError(f"clients ended with {codes}")

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Waits until something is so, as long as tasks go on being run."""
        moved, before, said = time.monotonic(), 0, time.monotonic()
        while not holds() and time.monotonic() - moved < _STALLED_S:
            await asyncio.sleep(0.1)
            if (now := tally.runs(self._folder)) > before:
                moved, before = time.monotonic(), now
            if time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                self._progress.say(f"{before} runs")

    def _judge(self, queue: Queue, filled: float) -> Trial:
        runs = tally.read(self._folder)
        counts = Counter(number for number, _ in runs)
        twice = sum(count > 1 for count in counts.values())
        missing = self.steady + self._tasks - len(counts)
        steady = rate([at for number, at in runs if number < self.steady])
        drain = rate([at for number, at in runs if number >= self.steady])
        self._progress.say(
            f"steady {steady:.0f}/s, drain {drain:.0f}/s, queue at most {queue.longest}, {queue.looks} looks"
        )
        bars = {
            f"{twice} tasks ran twice": twice,
            f"{missing} tasks did not run": missing,
            f"{queue.live} tasks are still live": queue.live,
            f"the queue had more entries than tasks in {queue.too_many} of {queue.looks} looks": queue.too_many,
        }
        drained = f"drained at {drain:.0f}/s, the steady rate is {steady:.0f}/s"
        return {
            "failures": [said for said, broken in bars.items() if broken],
            "late": [drained] if drain < DRAIN_BAR * steady else [],
            "tasks": self._tasks,
            "ran_twice": twice,
            "missing": missing,
            "steady_per_second": round(steady),
            "drain_per_second": round(drain),
            "queue_longest": queue.longest,
            "looks": queue.looks,
            "filled_s": round(filled, 1),
        }


def rate(instants: Sequence[float]) -> float:
    """Runs per second in the middle of a course; 0 where there are too few."""
    cut = int(len(instants) * _MIDDLE)
    middle = instants[cut : len(instants) - cut]
    return (len(middle) - 1) / (middle[-1] - middle[0]) if len(middle) > 1 and middle[-1] > middle[0] else 0.0


async def _once(progress: Progress) -> Trial:
    folder = Path(tempfile.mkdtemp(prefix="atf-backlog-"))
    record = folder / "tally"
    record.mkdir()
    env = environment(folder, **{tally.FOLDER: str(record)})
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True, executors=EXECUTORS)
    try:
        with (folder / "roles.log").open("w", encoding="utf-8", buffering=1) as log:

            def say(name: str, line: str) -> None:
                print(f"{name:<14} | {line}", file=log)

            async with Cluster(settings, ["proof.chaos.tally:app"], env=env, say=say) as cluster:
                tasks = int(os.environ.get("ATF_CHAOS_TASKS", TASKS))
                trial = await BacklogCourse(cluster, record, env, tasks, progress).run()
    except BaseException:
        progress.say(f"what the roles said is in {folder}/roles.log")
        raise
    if trial["failures"] or trial["late"]:
        progress.say(f"BROKEN; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return trial


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    return [await _once(progress) async for _ in progress.trials(n)]


ROWS: Final = [
    Row(
        name="backlog",
        what=f"{TASKS:,} due tasks and no executors for {TIMES} × enqueue_timeout, then executors",
        bar=f"queue entries never exceed tasks, none runs twice, drained at {DRAIN_BAR:g} of the steady rate at least",
        full=1,
        batch=1,
        run=_run,
    )
]
