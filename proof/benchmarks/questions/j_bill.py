"""What a million tasks cost as a bill has it: seconds of CPU and hours of memory, of tasks that carry something and wait for something."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from atf.bench.proc import pss_mib
from proof.benchmarks.known import PEERS, System
from proof.benchmarks.ledger import BYTES, SLEEPS
from proof.benchmarks.question import Bar, Figures, Question, Sizes, able
from proof.benchmarks.roles import BenchError
from proof.benchmarks.world import BenchmarkWorld

PAYLOAD_BYTES: Final = 1_000
RUN_S: Final = 0.1
AT_MOST_S: Final = 60.0
"""Seconds that are measured: what has not run by then is not counted, and what it took to store it counts for the others."""
_MILLION: Final = 1_000_000
_MIB_PER_GB: Final = 1_000_000_000 / (1 << 20)


async def bill(system: System, sizes: Sizes) -> Figures:
    """Seconds of CPU, and hours of a GB of memory, of all processes for a million tasks; the client's memory is its owner's.

    Memory that processes share counts once (PSS), and for as long as the tasks take where they come as fast as they are taken.
    """
    numbers, env = range(sizes.tasks), {BYTES: str(PAYLOAD_BYTES), SLEEPS: str(RUN_S)}
    async with BenchmarkWorld(system, sizes.tasks, env=env) as world:
        able(world, "many")
        begun, before = time.monotonic(), world.cpu()
        asking = asyncio.ensure_future(world.client.ask("many", first=0, count=len(numbers)))
        await world.finished(numbers, within=AT_MOST_S)
        seconds, used, ran = time.monotonic() - begun, world.cpu_since(before), world.ledger.ran(numbers)
        resident = {role: round(sum(map(pss_mib, pids)), 1) for role, pids in world.pids().items() if role != "client"}
        await asking
        if not ran:
            raise BenchError("no task ran")
        return {
            "cpu_s": round(sum(used.values()) * _MILLION / ran, 1),
            "gb_h": round(sum(resident.values()) / _MIB_PER_GB * seconds / 3600 * _MILLION / ran, 3),
            "per_s": round(ran / seconds, 1),
            "cpu_s_by_role": {role: round(each * _MILLION / ran, 1) for role, each in used.items()},
            "pss_mib": resident,
            "ran": ran,
            "twice": world.ledger.twice(numbers),
        }


QUESTIONS = [
    Question(
        name="bill",
        what="seconds of CPU of all processes for a million tasks of 1 KB that wait for 100 ms each, and GB-hours of memory meanwhile",
        figure="cpu_s",
        unit="s",
        more=False,
        measure=bill,
        sizes=("tasks",),
        also=("gb_h", "per_s", "cpu_s_by_role", "pss_mib", "ran", "twice"),
        bars=(
            Bar(
                words="at most 1.5 × the CPU of the cheapest peer that is at least once",
                figure="cpu_s",
                limit=1.5,
                least=False,
                against=PEERS,
                at_least_once=True,
            ),
            Bar(
                words="at most 1.5 × the GB-hours of the cheapest peer that is at least once",
                figure="gb_h",
                limit=1.5,
                least=False,
                against=PEERS,
                at_least_once=True,
            ),
        ),
    ),
]
