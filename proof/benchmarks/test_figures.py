"""What a round's figures are, of measurements whose processes are played: each is measured, or is not there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from proof.benchmarks.driver import SAME
from proof.benchmarks.floor import BATCH, Lived
from proof.benchmarks.known import EMPTY_CALL, FLOOR, FLOOR_THEN, OURS, SYSTEMS
from proof.benchmarks.question import Sizes
from proof.benchmarks.questions import a_throughput, b_scheduling, c_lateness, d_cost, i_kinds
from proof.benchmarks.roles import BenchError

TASKS = 100


class PlayedFloor:
    """A batch takes 900 µs of the store, and each task in it 100."""

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, *, foundation: bool = False) -> AsyncIterator[PlayedFloor]:
        assert isinstance(foundation, bool)
        yield cls()

    async def lives(self, tasks: int, batch: int = BATCH) -> Lived:
        return Lived(tasks, 2.0, (-(-tasks // batch) * 900 + tasks * 100) / 1e6)


class PlayedEmptyCall:
    """A call takes 3 ms of the server."""

    def __init__(self) -> None:
        self._used = 5.0

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls) -> AsyncIterator[PlayedEmptyCall]:
        yield cls()

    async def calls(self, count: int) -> dict[str, Any]:
        self._used += count * 0.003
        return {"begun": 0, "ended": 10**9, "calls_ns": [3_000, 9_000]}

    def cpu(self) -> dict[str, float]:
        return {"client": 0.0, "server": self._used}


class PlayedWorld:
    """Every verb takes a second, and of CPU what its row says, in s."""

    def __init__(self, lacks: dict[str, str] | None = None, **costs: dict[str, float]) -> None:
        self.asked: list[str] = []
        self._cpu = {"client": 0.0, "frontend": 0.0, "store": 0.0}
        self._costs = costs
        self.client = SimpleNamespace(lacks=lacks or {}, ask=self._ask)
        self.roles = SimpleNamespace(start_workers=self._start_workers)
        self.ledger = SimpleNamespace(
            never=lambda _: 0,
            twice=lambda _: 0,
            starts=lambda each: [1] * len(each),
            resident_mib=lambda pid: {3: 5.0, 4: 5.0}.get(pid, 0.0),
        )
        self.processes = {"client": [1], "frontend": [2], "executors": [3, 4], "store": [5]}

    def __call__(self, *_: Any, **__: Any) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def _ask(self, verb: str, **_: Any) -> dict[str, Any]:
        self.asked.append(verb)
        for role, seconds in self._costs.get(verb, {}).items():
            self._cpu[role] += seconds
        return {"begun": 0, "ended": 10**9, "due": [0.0] * 3, "per_s": 3.0, "calls_ns": [2_000, 4_000]}

    async def _start_workers(self) -> None:
        pass

    async def finished(self, _numbers: range, **_: Any) -> int:
        return 0

    def cpu(self) -> dict[str, float]:
        return dict(self._cpu)

    def cpu_since(self, before: dict[str, float]) -> dict[str, float]:
        return {role: used - before[role] for role, used in self._cpu.items()}

    def pids(self) -> dict[str, list[int]]:
        return self.processes


async def test_the_floor_tells_what_it_sees_and_what_small_batches_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a_throughput, "Floor", PlayedFloor)
    figures = await a_throughput.floor(SYSTEMS[FLOOR], Sizes(tasks=2560))
    assert figures["cpu_us"] == {"store": 103.52}, "ten batches: the others' processes take no part, and have no figure"
    assert figures["store_us_by_batch"] == {"1": 1000.0, "16": 156.25, "256": 103.52}
    assert figures["never"] == 0
    assert "twice" not in figures, "it can't be seen"
    then = await a_throughput.floor(SYSTEMS[FLOOR_THEN], Sizes(tasks=2560))
    assert then.keys() == figures.keys(), "both are judged at every size of a batch"


async def test_a_synchronous_callers_cpu_is_that_of_the_measured_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PlayedWorld(one={"client": 0.2, "frontend": 0.1})
    monkeypatch.setattr(b_scheduling, "BenchmarkWorld", world)
    figures = await b_scheduling.schedule_sync(SYSTEMS[OURS], Sizes(tasks=TASKS))
    assert world.asked == ["one", "one"], "once to warm up"
    assert figures["cpu_us"] == {"client": 2000.0, "frontend": 1000.0, "store": 0.0}
    assert (figures["cpu_us_total"], figures["call_us"]) == (3000.0, {"p50": 2.0, "p99": 4.0})


async def test_an_empty_call_is_measured_as_one_that_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(b_scheduling, "EmptyCall", PlayedEmptyCall)
    figures = await b_scheduling.schedule_sync(SYSTEMS[EMPTY_CALL], Sizes(tasks=TASKS))
    assert (figures["per_s"], figures["call_us"]) == (100.0, {"p50": 3.0, "p99": 9.0})
    assert (figures["cpu_us"], figures["cpu_us_total"]) == ({"client": 0.0, "server": 3000.0}, 3000.0)


async def test_calls_have_their_cpu_by_process(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"concurrent": {"client": 0.2, "frontend": 0.1}, "many": {"client": 0.02, "store": 0.01}}
    monkeypatch.setattr(b_scheduling, "BenchmarkWorld", PlayedWorld(None, **costs))
    figures = await b_scheduling.schedule_async(SYSTEMS[OURS], Sizes(tasks=TASKS))
    assert figures["cpu_us"] == {"client": 2000.0, "frontend": 1000.0, "store": 0.0}
    assert figures["many_cpu_us"] == {"client": 200.0, "frontend": 0.0, "store": 100.0}


async def test_a_peer_whose_fastest_way_is_single_calls_has_their_cpu_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PlayedWorld(lacks={"concurrent": SAME}, many={"client": 0.1})
    monkeypatch.setattr(b_scheduling, "BenchmarkWorld", world)
    figures = await b_scheduling.schedule_async(SYSTEMS["saq"], Sizes(tasks=TASKS))
    assert figures["cpu_us"] == figures["many_cpu_us"] == {"client": 1000.0, "frontend": 0.0, "store": 0.0}
    assert world.asked == ["many", "many"], "once to warm up"


async def test_a_steady_stream_has_its_cpu_by_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_lateness, "BenchmarkWorld", PlayedWorld(ahead={"client": 0.003, "store": 0.006}))
    figures = await c_lateness.ahead(SYSTEMS[OURS], Sizes(per_s=3, seconds=1.0))
    assert figures["cpu_us"] == {"client": 1000.0, "frontend": 0.0, "store": 2000.0}
    assert figures["cpu_us_total"] == 3000.0


async def test_memory_has_the_worst_process_and_gives_up_where_one_was_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def at_once(_seconds: float) -> None:
        pass

    world = PlayedWorld()
    resident = iter([1.0, 10.0, 25.0, 45.0, 1.0, 9.0, 11.0, 35.0, 37.0, 50.0])  # the ledger's 5 MiB included
    monkeypatch.setattr(d_cost, "BenchmarkWorld", world)
    monkeypatch.setattr(d_cost, "rss_mib", lambda _pid: next(resident))
    monkeypatch.setattr("asyncio.sleep", at_once)
    figures = await d_cost.memory(SYSTEMS[OURS], Sizes(million=TASKS))
    assert figures["worst_growth"] == 1.5, "the sum of both executors has grown by 3 % only"
    assert figures["ratios"] == {"client": 9.0, "frontend": 1.1, "executors 1": 1.5, "executors 2": 0.8, "store": 50.0}

    async def another_executor(_seconds: float) -> None:
        world.processes = world.processes | {"executors": [3, 6]}

    monkeypatch.setattr("asyncio.sleep", another_executor)
    with pytest.raises(BenchError, match="a process ended and was started again"):
        await d_cost.memory(SYSTEMS[OURS], Sizes(million=TASKS))


def test_a_def_is_close_to_an_async_def_within_three_tenths() -> None:
    (bar,) = i_kinds.QUESTIONS[0].bars
    assert (bar.limit, bar.least) == (1.3, False)
