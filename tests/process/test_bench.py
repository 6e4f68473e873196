"""The benchmark with real processes: a small run of ATF, of which each task ran once, and a client that can't."""

from __future__ import annotations

from tests.bench.known import OURS, SYSTEMS
from tests.bench.question import Sizes
from tests.bench.questions.a_throughput import end_to_end

TASKS = 300


async def test_every_task_of_a_run_is_seen_once() -> None:
    figures = await end_to_end(SYSTEMS[OURS], Sizes(tasks=TASKS))
    assert (figures["never"], figures["twice"]) == (0, 0)
    assert figures["per_s"] > 0
    assert figures["scheduled_per_s"] >= figures["per_s"]
    roles = {"client", "frontend", "hsc", "store-consumer", "controller", "guards", "executors", "store"}
    assert set(figures["cpu_us"]) == roles
    assert sum(figures["cpu_us"].values()) > 0
