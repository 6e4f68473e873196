"""What a system costs when it has nothing to do, what a task costs that waits, and what changes as they grow many."""

from __future__ import annotations

import asyncio
import os
import statistics
import time

from atf.bench.proc import less, rss_by_role
from tests.bench.known import OURS, System
from tests.bench.question import Bar, Figures, Question, Sizes, able, per_task_us, ran
from tests.bench.roles import BenchError
from tests.bench.world import NotAsked, World

_SETTLE_S = 5.0
_LATER_S = 86_400.0
_BYTES_WHEN_PENDING = 1_000
"""Bytes per pending task to have free, several times what one takes: a rewrite of the append-only file may copy all of it."""
_REPEATS = 5
_BATCH = 50_000
_EARLY = 10
_MILLION = 1_000_000


async def idle(system: System, sizes: Sizes) -> Figures:
    """CPU of everything that waits for work, in % of a core; the store's apart."""
    async with World(system, 8) as world:
        await asyncio.sleep(_SETTLE_S)
        begun, before = time.monotonic(), world.cpu()
        await asyncio.sleep(sizes.seconds)
        seconds = time.monotonic() - begun
        percent = {role: round(100 * used / seconds, 2) for role, used in less(world.cpu(), before).items()}
        roles = sum(value for role, value in percent.items() if role not in {"client", "store"})
        return {"percent": round(roles, 2), "percent_by_role": percent}


async def store_bytes(system: System, sizes: Sizes) -> Figures:
    """Bytes of the store per task that waits: in its queue, and for an instant in a day, where a system can do that."""
    found: Figures = {}
    for name in ("queued", "later"):
        async with World(system, 2 * sizes.tasks, workers=False) as world:
            if name == "later" and "at" in world.client.lacks:
                continue
            # The first ones pay for what there is one of, and ATF's queue is as full as it gets.
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
    """CPU per task, all processes, with more and more tasks that wait for another day; each the median of some."""
    levels: Figures = {}
    not_run: Figures = {}
    most, at_once = max(sizes.pending), sizes.tasks * _REPEATS
    async with World(system, most + at_once * len(sizes.pending)) as world:
        waiting, first = 0, most
        for level in sorted(sizes.pending):
            if why := _no_room(level):
                not_run[f"{level:,} pending"] = why
                continue
            while waiting < level:
                count = min(_BATCH, level - waiting)
                await world.client.ask("burst", first=waiting, count=count, due=time.time() + _LATER_S)
                waiting += count
            await asyncio.sleep(2.0)
            costs, rates = [], []
            for _ in range(_REPEATS):
                numbers = range(first, first + sizes.tasks)
                first = numbers.stop
                before = world.cpu()
                told = await world.client.ask("many", first=numbers.start, count=sizes.tasks)
                if await world.finished(numbers):
                    raise BenchError(f"tasks did not run with {level} pending")
                rates.append(sizes.tasks / ((max(world.ledger.starts(numbers)) - told["begun"]) / 1e9))
                await asyncio.sleep(0.5)
                costs.append(per_task_us(less(world.cpu(), before), sizes.tasks))
            totals = [round(sum(each.values()), 2) for each in costs]
            levels[str(level)] = {
                "cpu_us": statistics.median(totals),
                "per_s": round(statistics.median(rates), 1),
                "all_cpu_us": totals,
                "by_role": costs,
            }
    return {
        "growth": growth(levels, _MILLION),
        "growth_most": growth(levels, most),
        "cpu_us_by_pending": {level: each["cpu_us"] for level, each in levels.items()},
        "levels": levels,
        "not_run": not_run,
    }


def growth(levels: Figures, most: int) -> float:
    """The cost per task with the largest number pending, up to `most`, in units of what it is with the smallest."""
    known = {int(level): each["cpu_us"] for level, each in levels.items() if int(level) <= most}
    return round(known[max(known)] / known[min(known)], 3) if known else 0.0


def _no_room(level: int) -> str:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    need = level * _BYTES_WHEN_PENDING
    if free >= need:
        return ""
    return f"{level} pending tasks want {need >> 20} MiB of free memory, and there are {free >> 20}"


async def memory(system: System, sizes: Sizes) -> Figures:
    """Resident memory of every role after a tenth of very many tasks, and after all of them, through one start of all roles."""
    if not system.ours:
        raise NotAsked("asked of ATF alone")
    numbers, early = range(sizes.million), sizes.million // _EARLY
    found: dict[str, dict[str, float]] = {}
    async with World(system, sizes.million) as world:
        able(world, "many")
        for start in range(0, sizes.million, step := min(_BATCH, early)):
            await world.client.ask("many", first=start, count=step)
            if await world.finished(range(start, start + step)):
                raise BenchError("tasks did not run")
            if start + step in {early, sizes.million}:
                await asyncio.sleep(1.0)
                found[str(start + step)] = rss_by_role(world.pids())
        first, last = found[str(early)], found[str(sizes.million)]
        ratios = {role: round(last[role] / first[role], 3) for role in first if first[role]}
        worst = max(ratio for role, ratio in ratios.items() if role not in {"client", "store"})
        return {"growth": worst, "ratios": ratios, "rss_mib": found, **ran(world, numbers)}


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
        bars=(Bar(words="at most 2 % of a core", figure="percent", limit=2.0, least=False),),
    ),
    Question(
        name="bytes",
        what="bytes of the store per task that waits in its queue, with a payload of 20 bytes",
        figure="bytes",
        unit="bytes",
        more=False,
        measure=store_bytes,
        sizes=("tasks",),
        also=("later",),
        bars=(Bar(words="at most 450 bytes", figure="bytes", limit=450.0, least=False),),
    ),
    Question(
        name="pending",
        what="CPU per task while a million others wait for another day, in units of what it is with a thousand",
        figure="growth",
        unit="×",
        more=False,
        measure=pending,
        sizes=("tasks", "pending"),
        also=("growth_most", "cpu_us_by_pending"),
        systems=(OURS,),
        rounds=1,
        bars=(Bar(words="at most 1.3 × with a million", figure="growth", limit=1.3, least=False),),
    ),
    Question(
        name="memory",
        what="resident memory of the role that grew most, after all of a million tasks in units of what it was after the first tenth",
        figure="growth",
        unit="×",
        more=False,
        measure=memory,
        sizes=("million",),
        systems=(OURS,),
        also=("ratios",),
        rounds=1,
        bars=(Bar(words="at most 1.1 ×", figure="growth", limit=1.1, least=False),),
    ),
]
