"""Rows: an executor stands still (SIGSTOP) under 500 tasks a second: its worker alone, or its guard with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from atf.executor.guarding.guard import TICK_S
from atf.task import US
from atf.verify.bench import LoadedCluster
from atf.verify.events import Excused
from atf.verify.outcome import Strike
from atf.verify.record import now_us
from atf.verify.record_files import pid_of
from proof.chaos.bench import back, bench, judged, settled
from proof.chaos.frame import Figures, Progress, Row, Trial

EXECUTORS: Final = 4


async def _half(n: int, progress: Progress) -> Sequence[Trial]:
    """It stands still for half a lease, and goes on."""
    more: list[Trial] = []
    async with bench(progress, executors=EXECUTORS) as world:
        async for _ in progress.trials(n):
            await settled(world)
            strike = await world.freeze("executor", (await world.enough_workers(2))[0].worker)
            await asyncio.sleep(world.timing.heartbeat_timeout / 2)
            world.thaw(strike)
            await back(world, strike, progress)
            more.append(survival(died=bool(_died_us(world, strike))))
        return judged(world, await world.drain(), progress, more)


async def _three(n: int, progress: Progress) -> Sequence[Trial]:
    """It stands still for three leases; its guard has killed it before the first is over."""
    more: list[Trial] = []
    async with bench(progress, executors=EXECUTORS) as world:
        lease = world.timing.heartbeat_timeout
        async for _ in progress.trials(n):
            await settled(world)
            strike = await world.freeze("executor", (await world.enough_workers(2))[0].worker)
            took = await _death(world, strike, within=3 * lease)
            world.thaw(strike)
            await back(world, strike, progress)
            late = [] if took is not None and took < lease else [f"killed after {took} s, a lease lasts {lease:g} s"]
            more.append({"late": late, **({} if took is None else {"killed_s": took})})
        return judged(world, await world.drain(), progress, more)


async def _both(n: int, progress: Progress) -> Sequence[Trial]:
    """Worker and guard stand still for three leases, and go on at one instant."""
    more: list[Trial] = []
    async with bench(progress, executors=EXECUTORS) as world:
        timing = world.timing
        async for _ in progress.trials(n):
            await settled(world)
            guard, worker = (await world.enough_workers(2))[0]
            strike = await world.freeze("executor and guard", worker, guard)
            await asyncio.sleep(3 * timing.heartbeat_timeout)
            world.thaw(strike, worker, guard)
            # No lease of its can have ended sooner, and none of its runs may last longer.
            since = strike.at_us + round(
                (timing.heartbeat_timeout - timing.heartbeat_interval - timing.rpc_deadline) * US
            )
            until = strike.until_us + round(TICK_S * US)
            world.notes += [Excused(since, process, until) for process in _processes(world, strike)]
            took = await _death(world, strike, within=10)
            await back(world, strike, progress)
            after = None if took is None else round((_died_us(world, strike) - strike.until_us) / US, 3)
            late = [] if took is not None else ["10 s after the thaw it still lived"]
            more.append({"late": late, **({} if after is None else {"after_thaw_s": max(after, 0.0)})})
        outcome = await world.drain()
        for each in more[:1]:
            each["stale_returns"] = _stale_returns(world)
        return judged(world, outcome, progress, more)


def survival(*, died: bool) -> Trial:
    """Of an executor that stood still for half a lease only."""
    return {"late": ["it stood still for half a lease, and ended"] if died else [], "survived": int(not died)}


def _stale_returns(world: LoadedCluster) -> int:
    """Runs of frozen executors that returned after the thaw: each one's result had to be refused."""
    thawed = {strike.pid: strike.until_us for strike in world.strikes}
    return sum(
        each.succeeded and each.at_us >= thawed.get(pid_of(each.process), now_us()) for each in world.record.ends
    )


async def _death(world: LoadedCluster, strike: Strike, within: float) -> float | None:
    """Waits for the death of a strike's process; seconds from the strike, None: it lives on."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    while loop.time() < until:
        if at_us := _died_us(world, strike):
            return round((at_us - strike.at_us) / US, 3)
        await asyncio.sleep(0.05)
    return None


def _died_us(world: LoadedCluster, strike: Strike) -> int:
    return max((world.deaths.died_us(each) for each in _processes(world, strike)), default=0)


def _processes(world: LoadedCluster, strike: Strike) -> list[str]:
    return [each for each in world.record.processes if pid_of(each) == strike.pid]


def _some_overlap(figures: Figures) -> list[str]:
    return [] if figures.get("stale_returns") else ["no frozen run returned after its thaw, so no refusal was seen"]


ROWS: Final = [
    Row(
        name="freeze-half-lease",
        what="SIGSTOP to an executor's worker for H/2",
        bar="the executor lives on; 0 overlaps, lost 0",
        full=20,
        batch=10,
        run=_half,
    ),
    Row(
        name="freeze-three-leases",
        what="SIGSTOP to an executor's worker for 3 H",
        bar="its guard kills it within H; 0 overlaps, lost 0",
        full=20,
        batch=10,
        run=_three,
    ),
    Row(
        name="freeze-with-guard",
        what="SIGSTOP to an executor's worker and its guard for 3 H",
        bar="every stale result refused; an overlap ends at most one guard tick (0.5 s) after the thaw; lost 0",
        full=10,
        batch=5,
        run=_both,
        verdict=_some_overlap,
    ),
]
