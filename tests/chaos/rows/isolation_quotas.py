"""Row: limits of lambdas, over four partitions, three store consumers and two controllers, one of each kind of role killed at random.

First a minute of a flood against `rate`, with nothing killed; then a minute of a flood against `max_running`, in which every role and
executors are killed again and again. The lambdas' own record judges.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import redis

from atf.cli.cluster import Cluster, ClusterSettings
from atf.client import AsyncClient
from tests.chaos import limited
from tests.chaos.another import Another
from tests.chaos.bench import environment
from tests.chaos.frame import Progress, Row, Trial

PARTITIONS: Final = 4
CONSUMERS: Final = 3
TRIAL_S: Final = float(os.environ.get("ATF_QUOTAS_SECONDS", "60"))
WITHIN: Final = 0.01
"""Share by which what ran in the time may miss rate × time."""
BURST: Final = limited.RATE * 5 // 4
RUN_S: Final = (0.05, 0.5)
LIFE_S: Final = (0.5, 3.0)
"""Seconds between two kills, at least and at most."""
ROLES: Final = ("store-consumer", "hsc", "frontend", "controller", "executor", "store", "another")
_QUIET_S: Final = 120.0
"""Seconds after the last kill within which everything has run."""
_US: Final = 1_000_000


class Course:
    """A minute against each limit."""

    def __init__(self, cluster: Cluster, more: Sequence[Another], record: Path) -> None:
        self._cluster, self._more, self._record = cluster, more, record
        self._chance = random.Random()

    async def paced(self, number: int) -> Trial:
        """A flood of twice what may be pushed; how it was paced."""
        before = len(limited.read(self._record, "paced"))
        count = round(limited.RATE * TRIAL_S * 1.5) + BURST
        tasks = [limited.paced.options(key=f"p{number}-{each}").prepare() for each in range(count)]
        began_us = time.time_ns() // 1000
        async with AsyncClient(self._cluster.frontend_address, timeout=60) as client:
            for start in range(0, count, 250):
                await client.schedule_many(tasks[start : start + 250])
            await asyncio.sleep(TRIAL_S + 2)
            pushed = self._pushed(f"p{number}-")
            await self._until(lambda: len(limited.read(self._record, "paced")) - before >= count)
        runs = [each.at_us for each in limited.read(self._record, "paced")[before:]]
        trial = judge_rate(pushed, runs, began_us)
        trial["failures"] += [f"{len(runs)} of {count} have run"] if len(runs) != count else []
        return trial

    def _pushed(self, prefix: str) -> list[int]:
        """When each task was pushed, µs, as the store noted it."""
        with redis.Redis.from_url(self._cluster.redis_url) as store:
            keys = [each for each in store.scan_iter("atf:{*}:t:*", count=1000) if f"-{prefix}".encode() in each]
            reading = store.pipeline(transaction=False)
            for key in keys:
                reading.hget(key, "t2")
            return sorted(int(at) for at in reading.execute() if at)

    async def few(self, number: int) -> Trial:
        """A flood of what runs for a while, and kills; how many ran at once."""
        before = len(limited.read(self._record, "few"))
        mean_s = sum(RUN_S) / 2
        count = round(limited.MAX_RUNNING * TRIAL_S / mean_s * 0.6)
        made = [(f"f{number}-{each}", self._chance.uniform(*RUN_S)) for each in range(count)]
        async with AsyncClient(self._cluster.frontend_address, timeout=60) as client:
            tasks = [limited.few.options(key=key).prepare(seconds) for key, seconds in made]
            for start in range(0, count, 250):
                await client.schedule_many(tasks[start : start + 250])
            kills, until = 0, time.monotonic() + TRIAL_S
            while time.monotonic() < until:
                await asyncio.sleep(self._chance.uniform(*LIFE_S))
                kills += await self._kill()
        await self._until(lambda: len(limited.read(self._record, "few")) - before >= count)
        runs = limited.read(self._record, "few")[before:]
        most = max((each.beside for each in runs), default=0)
        failures = [f"{most} ran at once, {limited.MAX_RUNNING} may"] if most > limited.MAX_RUNNING else []
        failures += [f"{len(runs)} of {count} have run"] if len(runs) < count else []
        return {"failures": failures, "kills": kills, "runs": len(runs), "most_running": most}

    async def _kill(self) -> int:
        role = self._chance.choice(ROLES)
        if role == "another":
            victim = self._chance.choice(self._more)
            await victim.kill()
            await asyncio.sleep(self._chance.uniform(0, 1))
            victim.start()
            return 1
        if role == "executor":
            workers = [each.worker for each in self._cluster.executors() if each.worker]
            if workers:
                os.kill(self._chance.choice(workers), signal.SIGKILL)
            return len(workers[:1])
        if self._cluster.pid(role):
            self._cluster.kill(role)
            return 1
        return 0

    async def _until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + _QUIET_S
        while not holds() and time.monotonic() < until:
            await asyncio.sleep(0.5)


def judge_rate(pushed: Sequence[int], runs: Sequence[int], began_us: int, seconds: float = TRIAL_S) -> Trial:
    """What a flood against the rate came to.

    Args:
        pushed: when each was pushed, µs, in order.
        runs: when each began, µs, in order, by the lambda's own record. On a machine that is short of processors they begin late, and in
            crowds; how late is told, and fails nothing.
        began_us: when the flood did.
        seconds: of the flood.
    """
    first, most = pushed[0] if pushed else 0, _most_in_a_second(pushed)
    count = sum(each < first + seconds * _US for each in pushed)
    due = limited.RATE * seconds
    failures = [f"{count} were pushed in {seconds:g} s, not {due:g} ± 1 %"] if abs(count - due) > due * WITHIN else []
    failures += [f"{most} were pushed in one second, {BURST} may be"] if most > BURST else []
    return {
        "failures": failures,
        "pushed": count,
        "ran": sum(each < first + seconds * _US for each in runs),
        "pushed_in_a_second": most,
        "began_in_a_second": _most_in_a_second(runs),
        "first_after_s": round((first - began_us) / _US, 3),
    }


def _most_in_a_second(instants: Iterable[int]) -> int:
    window: deque[int] = deque()
    most = 0
    for at_us in instants:
        window.append(at_us)
        while window[0] <= at_us - _US:
            window.popleft()
        most = max(most, len(window))
    return most


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="atf-quotas-"))
    record = limited.made(folder / "record")
    env = environment(folder, **{limited.FOLDER: str(record)})
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True, executors=2, partitions=PARTITIONS)
    found: list[Trial] = []
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, ["tests.chaos.limited:app"], env=env, say=say))
        theirs = env | {"ATF_REDIS_URL": cluster.redis_url}
        of_store = ["--listen", "127.0.0.1:0", "--partitions", str(PARTITIONS)]
        more = [Another(theirs, ["store-consumer", *of_store], folder / f"consumer-{each}.log") for each in (2, 3)]
        addresses = ["--hsc", cluster.addresses["hsc"], "--frontend", cluster.frontend_address]
        words = ["controller", *of_store, "--executors", "1", *addresses, "tests.chaos.limited:app"]
        more.append(Another(theirs, words, folder / "controller-2.log"))
        for each in more:
            each.start()
            stack.push_async_callback(each.kill)
        await asyncio.sleep(3)
        course = Course(cluster, more, record)
        async for number in progress.trials(n):
            rate = await course.paced(number)
            progress.say(f"rate: {rate}")
            few = await course.few(number)
            progress.say(f"max_running: {few}")
            found.append({**few, **rate, "failures": [*rate["failures"], *few["failures"]]})
    if any(each["failures"] for each in found):
        progress.say(f"BROKEN; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


ROWS: Final = [
    Row(
        name="quotas",
        what=(
            f"rate {limited.RATE}/s and max_running {limited.MAX_RUNNING} over {PARTITIONS} partitions, {CONSUMERS} store consumers and"
            " 2 controllers; a trial is a minute of a flood against each, the second under kills of every role"
        ),
        bar=f"{limited.RATE} × 60 ± 1 % pushed in 60 s, never above {BURST} in any second; never {limited.MAX_RUNNING + 1} run at once",
        full=5,
        batch=5,
        run=_run,
    )
]
