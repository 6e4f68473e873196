"""How many tasks a second, at which cost of CPU: while they are being scheduled, from a queue that is full, and the floor."""

from __future__ import annotations

import asyncio

from atf.bench.proc import rss_by_role
from proof.benchmarks.floor import BATCH, Floor
from proof.benchmarks.known import AT_DEFAULTS, FLOOR, FLOOR_THEN, OURS, PEERS, System
from proof.benchmarks.question import Bar, Figures, Question, Sizes, able, per_task_us, ran
from proof.benchmarks.trial import BUDGET_US
from proof.benchmarks.world import BenchmarkWorld

_SMALL_BATCHES = (1, 16)
"""Beside those of 256: a call has its own cost, which all tasks in it share."""
_FEWER = 10
"""A part of all tasks goes in each of these: they are slow."""
_NS = 1e9


async def end_to_end(system: System, sizes: Sizes) -> Figures:
    """From the first call of the client to the last start of a task, workers running all the while."""
    if system.name in {FLOOR, FLOOR_THEN}:
        return await floor(system, sizes)
    numbers = range(sizes.tasks)
    async with BenchmarkWorld(system, sizes.tasks) as world:
        able(world, "many")
        before = world.cpu()
        told = await world.client.ask("many", first=0, count=len(numbers))
        await world.finished(numbers)
        await asyncio.sleep(0.5)  # what is reported and swept after the last start belongs to the cost
        used = world.cpu_since(before)
        last = max(world.ledger.starts(numbers))
        return {
            "per_s": round(len(numbers) / ((last - told["begun"]) / _NS), 1),
            "scheduled_per_s": round(len(numbers) / ((told["ended"] - told["begun"]) / _NS), 1),
            "cpu_us": per_task_us(used, len(numbers)),
            "cpu_us_total": round(sum(used.values()) * 1e6 / len(numbers), 2),
            **_in_units_of_the_store(used),
            **ran(world, numbers),
        }


def _in_units_of_the_store(used: dict[str, float]) -> Figures:
    others = sum(seconds for role, seconds in used.items() if role != "store")
    return {"cpu_per_store_cpu": round(others / used["store"], 2)} if used.get("store") else {}


async def drain(system: System, sizes: Sizes) -> Figures:
    """From the first start to the last, of tasks that were all queued before the first worker was started; MiB of each role when all have run.

    A page that several processes of a role share counts in each of them.
    """
    numbers = range(sizes.tasks)
    async with BenchmarkWorld(system, sizes.tasks, workers=False) as world:
        able(world, "many")
        await world.client.ask("many", first=0, count=len(numbers))
        await world.roles.start_workers()
        await world.finished(numbers)
        resident = rss_by_role(world.pids())
        starts = [each for each in world.ledger.starts(numbers) if each]
        seconds = (max(starts) - min(starts)) / _NS if len(starts) > 1 else 0.0
        return {
            **({"per_s": round((len(starts) - 1) / seconds, 1)} if seconds else {}),
            "rss_mib": resident,
            **ran(world, numbers),
        }


async def floor(system: System, sizes: Sizes) -> Figures:
    """A task's whole life in the store's functions, called in batches by one client that does nothing else; then some in smaller batches."""
    async with Floor.running(foundation=system.name == FLOOR_THEN) as one:
        lived = await one.lives(sizes.tasks)
        few = max(sizes.tasks // _FEWER, 1)
        small = {batch: await one.lives(few, batch) for batch in _SMALL_BATCHES}
    cpu_us = round(lived.store_cpu_s * 1e6 / sizes.tasks, 2)
    by_batch = {str(batch): round(each.store_cpu_s * 1e6 / few, 2) for batch, each in small.items()}
    # Whether one ran twice can't be seen: nothing runs, and no ledger is written.
    return {
        "per_s": round(lived.ended / lived.seconds, 1),
        "cpu_us": {"store": cpu_us},
        "store_us_by_batch": {**by_batch, str(BATCH): cpu_us},
        "never": sizes.tasks - lived.ended + sum(few - each.ended for each in small.values()),
    }


def _beside_peers(tuned: float, at_defaults: float) -> tuple[Bar, ...]:
    """How many times the rate of the fastest peer that is at least once ATF is to have: with its fastest settings, and with its defaults."""
    return tuple(
        Bar(
            words=f"{limit:g} × the fastest peer that is at least once{words}",
            figure="per_s",
            limit=limit,
            least=True,
            against=peers,
            at_least_once=True,
        )
        for limit, peers, words in ((tuned, PEERS, ""), (at_defaults, AT_DEFAULTS, ", at its defaults"))
    )


_SIZES = ("tasks",)

QUESTIONS = [
    Question(
        name="end-to-end",
        what="no-op tasks per second, from the first call of one client that schedules as fast as it can to the last start",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=end_to_end,
        sizes=_SIZES,
        also=("scheduled_per_s", "twice"),
        systems=(OURS, *PEERS, *AT_DEFAULTS),
        bars=_beside_peers(2.0, 5.0),
    ),
    Question(
        name="drain",
        what="no-op tasks per second from a queue that was full before the workers started, first start to last",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=drain,
        sizes=_SIZES,
        also=("rss_mib", "twice"),
        systems=(OURS, *PEERS, *AT_DEFAULTS),
        bars=_beside_peers(1.5, 4.0),
    ),
    Question(
        name="cpu",
        what="CPU per task over all processes, client and store included, while tasks are being scheduled and run",
        figure="cpu_us_total",
        unit="µs",
        more=False,
        measure=end_to_end,
        sizes=_SIZES,
        also=("cpu_us", "cpu_per_store_cpu"),
        budget=BUDGET_US,
        also_judged=("floor",),
        bars=(
            Bar(
                words="client and roles together at most 3 × what the store takes",
                figure="cpu_per_store_cpu",
                limit=3.0,
                least=False,
            ),
        ),
    ),
    Question(
        name="floor",
        what="the limit of this design: one client that only calls the store's functions of a task's life, in batches",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=end_to_end,
        sizes=_SIZES,
        systems=(FLOOR, FLOOR_THEN, OURS),
        also=("cpu_us.store", "store_us_by_batch"),
        bars=(
            *(
                Bar(
                    words=f"the store's CPU per task no more than with the foundation's functions, in batches of {batch}",
                    figure=f"store_us_by_batch.{batch}",
                    limit=1.0,
                    least=False,
                    against=(FLOOR_THEN,),
                    of=FLOOR,
                    tolerant=True,
                )
                for batch in (*_SMALL_BATCHES, BATCH)
            ),
        ),
    ),
]
