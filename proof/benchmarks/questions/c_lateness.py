"""How late tasks start: many that are due at one instant, a steady stream scheduled ahead, and single ones that are due at once."""

from __future__ import annotations

import asyncio
import math
import random
import time
from dataclasses import replace

from proof.benchmarks.driver import LATER
from proof.benchmarks.known import NO_WAKEUPS, OURS, PEERS, System
from proof.benchmarks.question import Bar, Figures, Question, Sizes, able, per_task_us, ran, wall_minus_monotonic_ns
from proof.benchmarks.roles import BenchError
from proof.benchmarks.stats import lateness
from proof.benchmarks.world import BenchmarkWorld

_LEAD_S = 8.0
_READY_S = 1.0
"""Seconds before the instant at which everything must have been scheduled."""
_AHEAD_S = (1.0, 10.0)
_SLACK_NS = 200_000
"""By which two readings of the difference of two clocks may differ."""
_WITHIN_S = 120.0
_NS = 1e9


def _for_later(system: System) -> System:
    return replace(system, env={**system.env, LATER: "1"})


async def burst(system: System, sizes: Sizes) -> Figures:
    """Tasks due at one instant, a whole second, scheduled some seconds before."""
    numbers, lead = range(sizes.burst), _LEAD_S
    async with BenchmarkWorld(_for_later(system), sizes.burst) as world:
        able(world, "at")
        due = float(math.ceil(time.time() + lead))
        await world.client.ask("burst", first=0, count=sizes.burst, due=due)
        if time.time() > due - _READY_S:
            raise BenchError(f"{sizes.burst} tasks were not scheduled within {lead - _READY_S:g} s")
        await asyncio.sleep(due - time.time())
        await world.finished(numbers, within=_WITHIN_S)
        due_ns = due * _NS - wall_minus_monotonic_ns()
        starts = world.ledger.starts(numbers)
        return {"lateness_ms": lateness([due_ns] * len(numbers), starts, _SLACK_NS), **ran(world, numbers)}


async def ahead(system: System, sizes: Sizes) -> Figures:
    """A steady stream of tasks, each due 1 to 10 seconds after its call."""
    count = int(sizes.per_s * sizes.seconds)
    numbers, (least, most) = range(count), _AHEAD_S
    async with BenchmarkWorld(_for_later(system), count) as world:
        able(world, "at")
        seed, before = random.getrandbits(32), world.cpu()
        told = await world.client.ask(
            "ahead", first=0, count=count, per_s=sizes.per_s, least=least, most=most, seed=seed
        )
        await world.finished(numbers, within=most + _WITHIN_S)
        cpu_us = per_task_us(world.cpu_since(before), count)
        offset = wall_minus_monotonic_ns()
        due = [each * _NS - offset for each in told["due"]]
        late = lateness(due, world.ledger.starts(numbers), _SLACK_NS)
        return {
            "lateness_ms": late,
            "scheduled_per_s": round(told["per_s"], 1),
            "cpu_us_total": round(sum(cpu_us.values()), 2),
            "cpu_us": cpu_us,
            **ran(world, numbers),
        }


async def wakeups(system: System, sizes: Sizes) -> Figures:
    """Single tasks, due at once, each scheduled when the one before has run and some time has passed."""
    numbers, called = range(sizes.singles), []
    async with BenchmarkWorld(system, sizes.singles) as world:
        for number in numbers:
            told = await world.client.ask("one", first=number, count=1)
            called.append(told["begun"])
            await world.finished(range(number, number + 1))
            await asyncio.sleep(random.uniform(0.0, 0.2))
        return {"lateness_ms": lateness(called, world.ledger.starts(numbers)), **ran(world, numbers)}


QUESTIONS = [
    Question(
        name="burst",
        what="lateness of tasks that are all due at one instant, p99",
        figure="lateness_ms.p99",
        unit="ms",
        more=False,
        measure=burst,
        sizes=("burst",),
        also=("lateness_ms.p50", "lateness_ms.early"),
        bars=(
            Bar(
                words="a third of the best peer's, Huey included",
                figure="lateness_ms.p99",
                limit=1 / 3,
                least=False,
                against=PEERS,
            ),
            Bar(words="none early", figure="lateness_ms.early", limit=0.0, least=False),
        ),
    ),
    Question(
        name="ahead",
        what="lateness of a steady stream of tasks scheduled 1 to 10 seconds ahead, p99",
        figure="lateness_ms.p99",
        unit="ms",
        more=False,
        measure=ahead,
        sizes=("per_s", "seconds"),
        also=("lateness_ms.p50", "lateness_ms.early", "cpu_us_total", "cpu_us"),
        bars=(
            Bar(words="p50 at most 10 ms", figure="lateness_ms.p50", limit=10.0, least=False),
            Bar(words="p99 at most 50 ms", figure="lateness_ms.p99", limit=50.0, least=False),
            Bar(words="none early", figure="lateness_ms.early", limit=0.0, least=False),
        ),
    ),
    Question(
        name="wakeups",
        what="from the call that schedules a single task to its start, with wake-ups and with poll_interval (1 s) alone, p99",
        figure="lateness_ms.p99",
        unit="ms",
        more=False,
        measure=wakeups,
        sizes=("singles",),
        systems=(OURS, NO_WAKEUPS),
        also=("lateness_ms.p50",),
    ),
]
