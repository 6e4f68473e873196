"""Jobs under store consumers, on a real task store (on fakeredis) and virtual time: each tick makes one task, whoever else tries."""

from __future__ import annotations

import asyncio
import random

from atf.errors import Unavailable
from atf.metrics.table import TICKS_MISSED
from atf.rpc import job_pb2 as j, task_pb2 as t
from atf.store.library import JOBS_PER_PASS
from atf.store.values.claims import Outcome, RunResult
from atf.store.values.jobs import NewJob, ReplaceJob, Tick
from atf.task import US, Status
from tests.virtual import virtual

from .test_consumer import World, world

NAME = "shop/nightly"


def new(name: str, spec: bytes, base_us: int, overlap: str = "queue") -> NewJob:
    """A job that ticks first a second after its base."""
    return NewJob(name, "", ReplaceJob.NOT, spec, overlap, base_us + US, base_us, "every second")


async def make(w: World, name: str = NAME, *, overlap: str = "queue", misfire: j.Misfire = j.LATEST) -> int:
    """Makes a job of one tick a second; answers when it was made."""
    base_us = w.runtime.wall_us()
    task = t.TaskSpec(payload=b"{}", options=t.TaskOptions(priority=1, max_attempts=4, max_losses=3))
    setattr(task, "lambda", "shop/mail")
    policy = {"queue": j.QUEUE, "allow": j.ALLOW, "cancel_running": j.CANCEL_RUNNING}[overlap]
    spec = j.JobSpec(name=name, task=task, base_at_us=base_us, schedule="@every 1s", overlap=policy, misfire=misfire)
    await w.store.schedule_jobs([new(name, spec.SerializeToString(), base_us, overlap)])
    return base_us


async def ran(w: World) -> list[int]:
    """Ends whatever is queued; the ticks of it, µs."""
    ids = await w.pop()
    claims = await w.claim(ids)
    await w.store.set_results([RunResult(each, Outcome.SUCCEEDED) for each in claims])
    return [t.TaskSpec.FromString((await w.record(each)).spec).tick.at_us for each in ids]


@virtual(world())
async def test_a_tick_is_in_its_queue_at_its_instant_and_not_before(w: World) -> None:
    w.start()
    base_us = await make(w)
    await asyncio.sleep(0.999)
    assert await ran(w) == []
    await asyncio.sleep(0.002)
    assert await ran(w) == [base_us + US]
    await asyncio.sleep(1)
    assert await ran(w) == [base_us + 2 * US]


@virtual(world())
async def test_five_consumers_make_one_task_of_each_tick(w: World) -> None:
    for _ in range(5):
        w.start()
    base_us = await make(w, overlap="allow")
    await asyncio.sleep(20.5)
    assert sorted(await ran(w)) == [base_us + second * US for second in range(1, 21)]
    (job,) = await w.store.get_jobs([NAME])
    assert job is not None
    assert job.ticks == 20


@virtual(world())
async def test_many_ticks_of_one_instant_do_not_wait_for_each_other(w: World) -> None:
    count = 3 * JOBS_PER_PASS + 1
    for number in range(count):
        await make(w, f"shop/j{number}")
    w.start()
    await asyncio.sleep(1.5)
    found = []
    while ids := await w.pop():
        found += ids
    assert len(found) == count, "half a second after their instant: none was told of while nobody could deal with it"


@virtual(world(partitions=2))
async def test_consumers_that_are_killed_and_started_lose_no_tick_and_double_none(w: World) -> None:
    chance = random.Random(3)
    names = [f"shop/j{number}" for number in range(10)]
    bases = {name: await make(w, name, overlap="allow", misfire=j.ALL) for name in names}
    for _ in range(30):
        w.start()
        await asyncio.sleep(chance.uniform(0.05, 2))
        await w.stop()
        await asyncio.sleep(chance.uniform(0, 1))
    w.start()
    await asyncio.sleep(5)
    found = [each for partition in range(2) for each in await w.pop(partition, 10_000)]
    ticks = [
        (tick.job, tick.at_us) for tick in [t.TaskSpec.FromString((await w.record(each)).spec).tick for each in found]
    ]
    assert len(set(ticks)) == len(ticks)
    for name in names:
        mine = sorted(at_us for job, at_us in ticks if job == name)
        assert mine == [bases[name] + second * US for second in range(1, len(mine) + 1)]
        assert mine[-1] > w.runtime.wall_us() - 2 * US


@virtual(world())
async def test_a_tick_waits_for_the_one_before_and_then_comes_at_once(w: World) -> None:
    w.start()
    base_us = await make(w)
    await asyncio.sleep(3.5)
    assert await ran(w) == [base_us + US]
    await asyncio.sleep(0.01)
    assert await ran(w) == [base_us + 2 * US]


@virtual(world())
async def test_the_one_before_is_cancelled_where_the_job_says_so(w: World) -> None:
    w.start()
    base_us = await make(w, overlap="cancel_running")
    await asyncio.sleep(1.5)
    (first,) = await w.pop()
    await asyncio.sleep(1)
    assert (await w.record(first)).status is Status.CANCELLED
    await asyncio.sleep(0.01)
    assert await ran(w) == [base_us + 2 * US]


@virtual(world())
async def test_a_store_that_fails_in_the_middle_makes_no_tick_lost(w: World) -> None:
    w.start()
    base_us = await make(w)
    plain, failed = w.store.tick, 0

    async def flaky(partition: int, ticks: list[Tick]) -> list[bool]:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise Unavailable("the task store does not answer")
        return await plain(partition, ticks)

    w.store.tick = flaky  # type: ignore[method-assign, assignment]
    await asyncio.sleep(3.5)
    assert failed > 1
    assert await ran(w) == [base_us + US]


@virtual(world())
async def test_a_job_that_can_not_be_read_holds_up_no_other(w: World) -> None:
    w.start()
    now_us = w.runtime.wall_us()
    zone = j.JobSpec(name="shop/odd", schedule="@daily", tz="Mars/Olympus").SerializeToString()
    await w.store.schedule_jobs([new("shop/odd", zone, now_us)])
    await w.store.schedule_jobs([new("shop/none", b"\xff", now_us)])
    base_us = await make(w)
    await asyncio.sleep(1.5)
    assert await ran(w) == [base_us + US]
    assert [each.ticks for each in await w.store.get_jobs(["shop/odd", "shop/none"]) if each] == [0, 0]


@virtual(world())
async def test_jobs_that_catch_up_hold_up_no_other(w: World) -> None:
    days_ago = w.runtime.wall_us() - 3 * 86_400 * US
    for number in range(10):
        spec = j.JobSpec(name=f"shop/old{number}", base_at_us=days_ago, schedule="@every 1s", misfire=j.SKIP)
        await w.store.schedule_jobs([new(spec.name, spec.SerializeToString(), days_ago)._replace(ticks=1)])
    base_us = await make(w)
    w.start()
    await asyncio.sleep(5.5)
    assert await ran(w) == [base_us + US]


@virtual(world())
async def test_ticks_that_were_found_too_late_are_counted_and_those_that_waited_are_not(w: World) -> None:
    await make(w, misfire=j.SKIP)
    await asyncio.sleep(60)  # no consumer runs
    w.start()
    await asyncio.sleep(1.5)
    missed = w.store.metrics.counter(TICKS_MISSED, "shop/mail")
    assert 50 <= missed.value <= 60
    before = missed.value
    for _ in range(4):  # a tick waits for the one before it, and comes at once
        await asyncio.sleep(3)
        await ran(w)
    assert missed.value == before
