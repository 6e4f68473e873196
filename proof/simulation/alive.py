"""Which controllers the store says are alive, as `atf status` lists them: at the end all that run, and none that ended long ago.

Controllers do not know the store: the HSC that takes their reports announces them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from .loop import PROCESS

if TYPE_CHECKING:
    from .world import World

SETTLED_S: Final = 60.0
"""Seconds within which the list must be right, without further faults: an HSC announces each controller for 30 s."""
LOOKS: Final = 10
"""Looks, one a second, that must find the list right one after the other: for longer than the 5 s between two announcements."""
_ROLES: Final = "atf:{0}:roles"


def name() -> str:
    """By what name the running process is announced; all of the simulation share one operating system process."""
    process = PROCESS.get()
    assert process is not None
    return process.name


async def judge(world: World) -> None:
    """Waits until the list is right, and stays so."""
    until = world.loop.time() + SETTLED_S
    while not await _stays_right(world):
        if world.loop.time() >= until:
            what = f"controllers that run: {sorted(_running(world))}, and these are listed: {sorted(_listed(world))}"
            world.chronicle.odd.append(what)
            return
        await asyncio.sleep(1)


async def _stays_right(world: World) -> bool:
    for _ in range(LOOKS):
        if _listed(world) != _running(world):
            return False
        await asyncio.sleep(1)
    return True


def _running(world: World) -> set[str]:
    return {each.name for address, each in world.processes.items() if address.endswith("-ctl") and each.alive}


def _listed(world: World) -> set[str]:
    now_us = world.server.now_us()
    alive = world.server.client.zrangebyscore(_ROLES, f"({now_us}", "+inf")
    return {each.decode().split(" ")[2] for each in alive}
