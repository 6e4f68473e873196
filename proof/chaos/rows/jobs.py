"""Row: recurring jobs under three store consumers that are killed and started again at random.

The record of the runs judges, with the ticks that each job's schedule says there are: one task of each, none early, none missing.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient
from atf.embedded.child import Child
from proof.chaos import ticks
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.ticks import TickRun

JOBS: Final = 1_000
PERIODS_S: Final = (1, 2, 3, 4, 5)
CONSUMERS: Final = 3
TRIAL_S: Final = 60.0
LIFE_S: Final = (1.0, 10.0)
"""Seconds between two kills, at least and at most."""
DEAD_S: Final = (0.0, 3.0)
"""Seconds until one that was killed is started again; the one that `atf up` keeps alive comes back by itself."""
EXECUTORS: Final = 2
_AHEAD_S: Final = 5.0
"""Seconds until the first ticks: all jobs are made by then, or the row says so."""
_CALLERS: Final = 16
_QUIET_S: Final = 5.0
"""Seconds without a run after which, with no job left, nothing more comes."""
_DRAIN_S: Final = 300.0
LATE_S: Final = 5.0
"""Seconds after its instant within which a tick has become a task where no consumer was killed for a while."""
_US: Final = 1_000_000


class JobsConsumer:
    """A store consumer beside the cluster's own."""

    def __init__(self, env: Mapping[str, str], partitions: int, log: Path) -> None:
        self._env, self._log = env, log
        self._flags = ["--listen", "127.0.0.1:0", "--partitions", str(partitions)]
        self._child: Child | None = None

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "atf.cli", "store-consumer", *self._flags]
        self._child = Child(command, env=self._env, on_line=self._line)

    async def kill(self) -> None:
        if self._child is not None:
            self._child.kill_group()
            await self._child.wait()

    def _line(self, line: str) -> None:
        with self._log.open("a", encoding="utf-8") as file:
            print(line, file=file)


class JobsCourse:
    """Jobs that tick, and consumers that die."""

    def __init__(self, cluster: Cluster, more: Sequence[JobsConsumer], folder: Path, progress: Progress) -> None:
        self._cluster, self._more, self._folder, self._progress = cluster, more, folder, progress
        self._chance = random.Random()
        self.kills = 0
        self.first_us = 0

    async def begin(self) -> None:
        """Makes the jobs; all tick for the first time at one instant."""
        first = int(time.time() + JOBS / 200 + _AHEAD_S)
        self.first_us = first * _US
        numbers = iter(range(JOBS))

        async def make() -> None:
            for number in numbers:
                task, every = ticks.ran.prepare(number), f"@every {period_s(number)}s"
                due = datetime.fromtimestamp(first, UTC)
                await client.schedule_job(f"ticks/{number}", task, every, due_time=due, misfire="all")

        async with AsyncClient(self._cluster.frontend_address, timeout=60) as client:
            await asyncio.gather(*(make() for _ in range(_CALLERS)))
        if time.time() > first:
            raise OSError(f"{JOBS} jobs were not made before their first tick")

    async def minute(self) -> int:
        """Kills for a while; how often."""
        before, until = self.kills, time.monotonic() + TRIAL_S
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(self._chance.uniform(*LIFE_S), left))
            await self._kill()
        return self.kills - before

    async def _kill(self) -> None:
        which = self._chance.randrange(CONSUMERS)
        self.kills += 1
        if which == 0:
            if self._cluster.pid("store-consumer"):
                self._cluster.kill("store-consumer")
            return
        victim = self._more[which - 1]
        await victim.kill()
        await asyncio.sleep(self._chance.uniform(*DEAD_S))
        victim.start()

    async def end(self) -> Trial:
        """Pauses all jobs once they have caught up, waits for their last ticks, and judges."""
        names = [f"ticks/{number}" for number in range(JOBS)]
        async with AsyncClient(self._cluster.frontend_address, timeout=60) as client:
            await asyncio.sleep(max(PERIODS_S) + _QUIET_S)  # what the last kill held up has come
            settled_us = time.time_ns() // 1000 - round(LATE_S * _US)
            for name in names:
                await client.pause_job(name)
            await self._quiet()
            found = [await client.get_job(name) for name in names]
        made = {number: job.ticks for number, job in enumerate(found)}
        skipped = {number: job.skipped for number, job in enumerate(found)}
        return judge(ticks.read(self._folder), made, skipped, self.first_us, settled_us)

    async def _quiet(self) -> None:
        seen, moved, until = ticks.runs(self._folder), time.monotonic(), time.monotonic() + _DRAIN_S
        while time.monotonic() - moved < _QUIET_S and time.monotonic() < until:
            await asyncio.sleep(0.2)
            if (now := ticks.runs(self._folder)) > seen:
                seen, moved = now, time.monotonic()


def period_s(number: int) -> int:
    """Seconds between two ticks of a job."""
    return PERIODS_S[number % len(PERIODS_S)]


def judge(
    runs: Iterable[TickRun], made: Mapping[int, int], skipped: Mapping[int, int], first_us: int, settled_us: int
) -> Trial:
    """What the record says, beside what the jobs' records say.

    Args:
        runs: of all ticks.
        made: ticks by job, of its record.
        skipped: ticks that made no task, likewise.
        first_us: the first tick of all jobs, µs.
        settled_us: the instant until which every tick must have become a task.
    """
    tasks: dict[tuple[int, int], set[int]] = defaultdict(set)
    wrong_instant = early = count = 0
    late: list[float] = []
    for each in runs:
        count += 1
        tasks[each.job, each.tick].add(each.task)
        wrong_instant += each.due_us != first_us + (each.tick - 1) * period_s(each.job) * _US
        early += each.at_us < each.due_us
        if count % 100 == 0:
            late.append(round((each.at_us - each.due_us) / _US, 3))
    missing = sum((job, tick) not in tasks for job, most in made.items() for tick in range(1, most + 1))
    bars = {
        "ticks made more than one task": sum(len(ids) > 1 for ids in tasks.values()),
        "ticks never ran": missing,
        "runs are of no tick that the job has made": sum(tick > made[job] for job, tick in tasks),
        "ticks were skipped": sum(skipped.values()),
        "runs began before their instant": early,
        "runs had another instant than the schedule's": wrong_instant,
        "jobs are behind": sum(
            first_us + ticks_made * period_s(job) * _US <= settled_us for job, ticks_made in made.items()
        ),
    }
    return {
        "failures": [f"{number} {said}" for said, number in bars.items() if number],
        "ticks": sum(made.values()),
        "runs": count,
        "missing": missing,
        "early": early,
        "start_after_instant_s": late,
    }


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="atf-jobs-"))
    record = folder / "ticks"
    record.mkdir()
    env = environment(folder, **{ticks.FOLDER: str(record)})
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True, executors=EXECUTORS)
    found: list[Trial] = []
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, ["proof.chaos.ticks:app"], env=env, say=say))
        theirs = env | {"ATF_REDIS_URL": cluster.redis_url}
        more = [
            JobsConsumer(theirs, cluster.partitions, folder / f"consumer-{each}.log")
            for each in range(2, CONSUMERS + 1)
        ]
        for each in more:
            each.start()
            stack.push_async_callback(each.kill)
        course = JobsCourse(cluster, more, record, progress)
        await course.begin()
        async for _ in progress.trials(n):
            found.append({"kills": await course.minute()})
            progress.say(f"{found[-1]['kills']} kills; {ticks.runs(record)} runs so far")
        if found:
            found[0] |= await course.end()
    if any(each.get("failures") for each in found):
        progress.say(f"BROKEN: {found[0]['failures']}; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


ROWS: Final = [
    Row(
        name="jobs",
        what=f"{JOBS:,} jobs of 1 to 5 s, misfire all, under {CONSUMERS} store consumers that are killed at random; a trial is a minute",
        bar="every tick makes exactly one task, none early, none missing",
        full=10,
        batch=10,
        run=_run,
    )
]
