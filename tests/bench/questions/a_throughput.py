"""How many tasks a second, at which cost of CPU: while they are being scheduled, from a queue that is full, and the floor."""

from __future__ import annotations

import asyncio
import time

from atf.bench.proc import less
from atf.config import StoreSettings, Timing
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime, new_id
from atf.store.store import Store
from atf.store.types import Claimed, Held, LambdaRecord, NewTask, Outcome, RunResult
from tests.bench.known import AT_LEAST_ONCE, FLOOR, OURS, SYSTEMS, System
from tests.bench.ledger import payload
from tests.bench.question import Bar, Figures, Question, Sizes, able, per_task_us, ran
from tests.bench.world import World

_NS = 1e9
_FLOOR_BATCH = 256
_FLOOR_AT_ONCE = 4
_NAME = "bench/noop"
_QUEUE = f"{_NAME}:1"
_DAY_US = 86_400_000_000


async def end_to_end(system: System, sizes: Sizes) -> Figures:
    """From the first call of the client to the last start of a task, workers running all the while."""
    if system.name == FLOOR:
        return await floor(sizes)
    numbers = range(sizes.tasks)
    async with World(system, sizes.tasks) as world:
        able(world, "many")
        before = world.cpu()
        told = await world.client.ask("many", first=0, count=len(numbers))
        await world.finished(numbers)
        await asyncio.sleep(0.5)  # what is reported and swept after the last start belongs to the cost
        used = less(world.cpu(), before)
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
    """From the first start to the last, of tasks that were all queued before the first worker was started."""
    numbers = range(sizes.tasks)
    async with World(system, sizes.tasks, workers=False) as world:
        able(world, "many")
        await world.client.ask("many", first=0, count=len(numbers))
        await world.roles.start_workers()
        await world.finished(numbers)
        starts = [each for each in world.ledger.starts(numbers) if each]
        seconds = (max(starts) - min(starts)) / _NS if len(starts) > 1 else 0.0
        return {"per_s": round((len(starts) - 1) / seconds, 1) if seconds else 0.0, **ran(world, numbers)}


# --- the floor --------------------------------------------------------------------------------------------------------


async def floor(sizes: Sizes) -> Figures:
    """A task's whole life in the store's functions, called in batches by one client that does nothing else."""
    async with World(SYSTEMS[OURS], 8, workers=False) as world:
        await world.roles.stop()
        url = world.store.url
        store = await Store.open(StoreSettings(redis_url=url, partitions=1), Timing(), SystemRuntime())
        try:
            await store.register([LambdaRecord(_NAME, b"", 1_000_000, 10_000_000, paused=False)])
            begun, before = time.monotonic(), world.cpu()["store"]
            ended = await _lives(store, sizes.tasks)
            seconds = time.monotonic() - begun
            cpu = world.cpu()["store"] - before
        finally:
            await store.close()
    return {
        "per_s": round(ended / seconds, 1),
        "cpu_us": {"store": round(cpu * 1e6 / sizes.tasks, 2)},
        "never": sizes.tasks - ended,
        "twice": 0,
    }


async def _lives(store: Store, tasks: int) -> int:
    """Batches of tasks pass through all their moves, some batches at once; how many came to their end."""
    batches = iter([min(_FLOOR_BATCH, tasks - start) for start in range(0, tasks, _FLOOR_BATCH)])
    runtime = SystemRuntime()
    ended = scheduled = 0

    async def pipeline() -> None:
        nonlocal ended, scheduled
        for size in batches:
            await store.schedule([_new(scheduled + place, new_id(runtime.random)) for place in range(size)])
            scheduled += size
            await store.enqueue(0, 0)
            while popped := await store.pop(0, [[_QUEUE]], _FLOOR_BATCH):
                ids = [each for _, found in popped for each in found]
                claims = (await store.claim("floor", new_id(runtime.random), ids, 4 << 20)).claims
                await store.finish("floor", [_succeeded(each) for each in claims])
                ended += len(claims)

    await asyncio.gather(*(pipeline() for _ in range(_FLOOR_AT_ONCE)))
    return ended


def _new(number: int, task_id: str) -> NewTask:
    spec = t.TaskSpec(payload=b'{"text":"' + payload(number).encode() + b'"}')
    setattr(spec, "lambda", _NAME)
    return NewTask(task_id, 0, _NAME, 1, spec.SerializeToString(), b"d" * 16, None, 0, 10, 3, _DAY_US)


def _succeeded(claim: Claimed) -> RunResult:
    return RunResult(Held(claim.task_id, claim.counter, claim.nonce), Outcome.SUCCEEDED, b"null", 1, ran_us=1)


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
        bars=(
            Bar(
                words="5 × the fastest peer that is at least once",
                figure="per_s",
                limit=5.0,
                least=True,
                against=AT_LEAST_ONCE,
            ),
        ),
    ),
    Question(
        name="drain",
        what="no-op tasks per second from a queue that was full before the workers started, first start to last",
        figure="per_s",
        unit="tasks/s",
        more=True,
        measure=drain,
        sizes=_SIZES,
        also=("twice",),
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
        systems=(FLOOR, OURS),
    ),
]
