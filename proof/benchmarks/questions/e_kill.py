"""Whether every task runs although a worker is killed in the middle, with the settings and all the workers that other questions use.

The event is the same for all: every system has two workers, each with processes of its own (ATF's are an executor's guard and worker),
and the busier one of them dies while the other lives on. Nothing of the redelivery is set for this question alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from proof.benchmarks.known import CELERY_LATER, OURS, PEERS, System
from proof.benchmarks.question import Bar, Figures, Question, Sizes, able, ran
from proof.benchmarks.roles import BenchError
from proof.benchmarks.world import BenchmarkWorld

_TRICKLE_S = 1.0
"""Between two further tasks afterwards: a system that looks for what was left behind only when something arrives gets its chance."""
_AFTER_S = 5.0
_LOOK_S = 0.02


async def kill(system: System, sizes: Sizes) -> Figures:
    """SIGKILL to one of two workers with all its processes when half of the tasks have run; it is started again at once.

    All tasks are queued before the workers start, so that each has taken as many as it ever holds when it is killed.
    """
    numbers, trickle = range(sizes.tasks), int(sizes.kill_within_s / _TRICKLE_S) + 64
    async with BenchmarkWorld(system, sizes.tasks + trickle, workers=False) as world:
        able(world, "many")
        await world.client.ask("many", first=0, count=sizes.tasks)
        await world.roles.start_workers()
        begun = time.monotonic()
        while world.ledger.ran(numbers) < sizes.tasks // 2:
            if time.monotonic() > begun + sizes.kill_within_s:
                raise BenchError("not even half of the tasks have run")
            await asyncio.sleep(_LOOK_S)
        killed_ns = time.monotonic_ns()
        what = await world.roles.kill_one()
        left_then = world.ledger.never(numbers)
        left = await _all_ran(world, numbers, killed_ns, sizes.kill_within_s)
        last = max(world.ledger.starts(numbers))
        found = {} if left else {"last_s": round((last - killed_ns) / 1e9, 2)}
        waited = round((time.monotonic_ns() - killed_ns) / 1e9, 1)
        return {**ran(world, numbers), **found, "left_then": left_then, "killed": what, "waited_s": waited}


async def _all_ran(world: BenchmarkWorld, numbers: range, killed_ns: int, within_s: float) -> int:
    """Waits until all have run and some seconds more, one further task a second meanwhile; how many have not."""
    extra = iter(range(numbers.stop, world.tasks))
    until = killed_ns / 1e9 + within_s
    done_at = 0.0
    while time.monotonic() < until:
        left = world.ledger.never(numbers)
        done_at = done_at or (0.0 if left else time.monotonic())
        if done_at and time.monotonic() > done_at + _AFTER_S:
            break
        with contextlib.suppress(StopIteration):
            await world.client.ask("many", first=next(extra), count=1)
        await asyncio.sleep(_TRICKLE_S)
    return world.ledger.never(numbers)


QUESTIONS = [
    Question(
        name="kill",
        what="tasks that never ran within 15 minutes of a SIGKILL to one of two workers in the middle, with the settings of all other questions",
        figure="never",
        unit="tasks",
        more=False,
        measure=kill,
        sizes=("tasks", "kill_within_s"),
        also=("twice", "last_s"),
        systems=(OURS, *PEERS, CELERY_LATER),
        paired=False,
        every=True,
        bars=(Bar(words="every task runs", figure="never", limit=0.0, least=False),),
    ),
]
