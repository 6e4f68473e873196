"""Rows: the store server is killed under load, and started again by its supervisor."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Sequence

from proof.chaos.bench import bench, judged, settled
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.storewatch import ALWAYS, EVERYSEC, Resumption, back, bars, worst_s


async def _kill(durability: str, n: int, progress: Progress) -> Sequence[Trial]:
    async with bench(progress, settings={"durability": durability}) as world:
        found: list[Trial] = []
        async for _ in progress.trials(n):
            await settled(world, 2.0, 4.0)
            killed = time.monotonic()
            strike = world.kill("store")
            away = await back(world, killed)
            resumption = Resumption(world)
            bar = bars(world, durability)
            took = await resumption.watch(max(bar.values()) + random.uniform(10, 12))
            recovered = await world.recovered(strike)
            progress.say(f"away {away:.1f} s; then {', '.join(f'{what} {each:.1f} s' for what, each in took.items())}")
            found.append(trial_of(away, took, bar, recovered=recovered))
        worst = [each["away_s"] + worst_s(world, durability) for each in found]
        return judged(world, await world.drain(), progress, found, worst_s=worst)


def trial_of(away: float, took: dict[str, float], bar: dict[str, float], *, recovered: bool) -> Trial:
    late = [
        f"{what}: {took.get(what, 'nothing')} s after the store's return, the bar is {most:g} s"
        for what, most in bar.items()
        if took.get(what, most + 1) > most
    ]
    late += [] if recovered else ["not all that was cut off ran again"]
    return {"late": late, "away_s": round(away, 3), **{f"{what}_s": each for what, each in took.items()}}


ROWS = [
    Row(
        name="store-killed",
        what="SIGKILL to the store (appendfsync always) under 500 tasks/s",
        bar="lost 0, concurrent 0, early 0; tasks are accepted, pushed, claimed and started within 0.5 s of the store's return, by the slower one of two"
        " executors too; what waited or was cut off starts within 15 s (enqueue_timeout + 5)",
        full=50,
        batch=10,
        run=functools.partial(_kill, ALWAYS),
    ),
    Row(
        name="store-killed-everysec",
        what="SIGKILL to the store (appendfsync everysec) under 500 tasks/s",
        bar="lost 0, concurrent 0, early 0; Schedule within 0.5 s of the store's return, claims within H + 5 s, those of the slower one of two executors too;"
        " what waited or was cut off starts within H + 5 s",
        full=10,
        batch=5,
        run=functools.partial(_kill, EVERYSEC),
    ),
]
