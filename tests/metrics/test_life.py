"""What the roles have counted after tasks have lived, died and lost their executors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atf.errors import NotFound, Unavailable
from atf.metrics.metrics import OTHER, Histogram
from atf.metrics.table import (
    CLAIMS_PAUSED,
    CLOCK_STEPS,
    DUE_LAG,
    DUE_OLDEST,
    LAMBDA_GATED,
    LEASES_LOST,
    LIVE_WORKERS,
    QUEUE_DEPTH,
    RUN_TIME,
    RUNS_ENDED,
    START_DELAY,
    STORE_CALL_SECONDS,
    STORE_CALLS,
    TASKS,
    TASKS_DUE,
    TASKS_ENDED,
    TASKS_SCHEDULED,
    WORKERS,
    MetricSpec,
)
from atf.rpc import frontend_pb2 as f
from atf.store_consumer.measures import FRESH_S, Measures
from tests.faults.world import World, hopeless, play, step


def found(world: World, spec: MetricSpec) -> dict[tuple[str, ...], Any]:
    return dict(world.wiring.metrics.values(spec))


def count(world: World, spec: MetricSpec, *labels: str) -> int:
    histogram = found(world, spec)[labels]
    assert isinstance(histogram, Histogram)
    return sum(histogram.counts)


def test_what_tasks_lived_through_is_counted_where_it_happened() -> None:
    async def story(world: World) -> None:
        handles = await world.schedule(3, 0.2) + await world.schedule(1, 0.2, fails=1)
        dead = await world.client.schedule(hopeless.prepare())
        request = step.prepare(0.2).request
        request.id = "once"
        for _ in range(2):
            await world.frontend.schedule(request)
        setattr(request.spec, "lambda", "f/nobody")
        with pytest.raises(NotFound):
            await world.frontend.schedule(request)
        many = f.ScheduleManyRequest(requests=[request, step.prepare(0.2).request])
        await world.frontend.schedule_many(many)
        await world.succeed(handles)
        await world.finished([dead])
        await asyncio.sleep(5)

        assert found(world, TASKS_SCHEDULED) == {
            ("f/step", "accepted"): 6,
            ("f/step", "existed"): 1,
            ("f/hopeless", "accepted"): 1,
            (OTHER, "refused"): 2,
        }
        assert found(world, TASKS_ENDED) == {("f/step", "SUCCESS"): 6, ("f/hopeless", "FATAL_FAILURE"): 1}
        outcomes = found(world, RUNS_ENDED)
        assert (outcomes["f/step", "succeeded"], outcomes["f/step", "failed"]) == (6, 1)
        assert count(world, START_DELAY, "f/step") == 6
        assert count(world, RUN_TIME, "f/step") == 7
        assert found(world, LEASES_LOST)[()] == 0
        calls = found(world, STORE_CALLS)
        assert calls["set_results", "ok"] >= 1
        assert count(world, STORE_CALL_SECONDS, "set_results") == calls["set_results", "ok"]

    play(story)


def test_what_is_lost_with_an_executor_is_counted() -> None:
    async def story(world: World) -> None:
        handles = await world.schedule(2, 4.0)
        await asyncio.sleep(1)
        running = sum(len(host.executor.ledger.tasks) for host in world.hosts)
        for host in world.hosts:
            host.crash()
        await world.succeed(handles)
        await asyncio.sleep(5)

        assert running == 2
        assert found(world, LEASES_LOST)[()] == 2
        assert found(world, RUNS_ENDED)["f/step", "lost"] == 2
        assert found(world, RUNS_ENDED)["f/step", "succeeded"] == 2

    play(story)


def test_calls_of_a_store_that_is_away_are_counted_by_their_error() -> None:
    async def story(world: World) -> None:
        async def away(*_: Any, **__: Any) -> Any:
            raise Unavailable("the task store can't be reached")

        world.store.link.call = away  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            await world.store.counts("f/step")
        assert found(world, STORE_CALLS)["count", "unavailable"] == world.store.partitions  # all are asked side by side

    play(story)


def test_gauges_say_what_stands_in_the_store() -> None:
    async def story(world: World) -> None:
        await world.client.pause("f/step")
        await world.schedule(3, 0.1)
        await asyncio.sleep(2)
        measures = Measures(world.store, world.runtime, lambda: 1.5)
        await measures.read()

        assert found(world, TASKS) == {("f/step", "NEW"): 3}
        assert found(world, TASKS_DUE) == {("f/step",): 3}
        assert 1.9 <= found(world, DUE_OLDEST)[("f/step",)] <= 2.1
        assert found(world, LAMBDA_GATED) == {("f/step",): 1}
        assert found(world, QUEUE_DEPTH) == {}
        assert found(world, DUE_LAG) == {(): 1.5}
        assert found(world, CLAIMS_PAUSED) == {(): 0}
        assert found(world, WORKERS) == {("", "working"): len(world.hosts)}
        assert found(world, LIVE_WORKERS)[("f/step",)] == len(world.hosts)

        await world.client.resume("f/step")
        await asyncio.sleep(FRESH_S - 2.1)
        await measures.read()
        assert found(world, TASKS) == {("f/step", "NEW"): 3}, "read a moment ago"
        await asyncio.sleep(2.2)
        await measures.read()
        assert found(world, TASKS) == {("f/step", "SUCCESS"): 3}
        assert found(world, TASKS_DUE) == {}

    play(story)


def test_gauges_of_a_store_that_is_away_are_absent() -> None:
    async def story(world: World) -> None:
        await world.succeed(await world.schedule(1, 0.1))
        measures = Measures(world.store, world.runtime, lambda: 0)
        await measures.read()
        assert found(world, TASKS) == {("f/step", "SUCCESS"): 1}
        direct = world.store.link.call

        async def away(*_: Any, **__: Any) -> Any:
            raise Unavailable("the task store can't be reached")

        world.store.link.call = away  # type: ignore[method-assign]
        await asyncio.sleep(FRESH_S)
        await measures.read()
        assert found(world, TASKS) == found(world, CLAIMS_PAUSED) == {}
        world.store.link.call = direct  # type: ignore[method-assign]
        await measures.read()
        assert found(world, TASKS) == {("f/step", "SUCCESS"): 1}, "at once"

    play(story)


def test_a_step_of_the_clock_is_counted_once() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(10)
        assert found(world, CLOCK_STEPS)[()] == 0
        world.skew_us = -60_000_000
        await asyncio.sleep(10)
        assert found(world, CLOCK_STEPS)[()] == 1

    play(story)
