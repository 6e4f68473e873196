"""What people and programs do beside the work, some of it in each seed: they look around, change settings, keep jobs for another day.

None of it may change what becomes of the tasks. What a look tells is judged where it can be known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from atf.client import AsyncClient
from atf.errors import AlreadyExists, AtfError, NotFound
from atf.rpc import frontend_pb2 as f, store_consumer_pb2 as s
from atf.task import US

from .caller import attempt, schedule, stored_id, until_done
from .lambdas import app, chewed, hopeless, raw, steps_of, ticked

if TYPE_CHECKING:
    from .world import World

ERRANDS: Final = 3
"""In each seed."""
FAR: Final = "later/"
"""How the names of jobs for another day begin."""
EVERY: Final = "@every 100h"
POLL_S: Final = 2.0
DAPR_APP: Final = ("shop", "shop:3000")
"""An application that was written for Dapr, and where it listens."""
SETTINGS: Final[tuple[dict[str, object], ...]] = (
    {"owner": "shop"},
    {"queue_limit": 3},
    {"enqueue_timeout": 5},
    {"shares": {"high": 0.5}},
)
"""Which a lambda may be given while its tasks run; they finish with any of them."""


POLLED: Final = "store-consumer-2"
"""The store consumer that passes when it is asked to, in seeds that have one."""


def polled(seed: int) -> bool:
    """Whether a seed's second store consumer passes when it is asked to, and by no clock of its own."""
    return seed % 7 == 3


def has_chain(world: World) -> bool:
    """Whether a seed has a chain whose second link can't be made: somebody is told why."""
    return world.seed % 5 == 4 and world.server.durable


async def poll(world: World) -> None:
    """The clock outside of ATF by which a store consumer passes."""
    consumer = world.wire(POLLED)
    while True:
        await asyncio.sleep(POLL_S)
        try:
            reply = await consumer.poll(s.PollRequest(), timeout=10)
            world.chronicle.say(f"poll answered: {reply.enqueued} enqueued")
        except AtfError as error:
            world.chronicle.say(f"poll failed: {error}")


async def some(world: World, client: AsyncClient) -> None:
    """A few errands, one after the other."""
    chance = world.chance
    for errand in chance.sample(
        (_look, _look_at_keys, _operate, _set, _set_gate_at_fatal, _keep_jobs, _foreign), ERRANDS
    ):
        await asyncio.sleep(chance.uniform(0, 30))
        await errand(world, client)


async def _each(world: World, *calls: tuple[str, Callable[[], Awaitable[Any]]]) -> dict[str, Any]:
    return {what: await attempt(world, what, call()) for what, call in calls}


async def _look(world: World, client: AsyncClient) -> None:
    """What a page of an overview shows."""
    name, since_us = steps_of(world.seed).name, world.now_us()
    told = await _each(
        world,
        ("lambdas", client.lambdas),
        ("counts", client.count),
        ("hosts", client.hosts),
        ("status", lambda: client._calls.get_status(f.GetStatusRequest())),
        ("pools", client.pools_with_cores),
        ("capacity", client.capacity),
        ("gates", lambda: client.gates(name)),
        ("audit", lambda: client.audit(name, limit=5)),
        ("count", client.count),
        ("failures", client.failures),
        ("batches", lambda: client.batches(limit=3)),
    )
    for each in told["failures"] or ():
        had = world.server.answers.between(each.task_id, since_us, world.now_us())
        if "FATAL_FAILURE" not in had:
            world.chronicle.odd.append(
                f"{each.task_id}: told to be the newest of a group of failures, and it was {sorted(had)}"
            )
    known = {each.name for each in world.hosts}
    if strangers := {each.name for each in told["hosts"] or ()} - known:
        world.chronicle.odd.append(f"hosts that there are not were told of: {strangers}")
    if (
        told["lambdas"] is not None
        and world.server.durable
        and (left := app.lambdas.keys() - {each.name for each in told["lambdas"]})
    ):
        world.chronicle.odd.append(f"registered lambdas were not told of: {sorted(left)}")


async def _look_at_keys(world: World, client: AsyncClient) -> None:
    """Which keys tasks wait for; and when a job would tick."""
    name = steps_of(world.seed).name
    told = await _each(
        world,
        ("busy keys", lambda: client.concurrency_keys(name)),
        ("one busy key", lambda: client.concurrency_keys(name, "one-at-a-time")),
        ("stopped keys", lambda: client.stopped_keys(name)),
        ("preview", lambda: client.preview_schedule("@every 7s", count=3)),
    )
    ticks = told["preview"]
    if ticks is not None and [(later - earlier).total_seconds() for earlier, later in pairwise(ticks)] != [7, 7]:
        world.chronicle.odd.append(f"a job of every 7 s would tick at {ticks}")


async def _operate(world: World, client: AsyncClient) -> None:
    """Has a host drain for a while, and forgets a lambda that nobody runs."""
    host = world.chance.choice(world.hosts).name
    drain = f.DrainHostRequest(host=host, for_us=round(world.chance.uniform(1, 20) * US), who="s")
    await attempt(world, "drain host", client._calls.drain_host(drain))
    request = f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="sim/passing")])
    await attempt(world, "register in passing", client._calls.connected().register_lambdas(request))
    gone = f.DeleteLambdaRequest(cancel_waiting=True, who="s")
    setattr(gone, "lambda", "sim/passing")
    await attempt(world, "delete lambda", client._calls.delete_lambda(gone))
    await asyncio.sleep(world.chance.uniform(0, 10))
    await attempt(world, "resume host", client._calls.drain_host(f.DrainHostRequest(host=host, resume=True, who="s")))


async def _set(world: World, client: AsyncClient) -> None:
    """Sets what goes before a lambda's code, for a while; a pool that nobody has is refused."""
    chance, name = world.chance, steps_of(world.seed).name
    await until_done(world, "set lambda", lambda: client.set_lambda(name, chance.choice(SETTINGS)))
    await asyncio.sleep(chance.uniform(0, 10))
    try:
        await client.set_lambda(name, {"pool": "nowhere"})
    except AtfError as error:
        world.chronicle.say(f"set lambda failed: {error}")
    else:
        world.chronicle.odd.append(f"{name} was moved to a pool that nobody has")
    await until_done(world, "unset lambda", lambda: client.set_lambda(name, unset=["all"]))


async def _set_gate_at_fatal(world: World, client: AsyncClient) -> None:
    """A lambda that fails for good is looked at, and ends too seldom to be paused by itself."""
    await attempt(world, "set lambda", client.set_lambda(hopeless.name, {"gate_at_fatal": 0.5}))
    for number in range(2):
        key = f"doomed-{number}"
        await schedule(world, client, hopeless.options(key=key).prepare(), stored_id(key, key))
        await asyncio.sleep(world.chance.uniform(1, 10))
    await attempt(world, "unset lambda", client.set_lambda(hopeless.name, unset=["gate_at_fatal"]))


async def _keep_jobs(world: World, client: AsyncClient) -> None:
    """Jobs that do not tick before the end: made, looked at, paused, deleted by name and by how their names begin."""
    chance = world.chance
    names = [f"{FAR}{number}" for number in range(2)]
    task = ticked.prepare(0.02, 0)
    for name in names:
        await until_done(world, f"job {name}", partial(client.schedule_job, name, task, EVERY), AlreadyExists)
    told = await _each(
        world,
        ("get job", lambda: client.get_job(names[0])),
        ("list jobs", lambda: client.list_jobs(FAR)),
        ("pause job", lambda: client.pause_job(names[0])),
        ("resume job", lambda: client.resume_job(names[0])),
    )
    if told["get job"] is not None and told["get job"].ticks:
        world.chronicle.odd.append(f"the job {names[0]} has ticked, long before its time")
    await until_done(world, "delete job", lambda: client.delete_job(names[0]))
    if chance.random() < 0.8:
        await until_done(world, "delete jobs", lambda: client.delete_jobs(FAR))


async def _foreign(world: World, _client: AsyncClient) -> None:
    """What programs call that do not use the SDK: a job by itself; and where an application of Dapr's listens."""
    frontend = world.wire_frontend()
    request = f.ScheduleJobRequest(request_id="foreign")
    request.job.name = f"{FAR}foreign"
    request.job.schedule = EVERY
    request.job.task.CopyFrom(ticked.prepare(0.02, 0).request.spec)
    await attempt(world, "foreign job", frontend.schedule_job(request, timeout=10))
    for app_id, address in (DAPR_APP, ("nobody", "")):
        try:
            told = (await frontend.find_dapr_app(f.FindDaprAppRequest(app_id=app_id), timeout=10)).address
        except NotFound:
            told = ""
        except AtfError as error:
            world.chronicle.say(f"find app failed: {error}")
            continue
        if told != address:
            world.chronicle.odd.append(
                f"the application {app_id} was said to listen at {told!r}, and does at {address!r}"
            )


async def chain(world: World, client: AsyncClient) -> None:
    """A chain whose first link returns what JSON can't hold: the second one is not made, and the batch says why."""
    await asyncio.sleep(world.chance.uniform(0, 60))
    links = raw.s() | chewed.s()
    await until_done(world, "chain", lambda: client.chain(links, batch_id="chain"))
    await attempt(world, "the first link", client.wait_batch("chain", 30))
