"""When all faults are over: claims that nobody is given do not stand still for a lease.

Three times a task is claimed and the answer that brings it is not delivered: the connection breaks, the controller is killed, the executor that it was
for dies. Each time the task must begin somewhere, long before its lease would end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from atf.client import AsyncClient
from atf.process.role import Process as Frame
from atf.verify.events import Began

from .caller import schedule, stored_id

if TYPE_CHECKING:
    from .loop import SimProcess
    from .world import World

Way = Callable[["World", "SimProcess", list[Any]], None]
CLAIMED_S: Final = 60.0
"""Seconds in which the task is expected to be claimed: claims may still be paused."""
STILL_S: Final = 12.0
"""Seconds within which it must begin: less than a lease, and more than another host needs where a controller comes back."""
REST_S: Final = 15.0
"""Seconds after which everything is in order again."""


async def judge(world: World) -> None:
    """Plays them, one after the other."""
    ways = {"its connection broke": _broke, "its controller was killed": _killed, "its executor died": _died}
    for number, (what, way) in enumerate(ways.items()):
        key = f"undelivered-{number}"
        task_id = stored_id(key, key)
        kept_at: list[float] = []

        def keep(caller: SimProcess, claims: list[Any], way: Way = way, kept_at: list[float] = kept_at) -> None:
            kept_at.append(world.loop.time())
            way(world, caller, claims)

        world.net.undelivered = keep
        world.start(f"probe-{number}", "host-service", partial(_schedule, world, key))
        until = world.loop.time() + CLAIMED_S
        while not _began(world, task_id) and world.loop.time() < (kept_at[0] + STILL_S if kept_at else until):
            await asyncio.sleep(0.1)
        world.net.undelivered = None
        if kept_at and not _began(world, task_id):
            world.chronicle.odd.append(f"{task_id}: it stood still for {STILL_S:g} s after {what} with the answer")
        await asyncio.sleep(REST_S)
        world.boot_all()


async def _schedule(world: World, key: str, frame: Frame, _process: SimProcess) -> None:
    from .lambdas import chewed

    client = AsyncClient("the service", timeout=40, frontend=world.wire_frontend(), runtime=frame.runtime)
    await schedule(world, client, chewed.options(key=key).prepare("hay"), stored_id(key, key))


def _began(world: World, task_id: str) -> bool:
    return any(isinstance(each, Began) and each.task_id == task_id for each in world.chronicle.events)


def _broke(world: World, caller: SimProcess, _claims: list[Any]) -> None:
    world.chronicle.say(f"an answer does not reach {caller.name}")


def _killed(world: World, caller: SimProcess, _claims: list[Any]) -> None:
    world.loop.later(0, lambda: world.kill(caller.name.split(".")[0]))


def _died(world: World, _caller: SimProcess, claims: list[Any]) -> None:
    owner = (world.server.field(claims[0].task_id, "c") or "").split(" ")[-1]
    world.loop.later(0, lambda: world.kill(owner.split(".")[0]))
