"""What questions ask of a world, and what they make of its answers; the world is a stand-in. And when a world is warm."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import pytest

from proof.benchmarks import driver
from proof.benchmarks.known import SYSTEMS
from proof.benchmarks.question import Sizes
from proof.benchmarks.questions import a_throughput, b_scheduling
from proof.benchmarks.roles import BenchError
from proof.benchmarks.world import BenchmarkWorld, calm

SIZES = Sizes(tasks=10)


class FakeWorld:
    """A world in which a call takes a second per task, and each task starts 1 s after the one before.

    Args:
        lacks: of its client.
    """

    def __init__(self, lacks: dict[str, str]) -> None:
        self.lacks = lacks
        self.client = self.ledger = self.roles = self
        self.asked: list[tuple[str, range]] = []
        self.steps: list[str] = []
        self.lost = range(0)
        self.again = range(0)

    def __call__(self, *_: Any, **__: Any) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def ask(self, verb: str, *, first: int, count: int) -> dict[str, Any]:
        self.asked.append((verb, range(first, first + count)))
        self.steps.append(verb)
        return {"begun": 0, "ended": count * 10**9, "calls_ns": [10**9] * count}

    async def start_workers(self) -> None:
        self.steps.append("workers")

    async def finished(self, numbers: range) -> int:
        self.steps.append("finished")
        return self.never(numbers)

    def starts(self, numbers: range) -> Sequence[int]:
        return [(number + 1) * 10**9 for number in numbers]

    def never(self, numbers: range) -> int:
        return len({*numbers} & {*self.lost})

    def twice(self, numbers: range) -> int:
        return len({*numbers} & {*self.again})

    def cpu(self) -> dict[str, float]:
        self.steps.append("cpu")
        return {"client": float(len(self.asked))}

    def cpu_since(self, before: dict[str, float]) -> dict[str, float]:
        return {role: used - before[role] for role, used in self.cpu().items()}

    def pids(self) -> dict[str, list[int]]:
        return {"client": [os.getpid()], "workers": [os.getpid(), os.getpid()]}


async def test_each_way_of_scheduling_stores_as_many_tasks_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeWorld({})
    monkeypatch.setattr(b_scheduling, "BenchmarkWorld", world)
    found = await b_scheduling.schedule_async(SYSTEMS["rq"], SIZES)
    assert {found[name] for name in ("per_s", "single_per_s", "many_per_s")} == {1.0}
    measured = [each for each in world.asked if each[1].start < 2 * SIZES.tasks]
    assert {verb: len(numbers) for verb, numbers in measured} == {"many": 10, "concurrent": 10}
    assert len({number for _, numbers in world.asked for number in numbers}) == sum(
        len(each) for _, each in world.asked
    )


async def test_ways_that_are_the_same_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeWorld({"concurrent": driver.SAME})
    monkeypatch.setattr(b_scheduling, "BenchmarkWorld", world)
    found = await b_scheduling.schedule_async(SYSTEMS["saq"], SIZES)
    assert {found[name] for name in ("per_s", "single_per_s", "many_per_s")} == {1.0}
    assert [verb for verb, numbers in world.asked if len(numbers) == SIZES.tasks] == ["many"]


async def test_what_was_stored_is_run_and_counted_when_all_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for measure, last in ((b_scheduling.schedule_sync, SIZES.tasks), (b_scheduling.schedule_async, 2 * SIZES.tasks)):
        world = FakeWorld({})
        world.lost, world.again = range(last - 2, last), range(3)
        monkeypatch.setattr(b_scheduling, "BenchmarkWorld", world)
        found = await measure(SYSTEMS["atf"], SIZES)
        assert (found["never"], found["twice"]) == (2, 3)
        assert world.steps[-2:] == ["workers", "finished"], "nothing is measured beside the workers"
        assert world.steps.count("workers") == 1


async def test_of_ways_that_are_the_same_as_many_are_counted_as_were_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeWorld({"concurrent": driver.SAME})
    world.lost = range(SIZES.tasks, 2 * SIZES.tasks)  # the numbers of the way that there is none of
    monkeypatch.setattr(b_scheduling, "BenchmarkWorld", world)
    assert (await b_scheduling.schedule_async(SYSTEMS["saq"], SIZES))["never"] == 0


async def test_a_drain_tells_the_memory_of_each_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a_throughput, "BenchmarkWorld", FakeWorld({}))
    found = await a_throughput.drain(SYSTEMS["rq"], SIZES)
    assert found["per_s"] == 1.0
    assert found["rss_mib"]["client"] > 1.0
    assert found["rss_mib"]["workers"] == pytest.approx(2 * found["rss_mib"]["client"], rel=0.2)


async def test_a_world_is_warm_when_no_process_starts_any_more() -> None:
    readings = [{"workers": used} for used in (1.0, 3.0, 3.5, 3.5, 4.0)]
    left = iter(readings)
    await calm(lambda: next(left), every_s=0.0)
    assert list(left) == readings[4:], "it looks until two readings are the same"


async def test_a_world_that_never_comes_to_rest_is_measured_nevertheless() -> None:
    looks = iter(range(10_000))
    await calm(lambda: {"workers": float(next(looks))}, every_s=0.0)
    assert next(looks) < 10_000


class Ending(BenchmarkWorld):
    """A world that never starts: the processes of a role are those that it is told."""

    def __init__(self, *workers: int) -> None:
        self.system = SYSTEMS["rq"]
        self.workers = list(workers)

    def pids(self) -> dict[str, list[int]]:
        return {"client": [os.getpid()], "workers": self.workers}


def test_the_cost_of_a_process_that_ended_is_not_made_up() -> None:
    world = Ending(os.getppid())
    before = world.cpu()
    assert world.cpu_since(before).keys() == {"client", "workers"}
    world.workers.append(1)  # a new one counts
    assert world.cpu_since(before)["workers"] >= 0
    del world.workers[0]
    with pytest.raises(BenchError, match="1 of the processes of rq ended while they were measured"):
        world.cpu_since(before)
