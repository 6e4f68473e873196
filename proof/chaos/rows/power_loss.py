"""Rows: the store's host loses its power under load: the server is killed, and what it had not synced is gone."""

from __future__ import annotations

import asyncio
import functools
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from atf.embedded import find_binary
from atf.errors import TaskNotFound
from atf.verify.bench import LoadedCluster
from atf.verify.events import Accepted, Forgot
from atf.verify.record import now_us
from proof.chaos.bench import Struck, bench, judged, settled
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.power import Power, available
from proof.chaos.storewatch import ALWAYS, EVERYSEC, Resumption, back, bars

WINDOW_S = 2.0
"""Seconds of acknowledgements that may go with everysec."""
_ASK_S = 5.0
"""Seconds of acknowledgements before a power loss that are asked for after it."""


async def _cut(durability: str, n: int, progress: Progress) -> Sequence[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="atf-power-"))
    try:
        power = Power(find_binary().path, folder / "data" / "store", folder / "power")
        settings = {"durability": durability, "store_bin": str(power.launcher), "data_dir": str(folder / "data")}
        async with bench(progress, settings=settings) as world:
            found: list[Trial] = []
            async for _ in progress.trials(n):
                await settled(world, 2.0, 4.0)
                found.append(await _once(world, power, durability, progress))
            return judged(world, await world.drain(), progress, found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _once(world: Struck, power: Power, durability: str, progress: Progress) -> Trial:
    power.lose_power()
    killed, killed_us = time.monotonic(), now_us()
    strike = world.kill("store")
    away = await back(world, killed)
    if durability == EVERYSEC:
        world.notes.append(Forgot(now_us(), killed_us - round(WINDOW_S * 1e6)))
    resumption = Resumption(world)
    took = await resumption.watch(max(bars(world, durability).values()) + 15)
    # with everysec some that were accepted never come: there is no waiting for all of them
    recovered = "start" in took if durability == EVERYSEC else await world.recovered(strike)
    ages = await _forgotten(world, killed_us)
    progress.say(
        f"{power.said[-1]} gone; away {away:.1f} s; {len(ages)} acknowledged tasks gone, the oldest {max(ages, default=0):.2f} s old"
    )
    failures = [f"{len(ages)} acknowledged tasks were lost"] if ages and durability == ALWAYS else []
    failures += [f"an acknowledgement {each:.2f} s old was lost" for each in ages if each > WINDOW_S]
    return {
        "failures": failures,
        "late": [] if recovered else ["not all that was cut off ran again"],
        "lost_bytes": int(power.said[-1].split()[0]),
        "lost_age_s": ages,
        "away_s": round(away, 3),
        **{f"{what}_s": each for what, each in took.items()},
    }


async def _forgotten(world: LoadedCluster, killed_us: int) -> list[float]:
    """How long before the loss each task was acknowledged that the store does not know any more, in seconds."""
    since_us = killed_us - round(_ASK_S * 1e6)
    asked = [each for each in world.stream.events if isinstance(each, Accepted) and since_us <= each.at_us <= killed_us]
    limit = asyncio.Semaphore(64)

    async def age(each: Accepted) -> float | None:
        async with limit:
            with suppress(TaskNotFound):
                await world.client.get(world.stream.accepted[each.task_id])
                return None
        return round((killed_us - each.at_us) / 1e6, 3)

    return [each for each in await asyncio.gather(*map(age, asked)) if each is not None]


ROWS = [
    Row(
        name="power-loss",
        what="power loss of the store (appendfsync always) under 500 tasks/s: unsynced writes are gone",
        bar="lost 0, concurrent 0, early 0, no token twice",
        full=20,
        batch=10,
        run=functools.partial(_cut, ALWAYS),
        available=available,
    ),
    Row(
        name="power-loss-everysec",
        what="power loss of the store (appendfsync everysec) under 500 tasks/s: unsynced writes are gone",
        bar="at most 2 s of acknowledged tasks are gone; concurrent 0, early 0, no token twice",
        full=20,
        batch=5,
        run=functools.partial(_cut, EVERYSEC),
        available=available,
    ),
]
