"""Row: an executor can't reach the HSC, while everybody else can. It ends itself before anybody else may run what it ran."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from atf.cli.processes import executors_of
from atf.embedded.child import Child
from atf.exits import EXIT_NO_HEARTBEAT
from atf.task import US
from atf.verify.bench import APP, Bench
from atf.verify.outcome import Strike
from atf.verify.record import now_us, pid_of
from tests.chaos.bench import back, bench, judged, settled
from tests.chaos.frame import Progress, Row, Trial
from tests.chaos.proxy import Proxy

BUSY_S: Final = 60.0
"""Seconds that the executor gets until it runs something."""


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    more: list[Trial] = []
    async with bench(progress, executors=1) as world, Proxy(world.cluster.addresses["hsc"]) as proxy:
        lease = world.timing.heartbeat_timeout
        async for number in progress.trials(n):
            async with _executor(world, proxy) as (child, worker):
                await settled(world)
                strike = strike_at(world, worker, proxy.hold if number % 2 == 0 else proxy.refuse)
                async with asyncio.timeout(3 * lease):
                    code = await child.wait()
                took = round((now_us() - strike.at_us) / US, 3)
                await back(world, strike, progress)
                proxy.heal()
            failures = [f"it ended with exit code {code}, not {EXIT_NO_HEARTBEAT}"] if code != EXIT_NO_HEARTBEAT else []
            late = [f"it ended after {took} s, a lease lasts {lease:g} s"] if took >= lease else []
            more.append({"failures": failures, "late": late, "ended_s": took})
        return judged(world, await world.drain(), progress, more)


def strike_at(world: Bench, worker: int, cut: Callable[[], None]) -> Strike:
    """Cuts an executor off. The runs that this cuts off are those that go on after it: of the others the result may have come through."""
    at_us = now_us()
    cut()
    world.poll()
    strike = Strike("cut off", "executor", worker, at_us, cut_off=list(world.record.open_runs(worker)))
    world.strikes.append(strike)
    return strike


@asynccontextmanager
async def _executor(world: Bench, proxy: Proxy) -> AsyncIterator[tuple[Child, int]]:
    """An executor that reaches the HSC through the proxy, and runs tasks: its guard, and its worker's pid."""
    addresses = world.cluster.addresses
    flags = ["--hsc", proxy.address, "--controller", addresses["controller"], "--frontend", addresses["frontend"]]
    child = Child([sys.executable, "-P", "-m", "atf.cli", "executor", APP, *flags], env=world.env)
    try:
        async with asyncio.timeout(BUSY_S):
            while True:
                world.poll()
                workers = [each.worker for each in executors_of(os.getpid()) if each.guard == child.pid]
                busy = [each for each in world.record.processes if pid_of(each) in workers]
                if busy and world.record.running[busy[0]]:
                    break
                await asyncio.sleep(0.05)
        yield child, workers[0]
    finally:
        await child.stop(10)


ROWS: Final = [
    Row(
        name="partition-executor-hsc",
        what="a TCP proxy between an executor and the HSC is cut: held or refused by turns",
        bar="the executor ends itself after 3 failed heartbeats, before its leases end; 0 overlaps, lost 0",
        full=20,
        batch=10,
        run=_run,
    )
]
