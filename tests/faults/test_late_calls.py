"""A copy of a client's call arrives long after it, when others have gone by. It changes nothing, or the catalogue says that it may."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from atf.client import Handle
from atf.rpc import batch_pb2 as b, frontend_pb2 as f

from .batches import batch_ended, make_batch, messages_of
from .catalogue import CARRIED_OUT_LATE
from .line import LATE_S, Fault
from .test_calls import CALLS
from .world import World, app, hopeless, of, play, runs, step

FAULTS: Final = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"
FAILING: Final = 3
"""Runs that fail: one beyond those that a story and the late copy start."""

Part = Callable[[World], Awaitable[None]]


# --- what a call does, where its story in test_calls.py can't be told beside a late copy -------------------------------


async def _dead_letter(world: World, **options: Any) -> Handle[Any]:
    handle = await world.client.schedule(hopeless.options(**options).prepare(FAILING))
    await world.finished([handle])
    return handle


async def _fails_again(world: World, handle: Handle[Any]) -> None:
    await world.until(lambda: len(of(handle)) == 2)
    await world.finished([handle])


async def retry_tasks(world: World) -> None:
    handle = await _dead_letter(world)
    await world.client.retry(handle.id)
    await _fails_again(world, handle)


async def redrive(world: World) -> None:
    handle = await _dead_letter(world)
    await world.client.redrive("f/hopeless", dry_run=False)
    await _fails_again(world, handle)


async def resume_key(world: World) -> None:
    handle = await _dead_letter(world, ordering_key="k")
    await world.client.resume_key("f/hopeless", "k", handle.id)
    await _fails_again(world, handle)


async def skip_key(world: World) -> None:
    handle = await _dead_letter(world, ordering_key="k")
    await world.client.skip_key("f/hopeless", "k", handle.id)
    await world.client.retry(handle.id)
    await _fails_again(world, handle)


async def retry_batch(world: World) -> None:
    messages = messages_of(1, "f/hopeless")
    messages[1].items.items[0].payload = hopeless.prepare(FAILING).request.spec.payload
    await make_batch(world, messages)
    await batch_ended(world, b.BATCH_DONE_WITH_FAILURES)
    await world.sure(lambda: world.frontend.retry_batch(b.RetryBatchRequest(id="b")))
    await batch_ended(world, b.BATCH_DONE_WITH_FAILURES)


async def set_capacity(world: World) -> None:
    await world.client.set_capacity(cores=3)


# --- what goes by before the copy arrives: what a later call, of whoever it may be, makes of it -------------------------


async def _retried(world: World) -> None:
    (task,) = await world.client.list("f/step")
    await world.client.pause("f/step")
    assert await world.client.retry(task.id)


async def _paused(world: World) -> None:
    await world.client.pause("f/step")


async def _overridden(world: World) -> None:
    await world.client.set_lambda("f/step", {"queue_limit": 9})


async def _registered(world: World) -> None:
    specs = [each.spec() for each in app.lambdas.values()]
    for each in specs:
        each.owner = "somebody else"
    await world.sure(lambda: world.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=specs)))


async def _gated(world: World) -> None:
    await world.client.gate("f/step", "pause", labels={"team": "web"})


async def _two_cores(world: World) -> None:
    await world.client.set_capacity(cores=2)


async def _no_batch(world: World) -> None:
    """Its id is taken for another ten minutes: no other can be what the copy meets."""
    await world.sure(lambda: world.frontend.delete_batch(b.DeleteBatchRequest(id="b")))


async def _job(world: World) -> None:
    await world.client.schedule_job("f/job", step.prepare(0.1), "@every 1h", overwrite=True)


async def _paused_job(world: World) -> None:
    await _job(world)
    await world.client.pause_job("f/job")


async def _resumed_job(world: World) -> None:
    await _job(world)
    await world.client.resume_job("f/job")


async def _no_job(world: World) -> None:
    await world.client.delete_job("f/job")


STORIES: Final[dict[str, Part]] = {
    each.__name__: each for each in (retry_tasks, redrive, resume_key, skip_key, retry_batch, set_capacity)
}
SINCE: Final[dict[str, Part]] = {
    "cancel_tasks": _retried,
    "register_lambdas": _registered,
    "resume_lambda": _paused,
    "set_lambda": _overridden,
    "lift_gate": _gated,
    "set_capacity": _two_cores,
    "schedule_batch": _no_batch,
    "cancel_batch": _no_batch,
    "schedule_job": _no_job,
    "schedule_jobs": _no_job,
    "delete_job": _job,
    "delete_jobs_by_prefix": _job,
    "pause_job": _resumed_job,
    "resume_job": _paused_job,
}


async def seen(world: World) -> dict[str, Any]:
    """What an operator sees of everything that a client's call may change."""
    line = world.frontend
    lambdas = (await world.sure(lambda: line.list_lambdas(f.ListLambdasRequest()))).lambdas
    for each in lambdas:
        del each.queues[:]  # they come and go with their tasks
    gates = (await world.sure(lambda: line.list_gates(f.ListGatesRequest()))).gates
    batches = (await world.sure(lambda: line.list_batches(b.ListBatchesRequest()))).batches
    for each in batches:
        each.now_us = 0
    return {
        "lambdas": sorted(str(each) for each in lambdas),
        "gates": sorted(str(each) for each in gates),
        "keys": [(each.key, each.task_id) for each in await world.client.stopped_keys("f/hopeless")],
        "cores": [
            (pool, [each.lambda_name for each in (await world.client.capacity(pool)).cores])
            for pool in await world.client.pools_with_cores()
        ],
        "batches": [str(each) for each in batches],
        "jobs": [(each.name, each.generation, each.paused) for each in await world.client.list_jobs()],
        "hosts": [(each.name, each.draining) for each in await world.client.hosts()],
        "runs": len(runs),
    }


@pytest.mark.sweep(4)
@pytest.mark.parametrize("method", CALLS)
def test_a_copy_of_a_client_s_call_that_arrives_late(method: str) -> None:
    changed: list[Any] = []

    async def story(world: World) -> None:
        began = asyncio.get_running_loop().time()
        world.line.calls.clear()
        world.line.plan[method] = Fault.COPIED_LATE
        await STORIES.get(method, CALLS[method])(world)
        del world.line.plan[method]
        if method in SINCE:
            await SINCE[method](world)
        left = began + LATE_S - 1 - asyncio.get_running_loop().time()
        assert left > 0, "a copy has come before it can be told"
        await asyncio.sleep(left)  # what goes on by itself has come to its end
        before = await seen(world)
        await asyncio.sleep(LATE_S + 5)
        assert world.line.hits[method] > 0
        after = await seen(world)
        changed.extend((before[what], after[what]) for what in before if before[what] != after[what])
        await world.check()

    play(story, hosts=1)
    assert bool(changed) == (method in CARRIED_OUT_LATE), changed


def test_the_page_names_the_calls_that_are_carried_out_late() -> None:
    (line,) = re.findall(r"^Carried out whenever they arrive: (.+)$", FAULTS.read_text(encoding="utf-8"), re.MULTILINE)
    names = {re.sub(r"(?<!^)(?=[A-Z])", "_", each).lower() for each in re.findall(r"`(\w+)`", line)}
    assert names == CARRIED_OUT_LATE
