"""How fast tasks are stored: by one synchronous caller, and by many concurrent ones in one client."""

from __future__ import annotations

from atf.errors import AtfError
from tests.bench.known import PEERS, System
from tests.bench.question import Bar, Figures, Question, Sizes, able
from tests.bench.stats import percentile
from tests.bench.world import World

_WARM_CALLS = 64


async def schedule_sync(system: System, sizes: Sizes) -> Figures:
    """One caller, one task a call, no worker running."""
    async with World(system, sizes.tasks + _WARM_CALLS, workers=False) as world:
        able(world, "one")
        await world.client.ask("one", first=sizes.tasks, count=_WARM_CALLS)
        told = await world.client.ask("one", first=0, count=sizes.tasks)
        calls = [each / 1e3 for each in told["calls_ns"]]
        return {
            "per_s": _per_s(told, sizes.tasks),
            "call_us": {f"p{each}": round(percentile(calls, each), 1) for each in (50, 99)},
        }


async def schedule_async(system: System, sizes: Sizes) -> Figures:
    """64 callers in one client, a task a call; and the system's fastest way of storing many."""
    async with World(system, 2 * sizes.tasks + _WARM_CALLS, workers=False) as world:
        able(world, "many")
        await world.client.ask("many", first=2 * sizes.tasks, count=_WARM_CALLS)
        told = await world.client.ask("many", first=0, count=sizes.tasks)
        found: Figures = {"many_per_s": _per_s(told, sizes.tasks)}
        try:
            told = await world.client.ask("concurrent", first=sizes.tasks, count=sizes.tasks)
            found["single_per_s"] = _per_s(told, sizes.tasks)
        except AtfError as error:
            found["why"] = str(error)
        # ATF is judged by its single calls, a peer by the faster of what it has.
        best = max(found["many_per_s"], found.get("single_per_s", 0.0))
        return {"per_s": found.get("single_per_s", 0.0) if system.ours else best, **found}


def _per_s(told: Figures, tasks: int) -> float:
    seconds: float = (told["ended"] - told["begun"]) / 1e9
    return round(tasks / seconds, 1)


QUESTIONS = [
    Question(
        name="schedule-sync",
        what="tasks stored per second by one synchronous caller, one task a call",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=schedule_sync,
        sizes=("tasks",),
        also=("call_us.p50", "call_us.p99"),
        bars=(Bar(words="as fast as RQ and Celery", figure="per_s", limit=1.0, least=True, against=("celery", "rq")),),
    ),
    Question(
        name="schedule-async",
        what="tasks stored per second by 64 concurrent callers in one client, one task a call; peers: the fastest way they have",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=schedule_async,
        sizes=("tasks",),
        also=("single_per_s", "many_per_s"),
        bars=(Bar(words="3 × the fastest peer, Huey included", figure="per_s", limit=3.0, least=True, against=PEERS),),
    ),
]
