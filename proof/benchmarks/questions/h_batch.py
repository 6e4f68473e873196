"""Batches: how fast one client submits a hundred thousand items and how fast they end, beside plain tasks; what it costs to look."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import atf
from atf.sdk.batch_handle import Batch
from proof.benchmarks.known import OURS, System
from proof.benchmarks.ours import Layout
from proof.benchmarks.question import Bar, Figures, Question, Sizes, per_task_us, ran
from proof.benchmarks.roles import BenchError
from proof.benchmarks.stats import percentile
from proof.benchmarks.world import BenchmarkWorld

IDENTICAL = 1_000
SPREAD = 16
"""Partitions over which items lie: as many as a store has by default that is not `atf up`'s own."""
TOLD = 10
"""Batches whose end is waited for, one after the other."""
TOLD_ITEMS = 300
"""Of each, at most."""
_BATCH = "bench"
_TINY = "tiny"
"""A batch of one item, whose GetBatch takes what the machine lets any call take."""
_LOOK_S = 0.05
"""Seconds between two looks at the batch."""
_MADE_S = 0.002
"""Seconds between two looks whether a batch is there yet."""
_LOOKS = 200
"""At a batch that has ended."""
_END_S = 60.0
_NS = 1e9


async def batch(system: System, sizes: Sizes) -> Figures:
    """Submitting by itself, with no workers; then all of it at once, beside plain tasks; then over many partitions."""
    parts = [await _submitted(system, range(sizes.batch)), await _running(system, sizes), await _spread(system, sizes)]
    found = {name: value for part in parts for name, value in part.items()}
    return found | {name: sum(part.get(name, 0) for part in parts) for name in ("missing", "never", "twice")}


async def _submitted(system: System, numbers: range) -> Figures:
    """Items that are stored per second, and what CPU each takes, while nobody runs them."""
    async with BenchmarkWorld(system, len(numbers), workers=False) as world:
        before = world.cpu()
        told = await world.client.ask("batch", first=0, count=len(numbers), batch=_BATCH)
        cpu_us = per_task_us(world.cpu_since(before), len(numbers))
        return {"submitted_per_s": _rate(told, len(numbers)), "submit_cpu_us": cpu_us}


def _rate(told: dict[str, Any], count: int) -> float:
    seconds: float = (told["ended"] - told["begun"]) / _NS
    return round(count / seconds, 1)


async def _running(system: System, sizes: Sizes) -> Figures:
    """Half of the plain tasks before the batch and half after it, so that what the machine does meanwhile counts for both."""
    half = sizes.batch // 2
    before, items, after = (
        range(half),
        range(half, half + sizes.batch),
        range(half + sizes.batch, 2 * half + sizes.batch),
    )
    async with BenchmarkWorld(system, after.stop + 1) as world:
        seconds = await _plain(world, before)
        await world.client.ask("identical", batch=_TINY, count=1, number=after.stop)
        during: dict[str, list[float]] = {_BATCH: [], _TINY: []}
        async with _looking(world, during):
            told = await world.client.ask("batch", first=items.start, count=len(items), batch=_BATCH)
            missing = await world.finished(items)
        took = _seconds(world, told["begun"], items)
        async with atf.AsyncClient(world.roles.client_envs[0]["ATF_FRONTEND"]) as client:
            ended = await client.batch_handle(_BATCH).wait_async(_END_S)
            ended_looks = [await _look(client, _BATCH) for _ in range(_LOOKS)]
        listed = await world.client.ask("results", batch=_BATCH)
        if listed["results"] != len(items) or ended.done != len(items):
            raise BenchError(f"{len(items)} items, {ended.done} done, {listed['results']} results")
        seconds += await _plain(world, after)
        identical = await world.client.ask("identical", batch="same", count=IDENTICAL, number=after.stop)
        plain_per_s, per_s = 2 * half / seconds, len(items) / took
        return {
            "submitted_running_per_s": _rate(told, len(items)),
            "per_s": round(per_s, 1),
            "plain_per_s": round(plain_per_s, 1),
            "of_plain": round(per_s / plain_per_s, 3),
            "get_ms": _shares(during[_BATCH]),
            "get_tiny_ms": _shares(during[_TINY]),
            "get_ended_ms": _shares(ended_looks),
            "list_per_s": round(listed["results"] / listed["seconds"], 1),
            "list_grows_mib": listed["grows_mib"],
            "identical": identical["results"],
            "missing": missing,
            **ran(world, range(half, after.stop)),
        }


async def _spread(system: System, sizes: Sizes) -> Figures:
    """Items over many partitions: looks at a batch of them that has ended, and how soon an end is told."""
    items, each = range(sizes.batch), min(sizes.batch, TOLD_ITEMS)
    every = range(items.stop + TOLD * each)
    async with BenchmarkWorld(system, len(every), layout=Layout(partitions=SPREAD)) as world:
        async with atf.AsyncClient(world.roles.client_envs[0]["ATF_FRONTEND"]) as client:
            await world.client.ask("batch", first=items.start, count=len(items), batch=_BATCH)
            missing = await world.finished(items)
            await client.batch_handle(_BATCH).wait_async(_END_S)
            looks = [await _look(client, _BATCH) for _ in range(_LOOKS)]
            told_ms = [await _told_ms(world, client, range(first, first + each)) for first in every[items.stop :: each]]
        return {
            "get_spread_ms": _shares(looks),
            "end_told_ms": {"p50": round(percentile(told_ms, 50), 2), "max": round(max(told_ms), 2)},
            "missing": missing,
            **ran(world, every),
        }


async def _told_ms(world: BenchmarkWorld, client: atf.AsyncClient, numbers: range) -> float:
    """Milliseconds from the end of a batch's last item, by its record, until who waits for the batch knows; all clocks are this machine's."""
    handle: Batch[Any] = client.batch_handle(f"told-{numbers.start}")

    async def told() -> float:
        while True:  # waits from the beginning: a batch of few items has soon ended
            with contextlib.suppress(atf.errors.NotFound):
                await handle.wait_async(_END_S)
                return time.time()
            await asyncio.sleep(_MADE_S)

    submitting = world.client.ask("batch", first=numbers.start, count=len(numbers), batch=handle.id)
    at: float = (await asyncio.gather(told(), submitting))[0]
    ends = [each.finished_at.timestamp() async for each in handle.items_async() if each.finished_at]
    return (at - max(ends)) * 1e3


async def _plain(world: BenchmarkWorld, numbers: range) -> float:
    """Seconds from the first call to the last start of plain tasks."""
    told = await world.client.ask("many", first=numbers.start, count=len(numbers))
    await world.finished(numbers)
    return _seconds(world, told["begun"], numbers)


def _seconds(world: BenchmarkWorld, begun: int, numbers: range) -> float:
    return (max(world.ledger.starts(numbers)) - begun) / _NS


@contextlib.asynccontextmanager
async def _looking(world: BenchmarkWorld, took_ms: dict[str, list[float]]) -> AsyncIterator[None]:
    """Looks at batches again and again meanwhile, from a client of its own."""

    async def look() -> None:
        async with atf.AsyncClient(world.roles.client_envs[0]["ATF_FRONTEND"]) as client:
            while True:
                for name, mine in took_ms.items():
                    with contextlib.suppress(atf.errors.NotFound):  # its maker is not there yet
                        mine.append(await _look(client, name))
                    await asyncio.sleep(_LOOK_S)

    looking = asyncio.get_running_loop().create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


async def _look(client: atf.AsyncClient, batch_id: str) -> float:
    """Milliseconds of one GetBatch."""
    before = time.monotonic()
    await client.get_batch(batch_id)
    return (time.monotonic() - before) * 1e3


def _shares(took_ms: list[float]) -> dict[str, float]:
    return {f"p{each}": round(percentile(sorted(took_ms), each), 2) for each in (50, 99)} if took_ms else {}


QUESTIONS = [
    Question(
        name="batch",
        what="no-op items of one batch submitted per second by one client; how fast they end beside as many plain tasks (`of_plain`)",
        figure="submitted_per_s",
        unit="items/s",
        more=True,
        measure=batch,
        sizes=("batch",),
        systems=(OURS,),
        also=(
            "submit_cpu_us",
            "submitted_running_per_s",
            "per_s",
            "plain_per_s",
            "of_plain",
            "get_ms",
            "get_tiny_ms",
            "get_ended_ms",
            "get_spread_ms",
            "end_told_ms",
            "list_per_s",
            "list_grows_mib",
            "identical",
        ),
        bars=(
            Bar(words="20,000 items/s submitted", figure="submitted_per_s", limit=20_000.0, least=True),
            Bar(words="items end at 0.9 × the rate of plain tasks", figure="of_plain", limit=0.9, least=True),
            Bar(words="GetBatch within 5 ms at the median while it runs", figure="get_ms.p50", limit=5.0, least=False),
            Bar(
                words="GetBatch within 5 ms (p99) of 100,000 items that have ended",
                figure="get_ended_ms.p99",
                limit=5.0,
                least=False,
            ),
            Bar(
                words=f"GetBatch within 5 ms (p99) of 100,000 items over {SPREAD} partitions that have ended",
                figure="get_spread_ms.p99",
                limit=5.0,
                least=False,
            ),
            Bar(
                words="1,000 identical items have 1,000 results", figure="identical", limit=float(IDENTICAL), least=True
            ),
            Bar(
                words="memory of who lists 100,000 results grows by at most 8 MiB",
                figure="list_grows_mib",
                limit=8.0,
                least=False,
            ),
        ),
    ),
]
