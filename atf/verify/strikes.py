"""Plans by a seed what is done to which role and when, and does it. Only processes that the bench has started are touched."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from .bench import LoadedCluster
from .outcome import Strike

ROLES: Final = ("frontend", "store-consumer", "controller", "executor", "hsc")
STORE: Final = "store"
"""It is struck only if it is the bench's own."""
_FREEZE_S: Final = (0.5, 5.0)
"""Seconds that a frozen process stands still."""
LONG: Final = 1.25
"""Leases that one of them does: what it holds is given to others meanwhile."""
_LIVES_S: Final = 15.0
"""Seconds that a strike waits for a process to strike: the one before may have ended it."""


_AGAIN_S: Final = 0.1


class PlannedStrike(NamedTuple):
    """One strike to be.

    Attributes:
        at_s: seconds from the start of the load.
        what: "kill" or "freeze".
        role: whose process.
        hold_s: seconds that a freeze lasts.
    """

    at_s: float
    what: str
    role: str
    hold_s: float

    def __str__(self) -> str:
        held = f" for {self.hold_s:.1f} s" if self.what == "freeze" else ""
        return f"{self.what} {self.role}{held}"


def plan(seed: int, count: int, seconds: float, roles: Sequence[str], lease: float) -> list[PlannedStrike]:
    """Strikes spread over the load, each role in its turn, the order by chance; the same ones for a seed. One of them is a freeze for longer than a
    lease: an executor's, if one is frozen.

    Args:
        seed: of chance.
        count: how many.
        seconds: that the load lasts; the last tenth is left in peace.
        roles: which.
        lease: seconds that a lease lasts.
    """
    chance = random.Random(f"strikes {seed}")
    order: list[str] = []
    while len(order) < count:
        order += chance.sample(list(roles), len(roles))
    step = 0.9 * seconds / max(count, 1)
    strikes = []
    for number, role in enumerate(order[:count]):
        what = chance.choice(("kill", "kill", "freeze"))
        at_s = round((number + chance.uniform(0.2, 0.8)) * step, 3)
        strikes.append(PlannedStrike(at_s, what, role, round(chance.uniform(*_FREEZE_S), 3)))
    if strikes:
        freezes = [place for place, each in enumerate(strikes) if each.what == "freeze"] or [len(strikes) - 1]
        long = min(freezes, key=lambda place: strikes[place].role != "executor")
        strikes[long] = strikes[long]._replace(what="freeze", hold_s=round(LONG * lease, 3))
    return strikes


async def carry_out(bench: LoadedCluster, strikes: Sequence[PlannedStrike], say: Callable[[str], None]) -> int:
    """Carries a plan out, from now on.

    Args:
        bench: whose roles.
        strikes: the plan.
        say: is told of each.

    Returns:
        how many were carried out: one whose role has no process for long is left out.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    freezes: list[asyncio.Task[None]] = []
    done = 0
    try:
        for each in strikes:
            await asyncio.sleep(began + each.at_s - loop.time())
            strike = await _strike(bench, each)
            if strike is None:
                say(f"left out: {each}; none runs")
                continue
            done += 1
            say(f"{each} (process {strike.pid})")
            if each.what == "freeze":
                freezes.append(asyncio.create_task(_thaw(bench, strike, each.hold_s)))
        await asyncio.gather(*freezes)
    finally:
        for freeze in freezes:
            freeze.cancel()
        await asyncio.gather(*freezes, return_exceptions=True)
    return done


async def _strike(bench: LoadedCluster, each: PlannedStrike) -> Strike | None:
    """Strikes a process of the role; another one if that has died since it was chosen. None: none runs."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _LIVES_S
    while loop.time() < until:
        if pid := _target(bench, each.role):
            with suppress(ProcessLookupError):
                if each.what == "freeze":
                    return await bench.freeze(each.role, pid)
                return await bench.kill_worker(pid) if each.role == "executor" else bench.kill(each.role)
        await asyncio.sleep(_AGAIN_S)
    return None


async def _thaw(bench: LoadedCluster, strike: Strike, hold_s: float) -> None:
    try:
        await asyncio.sleep(hold_s)
    finally:
        bench.thaw(strike)


def _target(bench: LoadedCluster, role: str) -> int:
    """The process to strike: of executors the worker that runs most; 0: none runs now."""
    if role != "executor":
        return bench.cluster.pid(role)
    workers = bench.workers()
    return workers[0].worker if workers else 0
