"""How soon a lone task starts on a system that has nothing else to do, on one host and on hosts that are apart; and what the store is asked meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
from collections.abc import AsyncIterator
from typing import Final

from proof.benchmarks.far import ROUND_TRIP_MS, FarHosts
from proof.benchmarks.known import COMPACT, COMPACT_DIRECT, DIRECT, OURS, System
from proof.benchmarks.question import Bar, Figures, Question, Sizes, ran, wall_minus_monotonic_ns
from proof.benchmarks.stats import lateness
from proof.benchmarks.world import BenchmarkWorld

_ASIDE: Final = 20
"""Tasks more while which it is seen what the store is asked: to see it makes the store slower."""
_REST_S: Final = (0.05, 0.2)
"""Between two tasks."""
_LAST_WORDS_S: Final = 0.05
_OURS: Final = (OURS, DIRECT, COMPACT, COMPACT_DIRECT)
_PEERS: Final = ("taskiq", "huey", "dramatiq", "celery", "rq")
_PIVOT: Final = "celery"


async def prompt(system: System, sizes: Sizes) -> Figures:
    """Lone tasks on one host."""
    async with BenchmarkWorld(system, sizes.singles + _ASIDE) as world:
        return await _lone_tasks(world, sizes.singles)


async def prompt_far(system: System, sizes: Sizes) -> Figures:
    """Lone tasks where client, roles, store and workers have a host each."""
    async with (
        FarHosts.running() as far,
        BenchmarkWorld(system, sizes.singles + _ASIDE, far=far) as world,
    ):
        return await _lone_tasks(world, sizes.singles)


async def _lone_tasks(world: BenchmarkWorld, count: int) -> Figures:
    numbers, aside = range(count), range(count, count + _ASIDE)
    called = [await _lone(world, number) for number in numbers]
    return {
        "start_ms": lateness(called, world.ledger.starts(numbers)),
        "store_calls": await _store_calls(world, aside),
        **ran(world, range(count + _ASIDE)),
    }


async def _lone(world: BenchmarkWorld, number: int) -> int:
    """Schedules one task, and waits until it has run and the system rests; when it was called."""
    told = await world.client.ask("prompt", number=number)
    await world.finished(range(number, number + 1))
    await asyncio.sleep(random.uniform(*_REST_S))
    return int(told["called"])


async def _store_calls(world: BenchmarkWorld, numbers: range) -> float:
    """How many commands reach the store from the call of a lone task to its start, at the median."""
    offset = wall_minus_monotonic_ns()
    async with _commands(world.socket) as commands:
        called = [await _lone(world, number) for number in numbers]
        await asyncio.sleep(_LAST_WORDS_S)
    spans = zip(called, world.ledger.starts(numbers), strict=True)
    return statistics.median(
        sum(began <= instant - offset <= start for instant in commands) for began, start in spans if start
    )


@contextlib.asynccontextmanager
async def _commands(socket: str) -> AsyncIterator[list[float]]:
    """When each command of the block has reached the store, in ns of its clock; those that a script calls are none."""
    reader, writer = await asyncio.open_unix_connection(socket)
    instants: list[float] = []

    async def read() -> None:
        while line := await reader.readline():
            instant, _, rest = line.removeprefix(b"+").partition(b" ")
            if rest and b" lua]" not in rest.partition(b'"')[0]:
                instants.append(float(instant) * 1e9)

    writer.write(b"MONITOR\r\n")
    reading = asyncio.ensure_future(read())
    try:
        yield instants
    finally:
        writer.close()
        reading.cancel()


def _bar(of: str, limit: float, figure: str = "start_ms.p50") -> Bar:
    named = {OURS: "through a frontend", DIRECT: "direct", COMPACT_DIRECT: "compact and direct"}[of]
    words = f"{named}: at most {limit:g} × Celery's {'p99' if figure.endswith('p99') else ''}".rstrip()
    return Bar(words=words, figure=figure, limit=limit, least=False, against=(_PIVOT,), of=of)


QUESTIONS = [
    Question(
        name="prompt",
        what="from the call that schedules a lone task to its start on an idle system, p50",
        figure="start_ms.p50",
        unit="ms",
        more=False,
        measure=prompt,
        sizes=("singles",),
        systems=(*_OURS, *_PEERS),
        also=("start_ms.p99", "store_calls"),
        bars=(
            _bar(OURS, 1.1),
            _bar(DIRECT, 0.9),
            _bar(COMPACT_DIRECT, 0.7),
            _bar(OURS, 1.0, "start_ms.p99"),
            Bar(words="at most 4 calls of the store until it starts", figure="store_calls", limit=4, least=False),
        ),
        beside=_PIVOT,
    ),
    Question(
        name="prompt-far",
        what=f"the same where client, roles, store and workers have a host each, {ROUND_TRIP_MS:g} ms apart (a round trip), p50",
        figure="start_ms.p50",
        unit="ms",
        more=False,
        measure=prompt_far,
        sizes=("singles",),
        systems=(*_OURS, *_PEERS),
        also=("start_ms.p99", "store_calls"),
        beside=_PIVOT,
    ),
]
