"""In some seeds a release that can't be started lies on one host for a while. Its controller says why to the store; when executors work there, that is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .world import World

BAD_S: Final = 15.0
"""Until then, from the beginning on."""
GONE_S: Final = 60.0
"""Seconds within which the last reason must be gone, without further faults; controllers say every 10 s how their hosts are."""
WHY: Final = "app sim:app: sim.py line 3: SyntaxError: invalid syntax"
_EVERY: Final = 4
_REASONS: Final = "atf:{0}:hosts:why"


def has_bad_release(seed: int) -> bool:
    """Whether a seed has such a release."""
    return seed % _EVERY == 1


def is_bad(world: World, host: str) -> bool:
    """Whether an executor that starts now on a host can't."""
    return has_bad_release(world.seed) and host == "h1" and world.loop.time() < BAD_S


def judge_reason(world: World) -> None:
    """Before the first fault: the store has been told why none can start."""
    if has_bad_release(world.seed) and world.server.client.hget(_REASONS, "h1") != WHY.encode():
        world.chronicle.odd.append("no executor can start on h1, and the store was not told why")


async def end_of_reasons(world: World) -> None:
    """At the end every host works, and none says that it does not."""
    until = world.loop.time() + GONE_S
    while (left := world.server.client.hgetall(_REASONS)) and world.loop.time() < until:
        await asyncio.sleep(1)
    if left:
        world.chronicle.odd.append(f"executors work, and it is still told why none can start: {left}")
