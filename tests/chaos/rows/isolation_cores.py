"""Row: a pool of four executors on four cores. First one of ten lambdas floods and the others come now and then: each has to get its turn
within `lookahead` turns. Then the groups rotate a hundred times, while cores are added and removed: always exactly group i on core
(i + k) mod n, by what GetCapacity says, and by where the lambda ran that has a core of its own, which the lambdas' own record tells.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

from atf.cli.cluster import Cluster, ClusterSettings
from atf.client import AsyncClient
from atf.client.capacity import CapacityInfo
from tests.chaos import cored
from tests.chaos.bench import environment
from tests.chaos.frame import Progress, Row, Trial

EXECUTORS: Final = 4
THREADS: Final = 2
CORES: Final = 4
LOOKAHEAD: Final = 3
TURN_S: Final = 1.0
HAND_OVER_S: Final = 1.0
TURNS_S: Final = float(os.environ.get("ATF_CORES_SECONDS", "60"))
WITHIN_S: Final = LOOKAHEAD * (TURN_S + HAND_OVER_S) + 1.0
"""Seconds until a lambda's turn has come at the latest: `lookahead` turns, each with its hand-over, and what scheduling takes."""
ROTATIONS: Final = int(os.environ.get("ATF_CORES_ROTATIONS", "100"))
ROTATION_S: Final = 1.0
CHANGES: Final = {0.25: 5, 0.5: 3, 0.75: 4}
"""Share of the rotations after which there are so many cores."""
SLACK_S: Final = 0.4
"""Seconds after a rotation or a change in which what was handed over before may still begin."""
OUTSIDE: Final = 0.02
"""Share of runs that may begin on another core than their lambda's: cores are shares, no fence."""
_LOOK_S: Final = 0.1
_US: Final = 1_000_000


class Seen(NamedTuple):
    """What GetCapacity said once."""

    at_us: int
    pool: CapacityInfo

    def guards_on(self, core: int, at_us: int) -> set[int]:
        """The guards of the executors whose group works on a core at an instant."""
        groups = self.pool.groups
        if not groups or self.pool.next_rotation_at is None:
            return set()
        next_us = round(self.pool.next_rotation_at.timestamp() * _US)
        k = self.pool.rotation + (at_us - next_us) // round(ROTATION_S * _US) + 1
        return {int(each.rsplit("-", 2)[1]) for each in groups[(core - k) % len(groups)]}


async def turns(client: AsyncClient, record: Path) -> Trial:
    """One lambda floods, nine come now and then."""
    await client.set_capacity(
        cores=CORES,
        lookahead=LOOKAHEAD,
        multiplexed_timeout=TURN_S,
        hand_over=HAND_OVER_S,
        rotation=5,
        reserve={"cored/l0": 0},
    )
    await asyncio.sleep(2)
    began_us, until, number = _now_us(), time.monotonic() + TURNS_S, 0
    rate = round(EXECUTORS * THREADS / cored.WORK_S)  # a second of what there are executors for
    await client.schedule_many([cored.works[0].prepare(_now_us()) for _ in range(5 * rate)])
    while time.monotonic() < until:
        await client.schedule_many([cored.works[0].prepare(_now_us()) for _ in range(rate // 4)])
        await client.schedule(cored.works[1 + number % 9].prepare(_now_us()))
        number += 1
        await asyncio.sleep(0.2)
    await asyncio.sleep(WITHIN_S)
    runs = cored.read(record)
    ran = [(run, asked_us) for run, asked_us in runs if asked_us >= began_us]
    flood = sum(run.number == 0 and run.at_us >= began_us for run, _ in runs)  # what was left of the last trial, too
    waited_s = [(run.at_us - asked_us) / _US for run, asked_us in ran if run.number]
    failures = [f"{len(waited_s)} of {number} tasks of the nine have run"] if len(waited_s) < number else []
    late = [f"a turn came after {max(waited_s):.1f} s"] if waited_s and max(waited_s) > WITHIN_S else []
    return {"failures": failures, "late": late, "turn_s": waited_s, "flood": flood, "others": len(waited_s)}


async def rotations(client: AsyncClient, record: Path) -> Trial:
    """A hundred rotations, with cores added and removed, and a lambda that has a core of its own."""
    await client.set_capacity(cores=CORES, rotation=ROTATION_S, reserve={"cored/l0": 1})
    await asyncio.sleep(1)
    seen: list[Seen] = []
    changed_us: list[int] = []
    first = (await client.capacity()).rotation
    changes = dict(CHANGES)
    while not seen or seen[-1].pool.rotation < first + ROTATIONS:
        if len(seen) % 5 == 0:
            await client.schedule_many([cored.works[0].prepare(_now_us()) for _ in range(100)])
        seen.append(Seen(_now_us(), await client.capacity()))
        done = (seen[-1].pool.rotation - first) / ROTATIONS
        for share in [share for share in changes if share <= done]:
            await client.set_capacity(cores=changes.pop(share))
            changed_us.append(_now_us())
        await asyncio.sleep(_LOOK_S)
    failures = judge_rotations([each.pool for each in seen], first)
    calm = [each for each in seen if all(not 0 <= each.at_us - at < 3 * SLACK_S * _US for at in changed_us)]
    runs = [run for run, asked_us in cored.read(record) if run.number == 0]
    inside, outside = judge_places(runs, calm)
    if outside > OUTSIDE * (inside + outside) or not inside:
        failures.append(f"{outside} of {inside + outside} runs were not on their lambda's core")
    return {"failures": failures, "rotations": ROTATIONS, "inside": inside, "outside": outside}


def judge_rotations(seen: Sequence[CapacityInfo], first: int) -> list[str]:
    """Whether at each rotation every group was on core (i + k) mod n, and none was left out."""
    failures = []
    for each in seen:
        n, k = len(each.cores), each.rotation
        wrong = [core.number for core in each.cores if (core.group + k) % n != core.number]
        if wrong:
            failures.append(f"rotation {k} of {n} cores: cores {wrong} have another group than (i + k) mod n")
        if len(each.groups) != n or max(map(len, each.groups)) - min(map(len, each.groups)) > 1:
            failures.append(f"rotation {k} of {n} cores: groups of {[len(group) for group in each.groups]}")
    missing = set(range(first, first + ROTATIONS)) - {each.rotation for each in seen}
    if missing:
        failures.append(f"rotations {sorted(missing)} did not happen, or were too short to be seen")
    return failures


def judge_places(runs: Sequence[cored.Ran], seen: Sequence[Seen]) -> tuple[int, int]:
    """How many runs of the lambda that owns core 0 began there, and how many elsewhere, where it is known who was there."""
    inside, outside, place = 0, 0, 0
    for run in runs:
        while place + 1 < len(seen) and seen[place + 1].at_us <= run.at_us:
            place += 1
        if seen[place].at_us <= run.at_us < seen[place].at_us + 3 * _LOOK_S * _US:
            there = seen[place].guards_on(0, run.at_us) | seen[place].guards_on(0, run.at_us - round(SLACK_S * _US))
            inside, outside = inside + (run.guard in there), outside + (run.guard not in there)
    return inside, outside


def _now_us() -> int:
    return time.time_ns() // 1000


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="atf-cores-"))
    record = folder / "record"
    record.mkdir()
    env = environment(folder, **{cored.FOLDER: str(record), "ATF_THREADS": str(THREADS)})
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True, executors=EXECUTORS, partitions=2)
    found: list[Trial] = []
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, ["tests.chaos.cored:app"], env=env, say=say))
        client = await stack.enter_async_context(AsyncClient(cluster.frontend_address, timeout=60))
        await asyncio.sleep(3)
        async for _ in progress.trials(n):
            in_turn = await turns(client, record)
            progress.say(f"turns: { ({**in_turn, 'turn_s': max(in_turn['turn_s'], default=0)}) }")
            rotated = await rotations(client, record)
            progress.say(f"rotations: {rotated}")
            found.append({**rotated, **in_turn, "failures": [*in_turn["failures"], *rotated["failures"]]})
    if any(each["failures"] for each in found):
        progress.say(f"BROKEN; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


ROWS: Final = [
    Row(
        name="cores",
        what=(
            f"{CORES} cores, {cored.LAMBDAS} lambdas, one of them flooding, for {TURNS_S:g} s; then {ROTATIONS} rotations with cores added and"
            " removed and a lambda that has a core of its own"
        ),
        bar=(
            f"each of the nine gets its turn within {LOOKAHEAD} turns ({WITHIN_S:g} s); group i on core (i + k) mod n at every rotation; at most"
            f" {OUTSIDE:.0%} of the owner's runs elsewhere"
        ),
        full=3,
        batch=3,
        run=_run,
    )
]
