"""How fast recurring jobs are registered, and how fast the ticks of very many that are due at one instant become running tasks."""

from __future__ import annotations

import asyncio
import statistics
import time

from proof.benchmarks.known import OURS, System
from proof.benchmarks.ours import Layout
from proof.benchmarks.question import Bar, Figures, Question, Sizes, ran, wall_minus_monotonic_ns
from proof.benchmarks.roles import BenchError
from proof.benchmarks.stats import percentile
from proof.benchmarks.world import BenchmarkWorld

CONSUMERS = (1, 3, 5)
_LATER_S = 86_400.0
_AHEAD_S = 5.0
"""Seconds between the last registration of a burst and its instant."""
_SLOWEST_PER_S = 400.0
"""Registrations per second that a burst's instant leaves time for."""
_STEP = 20_000


async def jobs(system: System, sizes: Sizes) -> Figures:
    """Registrations per second, each on disk before it is answered, and ticks per second, with more and more store consumers."""
    levels: Figures = {}
    for consumers in CONSUMERS:
        layout = Layout(store_consumers=consumers)
        async with BenchmarkWorld(system, sizes.jobs + sizes.ticks, layout=layout, durability="disk") as world:
            registered = await _register(world, range(sizes.jobs))
            levels[str(consumers)] = registered | await _burst(world, range(sizes.jobs, sizes.jobs + sizes.ticks))
    return {
        "per_s": min(each["per_s"] for each in levels.values()),
        "call_ms_p50": statistics.median(each["call_ms"]["p50"] for each in levels.values()),
        "ticks_per_s": {name: each["ticks_per_s"] for name, each in levels.items()},
        "last_start_s": {name: each["last_start_s"] for name, each in levels.items()},
        "levels": levels,
        "never": sum(each["never"] for each in levels.values()),
        "twice": sum(each["twice"] for each in levels.values()),
    }


async def million_jobs(system: System, sizes: Sizes) -> Figures:
    """Bytes of the store per job, and both rates, with very many."""
    most = sizes.million_jobs
    async with BenchmarkWorld(system, most + sizes.ticks, durability="disk") as world:
        before = await world.used_bytes()
        registered = await _register(world, range(most))
        size = (await world.used_bytes() - before) / most
        return {"bytes": round(size, 1), **registered, **await _burst(world, range(most, most + sizes.ticks))}


async def _register(world: BenchmarkWorld, numbers: range) -> Figures:
    """Jobs that tick once a day, from tomorrow on."""
    seconds, calls = 0.0, []
    for start in range(numbers.start, numbers.stop, _STEP):
        count = min(_STEP, numbers.stop - start)
        told = await world.client.ask("jobs", first=start, count=count, due=time.time() + _LATER_S, every="24h")
        seconds += (told["ended"] - told["begun"]) / 1e9
        calls += [each / 1e6 for each in told["calls_ns"]]
    calls.sort()
    return {
        "per_s": round(len(numbers) / seconds, 1),
        "call_ms": {f"p{each}": round(percentile(calls, each), 2) for each in (50, 99)},
    }


async def _burst(world: BenchmarkWorld, numbers: range) -> Figures:
    """Jobs of one tick each, all due at one instant."""
    due = time.time() + len(numbers) / _SLOWEST_PER_S + _AHEAD_S
    told = await world.client.ask("jobs", first=numbers.start, count=len(numbers), due=due, every="")
    if time.time() > due:
        raise BenchError(
            f"{len(numbers)} jobs took {(told['ended'] - told['begun']) / 1e9:.0f} s to register, longer than until their instant"
        )
    await asyncio.sleep(due - time.time())
    missing = await world.finished(numbers)
    due_ns = due * 1e9 - wall_minus_monotonic_ns()
    starts = [(each - due_ns) / 1e9 for each in world.ledger.starts(numbers) if each]
    return {
        "ticks_per_s": round(len(starts) / max(starts), 1) if starts else 0.0,
        "first_start_s": round(min(starts, default=0.0), 3),
        "last_start_s": round(max(starts, default=0.0), 3),
        "early": sum(each < 0 for each in starts),
        "missing": missing,
        **ran(world, numbers),
    }


QUESTIONS = [
    Question(
        name="jobs",
        what="recurring jobs registered per second, on disk, by 64 concurrent callers of one client; the least of 1, 3 and 5 store consumers",
        figure="per_s",
        unit="jobs/s",
        more=True,
        measure=jobs,
        sizes=("jobs", "ticks"),
        systems=(OURS,),
        also=("call_ms_p50", "ticks_per_s", "last_start_s"),
        bars=(Bar(words="at least 1,000/s", figure="per_s", limit=1_000.0, least=True),),
    ),
    Question(
        name="million-jobs",
        what="bytes of the store per recurring job, with very many",
        figure="bytes",
        unit="bytes",
        more=False,
        measure=million_jobs,
        sizes=("million_jobs", "ticks"),
        systems=(OURS,),
        also=("per_s", "call_ms", "ticks_per_s", "last_start_s"),
        rounds=1,
    ),
]
