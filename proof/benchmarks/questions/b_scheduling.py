"""How fast tasks are stored: by one synchronous caller, and by many concurrent ones in one client.

No worker runs meanwhile. Workers start when all is measured, and the ledger tells whether what was accepted is there, and runs once: a round
in which it does not is none.
"""

from __future__ import annotations

import random

from atf.bench import proc
from proof.benchmarks.driver import SAME
from proof.benchmarks.empty_call import EmptyCall
from proof.benchmarks.known import DIRECT, EMPTY_CALL, OURS, PEERS, System
from proof.benchmarks.question import Bar, Figures, Question, Sizes, able, per_task_us, ran
from proof.benchmarks.stats import percentile
from proof.benchmarks.world import BenchmarkWorld

_WARM_CALLS = 64
_CPU_US = {"concurrent": "cpu_us", "many": "many_cpu_us"}


async def schedule_sync(system: System, sizes: Sizes) -> Figures:
    """One caller, one task a call, no worker running."""
    if system.name == EMPTY_CALL:
        return await empty_calls(sizes)
    async with BenchmarkWorld(system, sizes.tasks + _WARM_CALLS, workers=False) as world:
        able(world, "one")
        await world.client.ask("one", first=sizes.tasks, count=_WARM_CALLS)
        before = world.cpu()
        told = await world.client.ask("one", first=0, count=sizes.tasks)
        found = _of_calls(told, world.cpu_since(before), sizes.tasks)
        return {**found, **await _run_by_workers(world, range(sizes.tasks + _WARM_CALLS))}


async def _run_by_workers(world: BenchmarkWorld, numbers: range) -> Figures:
    """Starts the workers, and waits until all that was stored has run; how many never did, and how many more than once."""
    await world.roles.start_workers()
    await world.finished(numbers)
    return ran(world, numbers)


async def empty_calls(sizes: Sizes) -> Figures:
    """As many calls to a server that does nothing."""
    async with EmptyCall.running() as one:
        await one.calls(_WARM_CALLS)
        before = one.cpu()
        told = await one.calls(sizes.tasks)
        return _of_calls(told, proc.less(one.cpu(), before), sizes.tasks)


def _of_calls(told: Figures, cpu_s: dict[str, float], tasks: int) -> Figures:
    cpu_us = per_task_us(cpu_s, tasks)
    calls = [each / 1e3 for each in told["calls_ns"]]
    return {
        "per_s": _per_s(told, tasks),
        "cpu_us_total": round(sum(cpu_us.values()), 2),
        "cpu_us": cpu_us,
        "call_us": {f"p{each}": round(percentile(calls, each), 1) for each in (50, 99)},
    }


async def schedule_async(system: System, sizes: Sizes) -> Figures:
    """64 callers in one client, a task a call; and the system's fastest way of storing many: the same tasks by each, in an order of chance.

    Where the fastest way is no other than the single calls, both are one measurement: of two draws of one thing the better would flatter it.
    `cpu_us` is what a task takes of each process by single calls, `many_cpu_us` by the fastest way.
    """
    async with BenchmarkWorld(system, 2 * (sizes.tasks + _WARM_CALLS), workers=False) as world:
        able(world, "many")
        same = world.client.lacks.get("concurrent") == SAME
        verbs = {"many": "many_per_s"} if same else {"concurrent": "single_per_s", "many": "many_per_s"}
        for place, verb in enumerate(verbs):
            await world.client.ask(verb, first=2 * sizes.tasks + place * _WARM_CALLS, count=_WARM_CALLS)
        found: Figures = {}
        for place, verb in enumerate(random.sample(list(verbs), len(verbs))):
            before = world.cpu()
            told = await world.client.ask(verb, first=place * sizes.tasks, count=sizes.tasks)
            found[_CPU_US[verb]] = per_task_us(world.cpu_since(before), sizes.tasks)
            found[verbs[verb]] = _per_s(told, sizes.tasks)
        found.setdefault("cpu_us", found["many_cpu_us"])
        single = found.setdefault("single_per_s", found["many_per_s"])
        stored = range(len(verbs) * sizes.tasks)
        return {"per_s": single, **found, **await _run_by_workers(world, stored)}


def _per_s(told: Figures, tasks: int) -> float:
    seconds: float = (told["ended"] - told["begun"]) / 1e9
    return round(tasks / seconds, 1)


def _rate(words: str, limit: float, of: str, *against: str) -> Bar:
    return Bar(words=words, figure="per_s", limit=limit, least=True, against=against, of=of)


QUESTIONS = [
    Question(
        name="schedule-sync",
        what="tasks stored per second by one synchronous caller, one task a call",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=schedule_sync,
        sizes=("tasks",),
        systems=(OURS, "celery", DIRECT, EMPTY_CALL, *(each for each in PEERS if each != "celery")),
        also=("call_us.p50", "call_us.p99", "cpu_us_total", "cpu_us"),
        bars=(
            _rate("through a frontend: 0.45 × Celery's rate", 0.45, OURS, "celery"),
            _rate("direct: 1.2 × RQ's and Celery's", 1.2, DIRECT, "celery", "rq"),
            _rate("direct: 0.8 × Dramatiq's", 0.8, DIRECT, "dramatiq"),
        ),
        beside=DIRECT,
    ),
    Question(
        name="schedule-async",
        what="tasks stored per second by 64 concurrent callers in one client, one task a call; peers: the faster of that and their fastest way",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=schedule_async,
        sizes=("tasks",),
        also=("single_per_s", "many_per_s", "cpu_us", "many_cpu_us"),
        ways=("single_per_s", "many_per_s"),
        bars=(Bar(words="3 × the fastest peer, Huey included", figure="per_s", limit=3.0, least=True, against=PEERS),),
    ),
]
