"""What rows have in common: a bench of real roles under 500 tasks a second, and trials from what became of it.

async def run(n: int, progress: Progress) -> Sequence[Trial]:
    async with bench(progress) as world:            # atf.verify.bench.Bench, its load runs; keyword arguments go to it
        for _ in progress.trials(n):
            await settled(world)                    # seconds under load before the next strike
            strike = world.kill("hsc")
            await back(world, strike, progress)     # waits for recovery, tells it
        return judged(await world.drain(), progress)   # one Trial per strike
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from atf.verify.bench import Bench
from atf.verify.outcome import Outcome, Recovery, Strike

from .frame import ROOT, Progress, Trial

RECOVERY_S: Final = 90.0
"""Seconds after which a row goes on without having recovered; the verdict then says so."""


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Ours without settings of ATF, with the code under test, and `variables`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [str(ROOT), ours.get("PYTHONPATH")]))
    return ours | {"PYTHONPATH": path, "ATF_CONFIG": str(folder / "none.toml")} | variables


@asynccontextmanager
async def bench(progress: Progress, env: Mapping[str, str] | None = None, **arguments: Any) -> AsyncIterator[Bench]:
    """A bench in a directory of its own, which is kept, with what the roles said, if the row raises or `keep` is called.

    Args:
        progress: is told where the directory is, if it is kept.
        env: ATF_* variables for the roles.
        arguments: of Bench, such as redis_url, executors, load, settings.
    """
    folder = Path(tempfile.mkdtemp(prefix="atf-chaos-"))
    with (folder / "roles.log").open("w", encoding="utf-8", buffering=1) as log:
        try:
            async with Bench(
                folder,
                env=environment(folder, **(env or {})),
                seed=random.getrandbits(32),
                say=lambda name, line: print(f"{name:<14} | {line}", file=log),
                **arguments,
            ) as world:
                world.start()
                yield world
        except BaseException:
            progress.say(f"what the roles said is in {folder}/roles.log")
            raise
    if not (folder / "keep").exists():
        shutil.rmtree(folder, ignore_errors=True)


async def settled(world: Bench, least: float = 0.5, most: float = 1.5) -> None:
    """Some seconds under load, and until at least one more run has ended."""
    before = world.done
    await asyncio.sleep(random.uniform(least, most))
    async with asyncio.timeout(RECOVERY_S):
        while world.done == before:
            await asyncio.sleep(0.05)


async def back(world: Bench, strike: Strike, progress: Progress) -> None:
    """Waits until the work goes on after a strike."""
    recovered = await world.recovered(strike, RECOVERY_S)
    how = "the work goes on" if recovered else f"has NOT recovered within {RECOVERY_S:g} s"
    progress.say(f"{strike.kind} {strike.pid}, {len(strike.cut_off)} runs cut off: {how}")


def judged(world: Bench, outcome: Outcome, progress: Progress, *, worst_s: float = math.inf) -> list[Trial]:
    """One trial per strike, with its times; the counts of the whole batch, and what was broken, stand in the first.

    Args:
        world: struck.
        outcome: of it.
        progress: is told what was broken.
        worst_s: bar for the seconds until every task that waited or was cut off has started.
    """
    found = [_trial(each, worst_s) for each in outcome.recoveries] or [{"failures": []}]
    found[0] |= {**outcome.figures(), "scheduled_per_s": round(world.stream.per_second, 1)}
    found[0]["failures"] = [*outcome.failures, *found[0]["failures"]]
    if outcome.failures:
        (world.directory / "keep").touch()
        progress.say(f"BROKEN: {'; '.join(outcome.failures)}; the record is in {world.directory}")
        for each in outcome.findings:
            progress.say(f"  {each}")
    return found


def _trial(recovery: Recovery, worst_s: float) -> Trial:
    strike = recovery.strike
    times = {"resumed_s": recovery.resumed_s, "rescued_s": recovery.rescued_s, "worst_s": recovery.worst_s}
    failures = [f"{strike.kind}: nothing started after it"] if recovery.resumed_s is None else []
    if (recovery.worst_s or 0.0) > worst_s:
        failures.append(f"{strike.kind}: a task started {recovery.worst_s} s after it, the bar is {worst_s:g} s")
    known = {name: value for name, value in times.items() if value is not None}
    return {"failures": failures, "cut_off": len(strike.cut_off), **known}
