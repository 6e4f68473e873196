"""Row: an executor can't reach the HSC, while everybody else can. It ends itself before anybody else may run what it ran.

By turns it was started by hand, or by a controller, which is cut off with it, as a host is, and starts another one as soon as it has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from atf.cli.local.processes import ExecutorPids, executors_of
from atf.embedded.child import Child
from atf.exits import EXIT_NO_HEARTBEAT
from atf.task import US
from atf.verify.bench import APP, LoadedCluster
from atf.verify.outcome import Strike
from atf.verify.record import now_us
from atf.verify.record_files import pid_of
from proof.chaos.bench import back, bench, judged, settled
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.proxy import Proxy

BUSY_S: Final = 60.0
"""Seconds that the executor gets until it runs something."""
STOP_S: Final = 40.0
"""Seconds that its controller gets to end: its executors finish what they have."""
_LOOK_S: Final = 0.05


class CutOffExecutor(NamedTuple):
    """An executor that reaches the HSC through the proxy, and runs tasks.

    Attributes:
        worker: its process.
        code: waits for its end; its exit code, as its guard gave it on.
    """

    worker: int
    code: Callable[[], Awaitable[int]]


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    more: list[Trial] = []
    async with bench(progress, executors=1) as world, Proxy(world.cluster.addresses["hsc"]) as proxy:
        lease = world.timing.heartbeat_timeout
        async for number in progress.trials(n):
            guarded = number // 2 % 2 == 1  # held, refused, and both again with a controller
            async with (_guarded if guarded else _by_hand)(world, proxy) as executor:
                await settled(world)
                strike = strike_at(world, executor.worker, proxy.hold if number % 2 == 0 else proxy.refuse)
                async with asyncio.timeout(3 * lease):
                    code = await executor.code()
                took = round((_died_us(world, executor.worker) - strike.at_us) / US, 3)
                await back(world, strike, progress)
                proxy.heal()
            more.append(cut_off(code, took, lease, guarded=guarded))
        return judged(world, await world.drain(), progress, more)


def cut_off(code: int, took: float, lease: float, *, guarded: bool) -> Trial:
    """One trial.

    Args:
        code: that the executor ended with.
        took: seconds from the cut until its end.
        lease: seconds that a lease lasts.
        guarded: whether a controller had started it.
    """
    return {
        "failures": [f"it ended with exit code {code}, not {EXIT_NO_HEARTBEAT}"] if code != EXIT_NO_HEARTBEAT else [],
        "late": [f"it ended after {took} s, a lease lasts {lease:g} s"] if took >= lease else [],
        "ended_s": took,
        "of_a_controller": int(guarded),
    }


def _died_us(world: LoadedCluster, worker: int) -> int:
    """When a process that has ended died, as the kernel told; now, if nothing was told."""
    told = [world.deaths.died_us(each) for each in world.record.processes if pid_of(each) == worker]
    return max(told, default=0) or now_us()


def strike_at(world: LoadedCluster, worker: int, cut: Callable[[], None]) -> Strike:
    """Cuts an executor off. The runs that this cuts off are those that go on after it: of the others the result may have come through."""
    at_us = now_us()
    cut()
    world.poll()
    strike = Strike("cut off", "executor", worker, at_us, cut_off=list(world.record.open_runs(worker)))
    world.strikes.append(strike)
    return strike


@asynccontextmanager
async def _by_hand(world: LoadedCluster, proxy: Proxy) -> AsyncIterator[CutOffExecutor]:
    """`atf executor`: the process that it starts is its guard."""
    addresses = world.cluster.addresses
    flags = ["--hsc", proxy.address, "--controller", addresses["controller"], "--frontend", addresses["frontend"]]
    child = Child([sys.executable, "-P", "-m", "atf.cli", "executor", APP, *flags], env=world.env)
    try:
        _, worker = await _busy(world, lambda: [each for each in executors_of(os.getpid()) if each.guard == child.pid])
        yield CutOffExecutor(worker, child.wait)
    finally:
        await child.stop(10)


@asynccontextmanager
async def _guarded(world: LoadedCluster, proxy: Proxy) -> AsyncIterator[CutOffExecutor]:
    """The one executor of a controller of its own."""
    cluster, lines = world.cluster, list[str]()
    flags = ["--listen", "127.0.0.1:0", "--executors", "1"]
    flags += ["--hsc", proxy.address, "--frontend", cluster.addresses["frontend"]]
    env = {**world.env, "ATF_LOG_FORMAT": "json"}
    child = Child([sys.executable, "-P", "-m", "atf.cli", "controller", *flags, APP], env=env, on_line=lines.append)

    async def code() -> int:
        while (found := told_code(lines, guard)) is None:
            await asyncio.sleep(_LOOK_S)
        return found

    try:
        guard, worker = await _busy(world, lambda: executors_of(child.pid))
        yield CutOffExecutor(worker, code)
    finally:
        await child.stop(STOP_S)


def told_code(lines: Sequence[str], guard: int) -> int | None:
    """The exit code of an executor by its controller's log; None: the log does not say that it has ended."""
    for line in lines:
        if line.startswith("{") and (said := json.loads(line)).get("guard") == guard and "code" in said:
            return int(said["code"])
    return None


async def _busy(world: LoadedCluster, executors: Callable[[], Sequence[ExecutorPids]]) -> ExecutorPids:
    """Waits until one of these runs something.

    Raises:
        TimeoutError: none does.
    """
    async with asyncio.timeout(BUSY_S):
        while True:
            world.poll()
            at_work = {pid_of(process) for process, runs in world.record.running.items() if runs}
            if found := [each for each in executors() if each.worker in at_work]:
                return found[0]
            await asyncio.sleep(_LOOK_S)


ROWS: Final = [
    Row(
        name="partition-executor-hsc",
        what="a TCP proxy between an executor and the HSC is cut: held or refused by turns; of two such turns the second with an executor of a controller, cut off with it",
        bar="the executor ends itself after 3 failed heartbeats, before its leases end; 0 overlaps, lost 0",
        full=20,
        batch=10,
        run=_run,
    )
]
