"""The benchmark with real processes: small runs of ATF, of which each task ran once, on one server and at its largest layout; empty calls."""

from __future__ import annotations

import pytest

from proof.benchmarks.known import EMPTY_CALL, OURS, SYSTEMS
from proof.benchmarks.question import Sizes
from proof.benchmarks.questions.a_throughput import end_to_end
from proof.benchmarks.questions.b_scheduling import schedule_sync
from proof.benchmarks.questions.g_scale import LEVELS, Running
from proof.benchmarks.world import BenchmarkWorld

TASKS = 300


@pytest.mark.long
async def test_every_task_of_a_run_is_seen_once() -> None:
    figures = await end_to_end(SYSTEMS[OURS], Sizes(tasks=TASKS))
    assert (figures["never"], figures["twice"]) == (0, 0)
    assert figures["per_s"] > 0
    assert figures["scheduled_per_s"] > 0  # a call may be answered after what it scheduled has run
    roles = {"client", "frontend", "hsc", "store-consumer", "controller", "guards", "executors", "store"}
    assert set(figures["cpu_us"]) == roles
    assert sum(figures["cpu_us"].values()) > 0


async def test_a_call_that_does_nothing_is_made_between_two_processes() -> None:
    figures = await schedule_sync(SYSTEMS[EMPTY_CALL], Sizes(tasks=TASKS))
    assert 0 < figures["call_us"]["p50"] <= figures["call_us"]["p99"]
    assert set(figures["cpu_us"]) == {"client", "server"}
    assert figures["cpu_us_total"] > 0


@pytest.mark.long
async def test_two_of_each_role_share_the_tasks_on_a_cluster() -> None:
    level, numbers = LEVELS[-1], range(TASKS)
    async with BenchmarkWorld(SYSTEMS[OURS], TASKS, layout=level.layout, cluster=level.cluster) as world:
        running = Running(world)
        await running.run(numbers)
        figures = running.figures(numbers)
    assert (figures["never"], figures["twice"]) == (0, 0)
    roles = ("client", "frontend", "hsc", "store-consumer", "controller", "guards", "executors")
    found = {role: len(each) for role, each in figures["cpu_us_by_process"].items()}
    assert found == dict.fromkeys(roles, 2) | {"store": 3}
