"""What rows have in common: a bench of real roles under 500 tasks a second, and trials from what became of it.

async def run(n: int, progress: Progress) -> Sequence[Trial]:
    async with bench(progress) as world:            # atf.verify.bench.LoadedCluster, its load runs; keyword arguments go to it
        async for _ in progress.trials(n):
            await settled(world)                    # seconds under load before the next strike
            strike = world.kill("hsc")
            await back(world, strike, progress)     # waits for recovery, tells it
        return judged(world, await world.drain(), progress)   # one Trial per strike
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from atf.verify.bench import LoadedCluster
from atf.verify.outcome import LoadOutcome, Recovery, Strike

from .frame import ROOT, Progress, Trial

RECOVERY_S: Final = 90.0
"""Seconds after which a row goes on without having recovered; the trial has failed then."""
DRAIN_S: Final = 300.0
"""Seconds that the load gets before a strike until it has left nothing behind; long, since the host may have taken the processors away before."""
LEAST_SHARE: Final = 0.9
"""Share of the load's rate that must really be scheduled; else a row has tried something else than it says."""
BEHIND_S: Final = 1.0
"""Seconds of load that may be left to do: some tasks run, some are delayed, some wait for another attempt."""
UNSUSTAINED: Final = "the machine could not sustain {:g} tasks/s"
_LOOK_S: Final = 1.0


class Struck(LoadedCluster):
    """A bench, and what is told of each strike at it.

    Attributes:
        told: a part of each strike's trial: `settled` adds one, `back` adds to the last.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.told: list[Trial] = []


AnyStruck = TypeVar("AnyStruck", bound=Struck)


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Ours without settings of ATF, with the code under test, and `variables`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [str(ROOT), ours.get("PYTHONPATH")]))
    return ours | {"PYTHONPATH": path, "ATF_CONFIG": str(folder / "none.toml")} | variables


def bench(
    progress: Progress, env: Mapping[str, str] | None = None, **arguments: Any
) -> AbstractAsyncContextManager[Struck]:
    """See `bench_of`."""
    return bench_of(Struck, progress, env, **arguments)


@asynccontextmanager
async def bench_of(
    kind: type[AnyStruck], progress: Progress, env: Mapping[str, str] | None = None, **arguments: Any
) -> AsyncIterator[AnyStruck]:
    """A bench in a directory of its own, which is kept, with what the roles said, if the row raises or `keep` is called.

    Args:
        kind: of bench.
        progress: is told where the directory is, if it is kept.
        env: ATF_* variables for the roles.
        arguments: of Bench, such as redis_url, executors, load, settings.
    """
    folder = Path(tempfile.mkdtemp(prefix="atf-chaos-"))
    with (folder / "roles.log").open("w", encoding="utf-8", buffering=1) as log:
        try:
            async with kind(
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


async def settled(world: Struck, least: float = 0.5, most: float = 1.5) -> None:
    """Some seconds under load, until at least one more run has ended, and until the load has left nothing behind; once per strike.

    What the load had left behind would count as the strike's. Where it does not drain, the strike's trial is late.
    """
    before, began, called = world.done, time.monotonic(), len(world.stream.called)
    await asyncio.sleep(random.uniform(least, most))
    async with asyncio.timeout(RECOVERY_S):
        while world.done == before:
            await asyncio.sleep(0.05)
    waited = time.monotonic()
    late: list[str] = []
    while world.load.rate and (behind := await _behind(world, began, called)):
        if time.monotonic() - waited > DRAIN_S:
            late = [f"{UNSUSTAINED.format(world.load.rate)}: {DRAIN_S:g} s before the strike were not enough, {behind}"]
            break
        began, called = time.monotonic(), len(world.stream.called)
        await asyncio.sleep(_LOOK_S)
    world.told.append({"failures": [], "late": late, "waited_for_drain_s": round(time.monotonic() - waited, 1)})


async def _behind(world: Struck, began: float, called: int) -> str:
    """What the load is behind with; "": nothing. `called` tasks had been asked for at `began` (monotonic)."""
    rate, seconds = world.load.rate, time.monotonic() - began
    stream, left = world.stream, await world.stored.left()
    per_second, left = (len(stream.called) - called) / seconds, left + len(stream.called) - len(stream.accepted)
    if per_second >= LEAST_SHARE * rate and left <= rate * BEHIND_S:
        return ""
    return f"{per_second:.0f}/s were scheduled and {left} tasks were left to do"


async def back(world: Struck, strike: Strike, progress: Progress) -> bool:
    """Waits until the work goes on after a strike; whether it does. If it does not, the strike's trial is late."""
    recovered = await world.recovered(strike, RECOVERY_S)
    how = "the work goes on" if recovered else f"has NOT recovered within {RECOVERY_S:g} s"
    progress.say(f"{strike.kind} {strike.pid}, {len(strike.cut_off)} runs cut off: {how}")
    if not recovered:
        world.told[-1]["late"].append(f"{strike.kind}: not recovered from within {RECOVERY_S:g} s")
    return recovered


async def over(world: Struck, strike: Strike) -> None:
    """Waits until what a strike cut off has ended elsewhere: struck again, it would run alone from then on, as what may be guilty does."""
    again = {key for key, _ in strike.cut_off}
    async with asyncio.timeout(RECOVERY_S):
        while any(key in again for runs in world.record.running.values() for key, _ in runs):
            await asyncio.sleep(_LOOK_S)


def judged(
    world: Struck,
    outcome: LoadOutcome,
    progress: Progress,
    more: Sequence[Trial] = (),
    *,
    worst_s: float | Sequence[float] = math.inf,
) -> list[Trial]:
    """One trial per strike, with its times; the counts of the whole batch, and what was broken, stand in the first.

    Args:
        world: struck.
        outcome: of it.
        progress: is told what was broken.
        more: what the row knows of each strike; what it says comes after the others.
        worst_s: bar for the seconds until every task that waited or was cut off has started, of all strikes or of each.
    """
    worst = [worst_s] * len(outcome.recoveries) if isinstance(worst_s, int | float) else worst_s
    parts = [
        [_trial(each, bar) for each, bar in zip(outcome.recoveries, worst, strict=True)],
        world.told,
        *([more] if more else []),
    ]
    found = [_merged(*each) for each in zip(*parts, strict=True)]
    if not found and not outcome.failures:  # stopped before the first strike
        return []
    first = {**outcome.figures(), "scheduled_per_s": round(world.stream.per_second, 1)}
    late = _kept_up(world) if found and not progress.starved else []
    found = [_merged({**first, "failures": outcome.failures, "late": late}, *found[:1]), *found[1:]]
    if broken := list(dict.fromkeys(said for each in found for said in (*each["failures"], *each["late"]))):
        (world.directory / "keep").touch()
        progress.say(f"BROKEN: {'; '.join(broken)}; what the roles said, and the record, are in {world.directory}")
        for said in outcome.findings:
            progress.say(f"  {said}")
    return found


def _kept_up(world: Struck) -> list[str]:
    asked, kept = world.load.rate, world.stream.per_second
    return [] if kept >= LEAST_SHARE * asked else [f"{UNSUSTAINED.format(asked)}: {kept:.0f}/s were scheduled"]


def _merged(*trials: Trial) -> Trial:
    """One trial of several; all their sentences."""
    found: Trial = {}
    for each in trials:
        found |= each
    return found | {name: [said for each in trials for said in each.get(name, [])] for name in ("failures", "late")}


def _trial(recovery: Recovery, worst_s: float) -> Trial:
    strike = recovery.strike
    times = {"resumed_s": recovery.resumed_s, "rescued_s": recovery.rescued_s, "worst_s": recovery.worst_s}
    late = [f"{strike.kind}: nothing started after it"] if recovery.resumed_s is None else []
    if (recovery.worst_s or 0.0) > worst_s:
        late.append(f"{strike.kind}: a task started {recovery.worst_s} s after it, the bar is {worst_s:g} s")
    known = {name: value for name, value in times.items() if value is not None}
    return {"failures": [], "late": late, "cut_off": len(strike.cut_off), **known}
