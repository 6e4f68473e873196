"""What a system costs when it has nothing to do, what a task costs that waits, and what changes as they grow many."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atf.bench.proc import rss_mib
from proof.benchmarks.floor import Floor
from proof.benchmarks.known import OURS, System
from proof.benchmarks.question import Bar, Figures, Question, Sizes, able, per_task_us, ran
from proof.benchmarks.roles import BenchError
from proof.benchmarks.world import BenchmarkWorld, NotAsked

_SETTLE_S = 5.0
_LATER_S = 86_400.0
_BYTES_WHEN_PENDING = 1_000
"""Bytes per pending task to have free, several times what one takes: a rewrite of the append-only file may copy all of it."""
_REPEATS = 5
_BATCH = 50_000
_EARLY = 10
_MILLION = 1_000_000
_REFERENCE = 20_000
"""Tasks of the load beside each measurement; some seconds."""


async def idle(system: System, sizes: Sizes) -> Figures:
    """CPU of everything that waits for work, in % of a core; the store's apart."""
    async with BenchmarkWorld(system, 8) as world:
        await asyncio.sleep(_SETTLE_S)
        begun, before = time.monotonic(), world.cpu()
        await asyncio.sleep(sizes.seconds)
        seconds = time.monotonic() - begun
        percent = {role: round(100 * used / seconds, 2) for role, used in world.cpu_since(before).items()}
        roles = sum(value for role, value in percent.items() if role not in {"client", "store"})
        return {"percent": round(roles, 2), "percent_by_role": percent}


async def store_bytes(system: System, sizes: Sizes) -> Figures:
    """Bytes of the store per task that waits: for a worker, and for an instant in a day, where a system can do that.

    Of ATF's tasks that wait for a worker `queue_limit` are in their queue; the others are due, and are pushed as it empties.
    """
    found: Figures = {}
    for name in ("queued", "later"):
        async with BenchmarkWorld(system, 2 * sizes.tasks, workers=False) as world:
            if name == "later" and "at" in world.client.lacks:
                continue
            # The first ones pay for what there is one of.
            await world.client.ask("many", first=sizes.tasks, count=100)
            await asyncio.sleep(1.0)
            before = await world.used_bytes()
            if name == "queued":
                await world.client.ask("many", first=0, count=sizes.tasks)
            else:
                await world.client.ask("burst", first=0, count=sizes.tasks, due=time.time() + _LATER_S)
            await asyncio.sleep(1.0)
            found[name] = round((await world.used_bytes() - before) / sizes.tasks, 1)
    return {"bytes": found["queued"], **found}


async def pending(system: System, sizes: Sizes) -> Figures:
    """CPU per task, all processes, with more and more tasks that wait for another day; each the median of some.

    Levels are minutes apart, and a machine's speed changes meanwhile: so the same small load, which has nothing to do with what waits,
    is measured beside each, and growth is that of a task's cost in units of the load's.
    """
    levels: Figures = {}
    not_run: Figures = {}
    most, at_once = max(sizes.pending), sizes.tasks * _REPEATS
    async with BenchmarkWorld(system, most + at_once * len(sizes.pending)) as world:
        waiting, first = 0, most
        for level in sorted(sizes.pending):
            if why := no_room(level - waiting, available_bytes()):
                not_run[f"{level:,} pending"] = why
                continue
            while waiting < level:
                count = min(_BATCH, level - waiting)
                await world.client.ask("burst", first=waiting, count=count, due=time.time() + _LATER_S)
                waiting += count
            await asyncio.sleep(2.0)
            levels[str(level)] = await _with_pending(world, range(first, first + at_once))
            first += at_once
        counts = ran(world, range(most, first))
    return {
        **growth(levels, min(sizes.pending), {"growth": _MILLION, "growth_most": most}),
        "levels": by_level(levels),
        "not_run": not_run,
        **counts,
    }


async def _with_pending(world: BenchmarkWorld, numbers: range) -> Figures:
    """Runs tasks in parts, the reference load before each."""
    costs, loads, rates, count = [], [], [], len(numbers) // _REPEATS
    async with Floor.running() as reference:
        for first in range(numbers.start, numbers.stop, count):
            loads.append(round((await reference.lives(_REFERENCE)).store_cpu_s * 1e6 / _REFERENCE, 2))
            part, before = range(first, first + count), world.cpu()
            told = await world.client.ask("many", first=first, count=count)
            if await world.finished(part):
                raise BenchError(f"{world.ledger.never(part)} of {count} tasks did not run")
            rates.append(count / ((max(world.ledger.starts(part)) - told["begun"]) / 1e9))
            await asyncio.sleep(0.5)
            costs.append(per_task_us(world.cpu_since(before), count))
    totals = [round(sum(each.values()), 2) for each in costs]
    return {
        "cpu_us": statistics.median(totals),
        "to_reference": round(statistics.median(cost / load for cost, load in zip(totals, loads, strict=True)), 3),
        "per_s": round(statistics.median(rates), 1),
        "all_cpu_us": totals,
        "all_reference_us": loads,
        "by_role": costs,
    }


def growth(levels: Mapping[str, Any], least: int, wanted: Mapping[str, int]) -> Figures:
    """What a task costs with so many pending in units of what it costs with the least, by the name of the figure.

    A figure whose level did not run is not there.
    """
    cost = {int(level): each["to_reference"] for level, each in levels.items()}
    return {
        name: round(cost[level] / cost[least], 3) for name, level in wanted.items() if level in cost and least in cost
    }


def by_level(levels: Mapping[str, Figures]) -> dict[str, Figures]:
    """The levels for a table and a picture: each with what a task costs there in units of what it costs with the fewest."""
    least = min(map(int, levels), default=0)
    return {
        f"{int(level):,} pending": each | growth(levels, least, {"growth": int(level)})
        for level, each in levels.items()
    }


def available_bytes() -> int:
    """Memory that is to be had, the page cache's that would be given up included."""
    said = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return int(next(line for line in said if line.startswith("MemAvailable:")).split()[1]) << 10


def no_room(more: int, available: int) -> str:
    """Why so many more pending tasks should not be stored in so many bytes of memory; "": they may be."""
    need = more * _BYTES_WHEN_PENDING
    if available >= need:
        return ""
    return f"{more:,} more pending tasks want {need >> 20} MiB of memory, and {available >> 20} are available"


async def memory(system: System, sizes: Sizes) -> Figures:
    """Resident memory of every process after a tenth of very many tasks, and after all of them, through one start of all roles.

    Without the ledger: of that, 9 bytes per task have become resident in every executor, and are the measurement's own.
    """
    if not system.ours:
        raise NotAsked("asked of ATF alone")
    numbers, early = range(sizes.million), sizes.million // _EARLY
    found: dict[str, dict[str, float]] = {}
    async with BenchmarkWorld(system, sizes.million) as world:
        able(world, "many")
        pids = world.pids()
        for start in range(0, sizes.million, step := min(_BATCH, early)):
            await world.client.ask("many", first=start, count=step)
            if await world.finished(range(start, start + step)):
                raise BenchError("tasks did not run")
            if start + step in {early, sizes.million}:
                await asyncio.sleep(1.0)
                if sorted(by_name(world.pids()).values()) != sorted(by_name(pids).values()):
                    raise BenchError("a process ended and was started again: what it keeps can't be told")
                found[str(start + step)] = {
                    name: round(rss_mib(pid) - world.ledger.resident_mib(pid), 2) for name, pid in by_name(pids).items()
                }
        worst, ratios = grown(found[str(early)], found[str(sizes.million)])
        return {"worst_growth": worst, "ratios": ratios, "rss_mib": found, **ran(world, numbers)}


def by_name(pids: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Every process by the name of its role, with a number where there are several."""
    return {
        f"{role} {number}" if len(each) > 1 else role: pid
        for role, each in pids.items()
        for number, pid in enumerate(each, 1)
    }


def grown(first: Mapping[str, float], last: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """The largest growth of any one process of a role, and that of every process: client and store are no roles, and the store keeps records.

    Args:
        first: MiB by process.
        last: the same later.
    """
    ratios = {name: round(last[name] / before, 3) for name, before in first.items()}
    return max(ratio for name, ratio in ratios.items() if name.split()[0] not in {"client", "store"}), ratios


QUESTIONS = [
    Question(
        name="idle",
        what="CPU of all processes but the store and the client while there is nothing to do, in % of a core",
        figure="percent",
        unit="%",
        more=False,
        measure=idle,
        sizes=("seconds",),
        also=("percent_by_role.store",),
        paired=False,
        bars=(Bar(words="at most 2 % of a core", figure="percent", limit=2.0, least=False),),
    ),
    Question(
        name="bytes",
        what="bytes of the store per task that is due and waits for a worker, with a payload of 20 bytes",
        figure="bytes",
        unit="bytes",
        more=False,
        measure=store_bytes,
        sizes=("tasks",),
        also=("later",),
        paired=False,
        bars=(Bar(words="at most 450 bytes", figure="bytes", limit=450.0, least=False),),
    ),
    Question(
        name="pending",
        what="CPU per task while others wait for another day (a million, in the table of systems), in units of what it is with a thousand",
        figure="growth",
        unit="×",
        more=False,
        measure=pending,
        sizes=("tasks", "pending"),
        also=("growth_most",),
        by_level=("growth", "cpu_us", "to_reference", "per_s"),
        systems=(OURS,),
        bars=(Bar(words="at most 1.3 × with a million", figure="growth", limit=1.3, least=False),),
    ),
    Question(
        name="memory",
        what="resident memory of the process that grew most, store and client left out, after all of a million tasks in units of what it was after the first tenth",
        figure="worst_growth",
        unit="×",
        more=False,
        measure=memory,
        sizes=("million",),
        systems=(OURS,),
        also=("ratios", "rss_mib.100000", "rss_mib.1000000"),
        bars=(Bar(words="at most 1.1 ×, every process of a role", figure="worst_growth", limit=1.1, least=False),),
    ),
]
