"""Row: a pool of five executors on five cores. First eleven lambdas have tasks all the time: one has a core of its own and has to run without a
pause; ten share the other four, of one of them a flood, and of each a core claim may wait for `lookahead` turns of its core at the most, the first one,
too. Where each ran the lambdas' own record tells: in an executor of the group that (i + k) mod n puts on its lambda's core, on all cores. Then the
groups rotate a hundred times, while cores are added and removed, and the lambda that has a core of its own has tasks: always exactly group i on
core (i + k) mod n, by what GetCapacity says, and by where that lambda ran.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient
from atf.client.capacity import CapacityInfo, CoreInfo
from proof.chaos import cored
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial

THREADS: Final = 2
MULTIPLEXED: Final = 4
CORES: Final = MULTIPLEXED + 1
EXECUTORS: Final = CORES
"""A core whose group is empty serves nobody."""
LOOKAHEAD: Final = 3
TURN_S: Final = 1.0
HAND_OVER_S: Final = 1.0
TURNS_S: Final = float(os.environ.get("ATF_CORES_SECONDS", "60"))
OWNER: Final = "cored/l0"
"""Has a core of its own."""
FLOOD: Final = 1
"""Number of the lambda that floods."""
BETWEEN: Final = (LOOKAHEAD + 1) * MULTIPLEXED
"""Turns of others that may begin between two of a lambda which has tasks all the time: of each multiplexed core one while its own turn
lasts, after which it claims anew at the latest, and `lookahead` while its claim waits."""
WITHIN_S: Final = LOOKAHEAD * (TURN_S + HAND_OVER_S) + 1.0
"""Seconds in which each has had its first turn, since its tasks were stored: `lookahead` turns of others and hand-overs, and a little."""
DRAIN_S: Final = 120.0
"""Seconds in which what is left at the end has begun."""
PAUSE_S: Final = 2.0
"""Seconds for which the owner may begin nothing: what its group brings from a multiplexed core, and what hand-overs take."""
ROTATIONS: Final = int(os.environ.get("ATF_CORES_ROTATIONS", "100"))
ROTATION_S: Final = 1.0
CHANGES: Final = {0.25: CORES + 1, 0.5: CORES - 2, 0.75: CORES}
"""Share of the rotations after which there are so many cores."""
SLACK_S: Final = 0.4
"""Seconds after a rotation or a change in which what was handed over before may still begin."""
OUTSIDE: Final = 0.02
"""Share of runs that may begin on another core than their lambda's: cores are shares, no fence."""
_LOOK_S: Final = 0.1
_US: Final = 1_000_000


class CoreRunBegan(NamedTuple):
    """A turn on a multiplexed core."""

    at_us: int  # when it was scheduled or, where that was over before the next look, handed over
    core: int
    lambda_name: str


class Seen(NamedTuple):
    """What GetCapacity said once."""

    at_us: int
    pool: CapacityInfo

    def core_of(self, guard: int, at_us: int) -> int | None:
        """The core on which the group of a guard's executor works at an instant; None: it is in no group."""
        return next((core.number for core in self.pool.cores if guard in self.guards_on(core.number, at_us)), None)

    def guards_on(self, core: int, at_us: int) -> set[int]:
        """The guards of the executors whose group works on a core at an instant."""
        groups = self.pool.groups
        if not groups or self.pool.next_rotation_at is None:
            return set()
        next_us = round(self.pool.next_rotation_at.timestamp() * _US)
        k = self.pool.rotation + (at_us - next_us) // round(self.pool.rotation_interval * _US) + 1
        return {int(each.rsplit("-", 2)[1]) for each in groups[(core - k) % len(groups)]}


async def turns(client: AsyncClient, record: Path) -> Trial:
    """Ten lambdas take turns, one of which floods, and all have tasks all the time; one more has a core of its own."""
    await client.set_capacity(
        cores=CORES,
        lookahead=LOOKAHEAD,
        multiplexed_timeout=TURN_S,
        hand_over=HAND_OVER_S,
        rotation=5,
        reserve={OWNER: 1},
    )
    await asyncio.sleep(2)
    supply = Supply(client, record, {number: 5 if number == FLOOD else 1 for number in range(cored.LAMBDAS)})
    await supply.fill()
    stored_us, until, supplied_at = _now_us(), time.monotonic() + WITHIN_S + TURNS_S, time.monotonic()
    seen: list[Seen] = []
    while time.monotonic() < until:
        seen.append(Seen(_now_us(), await client.capacity()))
        if time.monotonic() - supplied_at >= 1:
            supplied_at += 1
            await supply.fill()
        await asyncio.sleep(_LOOK_S)
    ended_us = _now_us()
    begun = turns_of(seen)
    failures, between = judge_turns(begun, [f"cored/l{number}" for number in range(1, cored.LAMBDAS)])
    failures += judge_claims(seen, begun) + await supply.drain()
    runs = supply.runs()
    first_s, slow = judge_first(runs, stored_us)
    late = slow + judge_owner(
        [run.at_us for run in runs if run.number == 0], stored_us + round(WITHIN_S * _US), ended_us
    )
    on_core, off_core = judge_cores([run for run in runs if run.at_us <= ended_us], seen)
    if off_core > OUTSIDE * (on_core + off_core) or not on_core:
        failures.append(
            f"{off_core} of {on_core + off_core} runs were in no executor of the group on their lambda's core"
        )
    if any(each.pool.cores[0].lambda_name != OWNER for each in seen):
        failures.append(f"core 0 was another lambda's than {OWNER}'s")
    waited_s = [
        each
        for name in {turn.lambda_name for turn in begun}
        for each in _apart([t for t in begun if t.lambda_name == name])
    ]
    return {
        "failures": failures,
        "late": late,
        "turn_s": waited_s,
        "first_turn_s": first_s,
        "on_core": on_core,
        "off_core": off_core,
        "turns": len(begun),
        "most_between": max(between, default=0),
    }


class Supply:
    """Sees to it that there are tasks of some lambdas, but no more than are soon done: whoever comes next begins with empty queues.

    Args:
        client: of the cluster.
        record: of the runs.
        shares: for how many times two seconds of a core a lambda has tasks, by its number.
    """

    def __init__(self, client: AsyncClient, record: Path, shares: Mapping[int, int]) -> None:
        self._client = client
        self._record = record
        self._shares = shares
        self._began_us = _now_us()
        self._asked = Counter[int]()

    async def fill(self) -> None:
        """Schedules what is missing."""
        enough, left = round(2 * THREADS / cored.WORK_S), self.left()
        tasks = []
        for number, share in self._shares.items():
            missing = enough * share - left[number]
            tasks += [cored.works[number].prepare(_now_us()) for _ in range(missing)]
            self._asked[number] += max(missing, 0)
        if tasks:
            await self._client.schedule_many(tasks)

    def left(self) -> Counter[int]:
        """Tasks by lambda that have not begun yet."""
        return self._asked - Counter(run.number for run in self.runs())

    def runs(self) -> list[cored.CoredRun]:
        """Runs of its tasks so far, the first one first."""
        return [run for run, asked_us in cored.read(self._record) if asked_us >= self._began_us]

    async def drain(self) -> list[str]:
        """Waits until all have begun; what is wrong."""
        until = time.monotonic() + DRAIN_S
        while (left := self.left()) and time.monotonic() < until:
            await asyncio.sleep(0.5)
        return [f"{left.total()} tasks had not begun {DRAIN_S:g} s after the last was asked for"] if left else []


def turns_of(seen: Sequence[Seen]) -> list[CoreRunBegan]:
    """The turns on multiplexed cores, in the order of their beginnings, as far as looks tell them apart."""
    found: list[CoreRunBegan] = []
    last: dict[int, CoreInfo] = {}
    for each in seen:
        for core in each.pool.cores:
            before = last.get(core.number)
            last[core.number] = core
            if core.reserved or not core.lambda_name or core.since is None:
                continue
            same = (
                before is not None
                and before.lambda_name == core.lambda_name
                and (before.since == core.since or before.state == "scheduled")
            )
            if not same:
                found.append(CoreRunBegan(round(core.since.timestamp() * _US), core.number, core.lambda_name))
    return sorted(found)


def judge_turns(begun: Sequence[CoreRunBegan], names: Sequence[str]) -> tuple[list[str], list[int]]:
    """What is wrong, and how many turns of others began between two of a lambda, for each two."""
    failures: list[str] = []
    counted: list[int] = []
    for name in names:
        places = [place for place, each in enumerate(begun) if each.lambda_name == name]
        between = [after - before - 1 for before, after in pairwise([-1, *places, len(begun)])]
        if max(between) > BETWEEN:
            failures.append(f"{max(between)} turns of others came between two of {name}: at most {BETWEEN} may")
        counted += between[1:-1]
    return failures, counted


def judge_claims(seen: Sequence[Seen], begun: Sequence[CoreRunBegan]) -> list[str]:
    """What is wrong: claims that stood in a core's line while more than `lookahead` turns of others began there."""
    failures = []
    standing: dict[tuple[str, int], int] = {}  # lambda and core -> the instant of the first look
    for each in seen:
        stood, standing = standing, {}
        for claim in each.pool.queue:
            own_us = [turn.at_us for turn in begun if turn.lambda_name == claim[0] and turn.at_us <= each.at_us]
            first_us = standing[claim] = max(
                [stood.get(claim, each.at_us), *own_us[-1:]]
            )  # after its turn it is another claim
            passed = [turn for turn in begun if turn.core == claim[1] and first_us < turn.at_us <= each.at_us]
            if len(passed) > LOOKAHEAD:
                failures.append(
                    f"{claim[0]} stood in the line of core {claim[1]} while {len(passed)} turns began there"
                )
    return sorted(set(failures))


def judge_first(runs: Sequence[cored.CoredRun], stored_us: int) -> tuple[float, list[str]]:
    """How many seconds after its tasks were stored the last lambda had its first turn, and which had it too late.

    Args:
        runs: by the lambdas' own record, the first one first.
        stored_us: when each had tasks.
    """
    first_us = {run.number: run.at_us for run in reversed(runs)}
    took = {number: (first_us[number] - stored_us) / _US for number in range(cored.LAMBDAS) if number in first_us}
    late = [
        f"cored/l{number} had its first turn {f'after {took[number]:.1f} s' if number in took else 'never'}: within {WITHIN_S:g} s it has to"
        for number in range(cored.LAMBDAS)
        if took.get(number, WITHIN_S + 1) > WITHIN_S
    ]
    return round(max(took.values(), default=0.0), 3), late


def judge_cores(runs: Sequence[cored.CoredRun], seen: Sequence[Seen]) -> tuple[int, int]:
    """How many runs began in an executor of the group that (i + k) mod n puts on a core which was their lambda's, and how many elsewhere.

    What was handed over up to SLACK_S before counts, and the look that follows a run: a turn may have begun since the one before it.

    Args:
        runs: by the lambdas' own record, in order; those are left out around which nobody looked.
        seen: in order.
    """
    inside, outside, first = 0, 0, 0
    for run in runs:
        early_us = run.at_us - round(SLACK_S * _US)
        while first + 1 < len(seen) and seen[first + 1].at_us <= early_us:
            first += 1
        looks = list(takewhile(lambda each: each.at_us <= run.at_us + 2 * _LOOK_S * _US, seen[first:]))  # noqa: B023  used at once
        before = [each for each in looks if run.at_us - 3 * _LOOK_S * _US < each.at_us <= run.at_us]
        if not before or looks[-1] is before[-1]:
            continue
        places = {before[-1].core_of(run.guard, at_us) for at_us in (run.at_us, early_us)}
        lambdas = {core.lambda_name for each in looks for core in each.pool.cores if core.number in places}
        there = f"cored/l{run.number}" in lambdas
        inside, outside = inside + there, outside + (not there)
    return inside, outside


def judge_owner(at_us: Sequence[int], began_us: int, ended_us: int) -> list[str]:
    """Whether the lambda with a core of its own ran all the time: sentences about when it did not."""
    instants = [began_us, *(each for each in sorted(at_us) if began_us <= each <= ended_us), ended_us]
    longest_s = max(after - before for before, after in pairwise(instants)) / _US
    return [f"no task of the owner began for {longest_s:.1f} s"] if longest_s > PAUSE_S else []


def _apart(turns: Sequence[CoreRunBegan]) -> list[float]:
    """Seconds from each turn to the next."""
    return [(after.at_us - before.at_us) / _US for before, after in pairwise(turns)]


async def rotations(client: AsyncClient, record: Path) -> Trial:
    """A hundred rotations, with cores added and removed, and a lambda that has a core of its own."""
    await client.set_capacity(cores=CORES, rotation=ROTATION_S, reserve={OWNER: 1})
    await asyncio.sleep(1)
    supply = Supply(client, record, {0: 1})
    seen: list[Seen] = []
    changed_us: list[int] = []
    first = (await client.capacity()).rotation
    changes = dict(CHANGES)
    while not seen or seen[-1].pool.rotation < first + ROTATIONS:
        if len(seen) % 5 == 0:
            await supply.fill()
        seen.append(Seen(_now_us(), await client.capacity()))
        done = (seen[-1].pool.rotation - first) / ROTATIONS
        for share in [share for share in changes if share <= done]:
            changed_us.append(_now_us())
            await client.set_capacity(cores=changes.pop(share))
        await asyncio.sleep(_LOOK_S)
    failures = judge_rotations([each.pool for each in seen], first) + await supply.drain()
    runs = [run for run, _ in cored.read(record) if run.number == 0 and calm(run.at_us, changed_us)]
    inside, outside = judge_places(runs, [each for each in seen if calm(each.at_us, changed_us)])
    if outside > OUTSIDE * (inside + outside) or not inside:
        failures.append(f"{outside} of {inside + outside} runs were not on their lambda's core")
    return {"failures": failures, "rotations": ROTATIONS, "inside": inside, "outside": outside}


def calm(at_us: int, changed_us: Sequence[int]) -> bool:
    """Whether no change of the cores was just before an instant: a look before it says nothing of who was where after it."""
    return all(not 0 <= at_us - each < 3 * SLACK_S * _US for each in changed_us)


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


def judge_places(runs: Sequence[cored.CoredRun], seen: Sequence[Seen]) -> tuple[int, int]:
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

        cluster = await stack.enter_async_context(Cluster(settings, ["proof.chaos.cored:app"], env=env, say=say))
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
            f"{MULTIPLEXED} multiplexed cores, {cored.LAMBDAS - 1} lambdas that share them and have tasks all the time, one of them flooding, and beside"
            f" them one with a core of its own, for {TURNS_S:g} s; then {ROTATIONS} rotations with cores added and removed"
        ),
        bar=(
            f"no core claim waits for more than {LOOKAHEAD} turns; each lambda has its first turn within {WITHIN_S:g} s, and at most {BETWEEN} turns of others"
            f" between two; the owner is never idle for {PAUSE_S:g} s; group i on core (i + k) mod n at every rotation; at most {OUTSIDE:.0%} of all runs, and"
            " of the owner's while groups rotate, in another group than that of their lambda's core"
        ),
        full=3,
        batch=3,
        run=_run,
    )
]
