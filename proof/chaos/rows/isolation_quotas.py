"""Rows: limits of lambdas, over four partitions, three store consumers and two controllers, one of each kind of role killed in its turn. On one
server, and on a Redis Cluster whose masters are killed too: their replicas take over.

First a minute of a flood against `rate`, in which each role but the store is killed once, after which an operator sets a lower rate and takes it back;
then a flood against `max_running`, of which an operator sets a lower one and takes it back, and a minute in which every role and executors are
killed again and again. The store's record of pushes judges the rate, the lambda's own record how many run.

In the minute of the rate the store is not killed: a bucket saves what a quarter of a second brings, so that no second sees more than `burst`, and
what a store that is away for longer does not push is never made up for. That the minute then has one per cent too few is meant, and no bar.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import redis

from atf.client import AsyncClient
from proof.chaos import limited
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.several import PARTITIONS, Several, available, fail_over, masters, several, whole

CONSUMERS: Final = 3
EXECUTORS: Final = 2
"""Of one controller; the other has one."""
TRIAL_S: Final = float(os.environ.get("ATF_QUOTAS_SECONDS", "60"))
WITHIN: Final = 0.01
"""Share by which what ran in the time may miss rate × time."""
BURST: Final = limited.RATE * 5 // 4
SLOWER: Final = limited.RATE // 5
FEWER: Final = 2
"""What an operator sets meanwhile: of `rate`, and of `max_running`."""
CHANGE_S: Final = 1.0
"""Seconds within which a setting holds everywhere."""
HELD_S: Final = 3.0
"""For so long each setting is judged from then on."""
RUN_S: Final = (0.05, 0.5)
LIFE_S: Final = (0.5, 3.0)
"""Seconds between two kills, at least and at most."""
ROLES: Final = ("store-consumer", "hsc", "frontend", "controller", "executor", "store", "another")
"""`another`: a second controller, or one of two more store consumers."""
_SETTLE_S: Final = 2.0
"""Seconds after which a flood is at its limit."""
_QUIET_S: Final = 120.0
"""Seconds after the last kill within which everything has run."""
_US: Final = 1_000_000


class QuotasCourse:
    """A minute against each limit."""

    def __init__(self, roles: Several, record: Path) -> None:
        self._roles, self._record = roles, record
        self._frontend = roles.cluster.frontend_address
        self._chance = random.Random()
        self._victims = self._dealt()

    async def paced(self, number: int) -> Trial:
        """A flood of half as much again as may be pushed, and what is pushed while settings change; how it was paced."""
        if self._roles.nodes is not None:
            await whole(self._roles.nodes)  # the one that was killed last is back
        before = len(limited.read(self._record, "paced"))
        count = round(limited.RATE * (TRIAL_S * 1.5 + 3 * (CHANGE_S + HELD_S))) + BURST
        tasks = [limited.paced.options(key=f"p{number}-{each}").prepare() for each in range(count)]
        began_us = time.time_ns() // 1000
        async with AsyncClient(self._frontend, timeout=60) as client:
            for start in range(0, count, 250):
                await client.schedule_many(tasks[start : start + 250])
            kills = await self._each_once([role for role in ROLES if role != "store"], TRIAL_S)
            await asyncio.sleep(2)
            pushed = self._pushed(f"p{number}-")
            slower_us = await self._change(client, "paced", {"rate": SLOWER}, ())
            again_us = await self._change(client, "paced", {}, ("rate",))
            while_changed = self._pushed(f"p{number}-")
            await self._until(lambda: len(limited.read(self._record, "paced")) - before >= count)
        runs = [each.at_us for each in limited.read(self._record, "paced")[before:]]
        trial = judge_rate(pushed, runs, began_us)
        changed = judge_changes(while_changed, slower_us, again_us)
        gone = [f"{len(runs)} of {count} have run"] if len(runs) < count else []
        gone += [f"{role} was not killed in the minute of the rate" for role in kills if not kills[role]]
        failures = [*trial["failures"], *changed["failures"], *gone]
        return {**trial, **changed, "failures": failures, "kills_beside_rate": sum(kills.values())}

    async def _each_once(self, roles: Sequence[str], seconds: float) -> dict[str, int]:
        """Kills each of some roles once, in any order and spread over some seconds, and returns after these; of each how often it was."""
        until, killed = time.monotonic() + seconds, dict.fromkeys(roles, 0)
        for role in self._chance.sample(roles, len(roles)):
            await asyncio.sleep(seconds / (len(roles) + 1))
            killed[role] = await self._kill(role)
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        return killed

    async def _change(
        self, client: AsyncClient, name: str, settings: Mapping[str, object], unset: Sequence[str]
    ) -> int:
        """An operator changes a limit, and it is left so for a while; when the call was answered, µs."""
        await client.set_lambda(f"limited/{name}", settings, unset=unset)
        answered_us = time.time_ns() // 1000
        await asyncio.sleep(CHANGE_S + HELD_S + 0.5)
        return answered_us

    def _pushed(self, prefix: str) -> list[int]:
        """When each task was pushed, µs, as the store noted it."""
        found: list[int] = []
        with ExitStack() as stack:
            for store in map(stack.enter_context, self._stores()):
                keys = [each for each in store.scan_iter("atf:{*}:t:*", count=1000) if f"-{prefix}" in each]
                reading = store.pipeline(transaction=False)
                for key in keys:
                    reading.hget(key, "t2")
                found += [int(at) for at in reading.execute() if at]
        return sorted(found)

    def _stores(self) -> list[redis.Redis]:
        if self._roles.nodes is None:
            return [redis.Redis.from_url(self._roles.cluster.redis_url, decode_responses=True)]
        return [each.client() for each in masters(self._roles.nodes)]

    async def few(self, number: int) -> Trial:
        """A flood of what runs for a while, another limit for a while, and kills; how many ran at once."""
        before = len(limited.read(self._record, "few"))
        mean_s, changes_s = sum(RUN_S) / 2, _SETTLE_S + 2 * (CHANGE_S + HELD_S + 0.5)
        count = round(limited.MAX_RUNNING * (TRIAL_S * 0.6 + changes_s) / mean_s)
        made = [(f"f{number}-{each}", self._chance.uniform(*RUN_S)) for each in range(count)]
        async with AsyncClient(self._frontend, timeout=60) as client:
            tasks = [limited.few.options(key=key).prepare(seconds) for key, seconds in made]
            for start in range(0, count, 250):
                await client.schedule_many(tasks[start : start + 250])
            await asyncio.sleep(_SETTLE_S)
            fewer_us = await self._change(client, "few", {"max_running": FEWER}, ())
            again_us = await self._change(client, "few", {}, ("max_running",))
            kills, until = Counter[str](), time.monotonic() + TRIAL_S
            while time.monotonic() < until:
                await asyncio.sleep(self._chance.uniform(*LIFE_S))
                role = next(self._victims)
                kills[role] += await self._kill(role)
        await self._until(lambda: len(limited.read(self._record, "few")) - before >= count)
        runs = limited.read(self._record, "few")[before:]
        most = max((each.beside for each in runs), default=0)
        failures = [f"{most} ran at once, {limited.MAX_RUNNING} may"] if most > limited.MAX_RUNNING else []
        failures += [f"{len(runs)} of {count} have run"] if len(runs) < count else []
        failures += [f"{role} was never killed" for role in ROLES if not kills[role]]
        changed = judge_running(runs, fewer_us, again_us)
        masters_killed = {} if self._roles.nodes is None else {"masters_killed": kills["store"]}
        return {
            **changed,
            "failures": [*failures, *changed["failures"]],
            "kills": kills.total(),
            **masters_killed,
            "runs": len(runs),
            "most_running": most,
        }

    def _dealt(self) -> Iterator[str]:
        """Each role once, in any order, again and again."""
        while True:
            yield from self._chance.sample(ROLES, len(ROLES))

    async def _kill(self, role: str) -> int:
        """Kills a process of a role; 0 where none runs just now."""
        cluster, nodes = self._roles.cluster, self._roles.nodes
        if role == "another":
            victim = self._chance.choice([*self._roles.consumers, self._roles.controller])
            await victim.kill()
            await asyncio.sleep(self._chance.uniform(0, 1))
            victim.start()
            return 1
        if role == "executor":
            workers = [each.worker for each in self._roles.executors() if each.worker]
            if workers:
                os.kill(self._chance.choice(workers), signal.SIGKILL)
            return len(workers[:1])
        if role == "store" and nodes is not None:
            await fail_over(nodes)
            return 1
        if cluster.pid(role):
            cluster.kill(role)
            return 1
        return 0

    async def _until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + _QUIET_S
        while not holds() and time.monotonic() < until:
            await asyncio.sleep(0.5)


def judge_rate(pushed: Sequence[int], runs: Sequence[int], began_us: int, seconds: float = TRIAL_S) -> Trial:
    """What a flood against the rate came to.

    Args:
        pushed: when each was pushed, µs, in order.
        runs: when each began, µs, in order, by the lambda's own record. On a machine that is short of processors they begin late, and in
            crowds; how late is told, and fails nothing.
        began_us: when the flood did.
        seconds: of the flood.
    """
    first, most = pushed[0] if pushed else 0, _most_in_a_second(pushed)
    count = sum(each < first + seconds * _US for each in pushed)
    due = limited.RATE * seconds
    failures = [f"{count} were pushed in {seconds:g} s, not {due:g} ± 1 %"] if abs(count - due) > due * WITHIN else []
    failures += [f"{most} were pushed in one second, {BURST} may be"] if most > BURST else []
    return {
        "failures": failures,
        "pushed": count,
        "ran": sum(each < first + seconds * _US for each in runs),
        "pushed_in_a_second": most,
        "began_in_a_second": _most_in_a_second(runs),
        "first_after_s": round((first - began_us) / _US, 3),
    }


def judge_changes(pushed: Sequence[int], slower_us: int, again_us: int) -> Trial:
    """How soon another rate holds, in both directions.

    Args:
        pushed: when each was pushed, µs, in order.
        slower_us: when the call that set SLOWER was answered.
        again_us: when the one was that took it back.
    """

    def held(answered_us: int) -> list[int]:
        first = answered_us + CHANGE_S * _US
        return [each for each in pushed if first <= each < first + HELD_S * _US]

    most, due = _most_in_a_second(held(slower_us)), round(limited.RATE * HELD_S)
    again = len(held(again_us))
    failures = []
    if most > SLOWER * 5 // 4:
        failures.append(
            f"{most} were pushed in one second, {CHANGE_S:g} s after the rate was set to {SLOWER}, which lets {SLOWER * 5 // 4}"
        )
    if again < due * 0.95:
        failures.append(f"{again} were pushed in {HELD_S:g} s, {CHANGE_S:g} s after the rate was {limited.RATE} again")
    return {"failures": failures, "slower_in_a_second": most, "again_pushed": again}


def judge_running(runs: Sequence[limited.LimitedRun], fewer_us: int, again_us: int) -> Trial:
    """How soon another number of runs at once holds, in both directions. What runs when it is lowered goes on.

    Args:
        runs: by the lambda's own record.
        fewer_us: when the call that set FEWER was answered.
        again_us: when the one was that took it back.
    """
    first_us = fewer_us + CHANGE_S * _US
    held = [each.beside for each in runs if first_us <= each.at_us < first_us + HELD_S * _US]
    most = max(held, default=0)
    full_us = [each.at_us for each in runs if each.at_us >= again_us and each.beside >= limited.MAX_RUNNING]
    again_s = round((min(full_us) - again_us) / _US, 3) if full_us else None
    failures = []
    if most > FEWER:
        failures.append(f"one began beside {most - 1} others, {CHANGE_S:g} s after max_running was set to {FEWER}")
    if not held:
        failures.append(f"none began in the {HELD_S:g} s in which {FEWER} might run")
    if again_s is None or again_s > CHANGE_S:
        took = f"{again_s:g} s" if again_s is not None else "never"
        failures.append(
            f"{limited.MAX_RUNNING} ran again after {took}, since max_running was {limited.MAX_RUNNING} again"
        )
    return {"failures": failures, "fewer_running": most, "again_running_s": again_s}


def _most_in_a_second(instants: Iterable[int]) -> int:
    window: deque[int] = deque()
    most = 0
    for at_us in instants:
        window.append(at_us)
        while window[0] <= at_us - _US:
            window.popleft()
        most = max(most, len(window))
    return most


async def _run(on_cluster: bool, n: int, progress: Progress) -> Sequence[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="atf-quotas-"))
    record = limited.made(folder / "record")
    env = environment(folder, **{limited.FOLDER: str(record)})
    found: list[Trial] = []
    try:
        async with several(
            "proof.chaos.limited:app", env, folder, on_cluster=on_cluster, consumers=CONSUMERS, executors=EXECUTORS
        ) as roles:
            course = QuotasCourse(roles, record)
            async for number in progress.trials(n):
                rate = await course.paced(number)
                progress.say(f"rate: {rate}")
                few = await course.few(number)
                progress.say(f"max_running: {few}")
                found.append({**few, **rate, "failures": [*rate["failures"], *few["failures"]]})
    except BaseException:
        progress.say(f"what the roles said, and the record, are in {folder}")
        raise
    if any(each["failures"] for each in found):
        progress.say(f"BROKEN; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _row(name: str, store: str, *, on_cluster: bool) -> Row:
    return Row(
        name=name,
        what=(
            f"rate {limited.RATE}/s and max_running {limited.MAX_RUNNING} over {PARTITIONS} partitions{store}, {CONSUMERS} store consumers and"
            f" 2 controllers; a trial is a minute of a flood against each, in the first of which each role but the store is killed once, in the second every role"
            f"{' and masters' if on_cluster else ''} again and again"
        ),
        bar=(
            f"{limited.RATE} × 60 ± 1 % pushed in 60 s, never above {BURST} in any second; a lower rate or max_running that an operator sets holds, and the old one"
            f" again, within {CHANGE_S:g} s; never {limited.MAX_RUNNING + 1} run at once; every role was killed"
        ),
        full=5,
        batch=5,
        run=functools.partial(_run, on_cluster),
        available=available,
    )


ROWS: Final = [
    _row("quotas", "", on_cluster=False),
    _row(
        "quotas-cluster",
        " on a Redis Cluster of 3 + 3 nodes, durability replicated",
        on_cluster=True,
    ),
]
