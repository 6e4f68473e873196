"""What a task that does nothing costs as `def`, in a thread, and as `async def`, on an event loop."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from itertools import pairwise
from typing import Final

from proof.benchmarks.known import OURS, System
from proof.benchmarks.question import Bar, Figures, Question, Sizes
from proof.benchmarks.systems.atf import LAMBDA
from proof.benchmarks.world import BenchmarkWorld

from .g_scale import TURNS, Running

KINDS: Final = ("def", "async def")


async def kinds(system: System, sizes: Sizes) -> Figures:
    """Both run all the time, and get a part of their tasks in each turn: a machine's speed may change from minute to minute."""
    bounds = [sizes.tasks * turn // TURNS for turn in range(TURNS + 1)]
    async with contextlib.AsyncExitStack() as stack:
        running = {}
        for kind in KINDS:
            world = BenchmarkWorld(replace(system, env={**system.env, LAMBDA: kind}), sizes.tasks, cluster=False)
            running[kind] = Running(await stack.enter_async_context(world))
        for first, end in pairwise(bounds):
            for kind in random.sample(KINDS, len(KINDS)):
                await running[kind].run(range(first, end))
        levels = {kind: each.figures(range(sizes.tasks)) for kind, each in running.items()}
    of_def, of_async = (levels[kind]["cpu_us"]["executors"] for kind in KINDS)
    return {
        "cpu_us_def": of_def,
        "cpu_us_async_def": of_async,
        **({"def_per_async_def": round(of_def / of_async, 3)} if of_async else {}),
        "levels": levels,
        "never": sum(each["never"] for each in levels.values()),
        "twice": sum(each["twice"] for each in levels.values()),
    }


QUESTIONS = [
    Question(
        name="kinds",
        what="CPU of the executors per no-op task, as `def` and as `async def`",
        figure="cpu_us_def",
        unit="µs",
        more=False,
        measure=kinds,
        sizes=("tasks",),
        systems=(OURS,),
        also=("cpu_us_async_def", "def_per_async_def"),
        by_level=("cpu_us.executors", "cpu_us_total", "per_s"),
        bars=(
            Bar(
                words="close: a `def` takes at most 1.3 × the CPU of an `async def`",
                figure="def_per_async_def",
                limit=1.3,
                least=False,
            ),
        ),
    ),
]
