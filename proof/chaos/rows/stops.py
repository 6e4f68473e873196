"""Rows: SIGTERM to each role, and to each process of a worker host, again and again, under load."""

from __future__ import annotations

import asyncio
import functools
import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from atf.cli.local.processes import descendants
from atf.task import US
from atf.verify.bench import LoadedCluster
from atf.verify.load import Load
from atf.verify.outcome import Strike
from atf.verify.record import now_us
from proof.chaos.bench import back, bench, judged, settled
from proof.chaos.frame import Figures, Progress, Row, Trial

FEW: Final = ("server", "worker")
"""The processes of `atf up --compact`, in place of one per role."""
EXIT_S: Final = 10.0
"""Seconds that a role may take to end."""


_HOST_LOAD: Final = Load(rate=200, long_s=5.0, long_share=0.01, failing_share=0)
"""All of it fits the default drain_timeout, and none of it runs twice by its own doing."""
_SPREAD_S: Final = 0.05


async def _run(role: str, n: int, progress: Progress) -> Sequence[Trial]:
    more: list[Trial] = []
    settings = {"compact": role in FEW}
    async with bench(progress, executors=4 if role == "executor" else 2, settings=settings) as world:
        async for _ in progress.trials(n):
            await settled(world)
            strike = await _stop(world, role)
            more.append(_exit(await _exit_s(world, strike)))
            await back(world, strike, progress)
        return judged(world, await world.drain(), progress, more)


def _exit(seconds: float | None) -> Trial:
    if seconds is None:
        return {"late": [f"it had not ended after {3 * EXIT_S:g} s"]}
    return {"late": [f"it ended after {seconds:g} s"] if seconds > EXIT_S else [], "exit_s": seconds}


async def _stop(world: LoadedCluster, role: str) -> Strike:
    if role != "executor":
        return world.kill(role, "stop", signal.SIGTERM)
    guard = (await world.enough_workers(2))[0].guard
    world.deaths.watch(f"executor-{guard}", guard)
    strike = Strike("stop", role, guard, now_us())
    world.strikes.append(strike)
    os.kill(guard, signal.SIGTERM)
    return strike


async def _exit_s(world: LoadedCluster, strike: Strike) -> float | None:
    """Seconds from the signal to the end of the process; None: three times the bar was not enough."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 3 * EXIT_S
    while loop.time() < until:
        if at_us := world.deaths.died_us(f"{strike.role}-{strike.pid}"):
            return round((at_us - strike.at_us) / US, 3)
        await asyncio.sleep(0.05)
    return None


async def _stop_hosts(n: int, progress: Progress) -> Sequence[Trial]:
    """A service manager signals each process of a control group: controller, guards and workers, in any order."""
    async with bench(progress, load=_HOST_LOAD) as world:
        async for _ in progress.trials(n):
            await settled(world)
            await world.enough_workers(world.executors)
            controller = world.cluster.pid("controller")
            pids = [controller, *descendants(controller)]
            random.shuffle(pids)
            strike = Strike("stop", "host", controller, now_us())
            world.strikes.append(strike)
            world.deaths.watch(f"host-{controller}", controller)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
                await asyncio.sleep(random.uniform(0, _SPREAD_S / len(pids)))
            await _exit_s(world, strike)
            await back(world, strike, progress)
        return judged(world, await world.drain(), progress)


def _all_first_runs(figures: Figures) -> list[str]:
    again = figures.get("repeated", 0)
    return [*_used_up("host", figures), *([f"{again} runs beyond the first"] if again else [])]


def _used_up(role: str, figures: Figures) -> list[str]:
    found = [f"{count} attempts were used up" for count in [figures.get("spent", 0)] if count]
    if role not in {"hsc", "server"}:  # executors end themselves while it is away for longer than three heartbeats
        found += [f"{count} runs were counted as lost" for count in [figures.get("losses", 0)] if count]
    return found


ROWS: Final = [
    Row(
        name="stop-host",
        what="SIGTERM to controller, guards and workers of a host within 50 ms, in any order, under 200 tasks/s of 5 s at most",
        bar="every task succeeds in its first run, lost 0",
        full=100,
        batch=25,
        run=_stop_hosts,
        verdict=_all_first_runs,
        timed=False,
    ),
    *(
        Row(
            name=f"stop-{role}",
            what=f"SIGTERM to the {role} under 500 tasks/s of 1 s at most",
            bar="exits ≤ 10 s, no attempt used up, lost 0",
            full=20,
            batch=20,
            run=functools.partial(_run, role),
            verdict=functools.partial(_used_up, role),
        )
        for role in ("frontend", "store-consumer", "controller", "executor", "hsc", *FEW)
    ),
]
