"""How many tasks a second with more servers, partitions and processes of each role, and what each of them pays for that."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from atf.bench.proc import cpu_s
from proof.benchmarks.known import OURS, System
from proof.benchmarks.ours import Layout
from proof.benchmarks.question import Figures, Question, Sizes, ran
from proof.benchmarks.stores import LoopbackStore, Said
from proof.benchmarks.world import BenchmarkWorld

PARTITIONS: Final = (1, 2, 4)
"""On the cluster they lie on one, two and all three of its masters, one of which then has two."""
TURNS: Final = 5
_REPORTED_S: Final = 0.5
"""What is reported and swept after the last start belongs to the cost."""


@dataclass(frozen=True)
class Level:
    """One installation that is measured."""

    name: str
    cluster: bool
    layout: Layout


def _two_of_each(partitions: int) -> Layout:
    return Layout(frontends=2, hscs=2, store_consumers=2, controllers=2, partitions=partitions)


def _named(servers: str, partitions: int) -> str:
    return f"{servers}, {partitions} partition{'s' if partitions > 1 else ''}"


LEVELS: Final = (
    *(Level(_named("1 server", each), cluster=False, layout=Layout(partitions=each)) for each in PARTITIONS),
    Level("1 server, 4 partitions, 2 of each", cluster=False, layout=_two_of_each(4)),
    *(Level(_named("3 masters", each), cluster=True, layout=Layout(partitions=each)) for each in PARTITIONS),
    Level("3 masters, 4 partitions, 2 of each", cluster=True, layout=_two_of_each(4)),
)


async def scale(system: System, sizes: Sizes) -> Figures:
    """Every level runs all the time, and gets a part of its tasks in each turn: a machine's speed may change from minute to minute."""
    bounds = [sizes.tasks * turn // TURNS for turn in range(TURNS + 1)]
    async with contextlib.AsyncExitStack() as stack:
        running = []
        for level in LEVELS:
            world = BenchmarkWorld(system, sizes.tasks, layout=level.layout, cluster=level.cluster)
            running.append(Running(await stack.enter_async_context(world)))
        for first, end in pairwise(bounds):
            for each in random.sample(running, len(running)):
                await each.run(range(first, end))
        levels = {level.name: each.figures(range(sizes.tasks)) for level, each in zip(LEVELS, running, strict=True)}
    return {
        "per_s": levels[LEVELS[-1].name]["per_s"],
        "levels": levels,
        "never": sum(each["never"] for each in levels.values()),
        "twice": sum(each["twice"] for each in levels.values()),
    }


class Running:
    """A level that runs: what its turns took together."""

    def __init__(self, world: BenchmarkWorld) -> None:
        assert isinstance(world.store, LoopbackStore)
        self._world, self._store, self._pids = world, world.store, world.pids()
        self._seconds = self._scheduling = 0.0
        self._cpu_s: Counter[int] = Counter()
        self._bytes = Said(0, 0, 0)

    async def run(self, numbers: range) -> None:
        """One turn: from the first call of the clients to the last start; of CPU and bytes, until all is reported."""
        said, before = await self._store.said(), self._used()
        told = await self._world.many(numbers)
        await self._world.finished(numbers)
        await asyncio.sleep(_REPORTED_S)
        self._world.must_live(before)
        self._cpu_s.update({pid: used - before[pid] for pid, used in self._used().items()})
        now = await self._store.said()
        self._bytes = Said(*(sum_ + after - had for sum_, after, had in zip(self._bytes, now, said, strict=True)))
        self._seconds += (max(self._world.ledger.starts(numbers)) - told["begun"]) / 1e9
        self._scheduling += (told["ended"] - told["begun"]) / 1e9

    def _used(self) -> dict[int, float]:
        return {pid: cpu_s(pid) for pids in self._pids.values() for pid in pids}

    def figures(self, numbers: range) -> Figures:
        """Of all turns together."""
        tasks = len(numbers)
        used = {role: [self._cpu_s[pid] * 1e6 / tasks for pid in pids] for role, pids in self._pids.items()}
        by_role = {role: sum(each) for role, each in used.items()}
        return {
            "per_s": round(tasks / self._seconds, 1),
            "scheduled_per_s": round(tasks / self._scheduling, 1),
            "cpu_us_total": round(sum(by_role.values()), 2),
            "cpu_us": {role: round(us, 2) for role, us in by_role.items()},
            **({"busiest_server": round(max(used["store"]) / by_role["store"], 3)} if by_role["store"] else {}),
            "cpu_us_by_process": {role: [round(us, 2) for us in each] for role, each in used.items()},
            "store_bytes": {name: round(each / tasks, 1) for name, each in self._bytes._asdict().items()},
            **ran(self._world, numbers),
        }


QUESTIONS = [
    Question(
        name="scale",
        what="no-op tasks per second while they are being scheduled, by servers, partitions and processes of each role",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=scale,
        sizes=("tasks",),
        systems=(OURS,),
        by_level=("per_s", "cpu_us_total", "cpu_us", "busiest_server", "store_bytes"),
    ),
]
