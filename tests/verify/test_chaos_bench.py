"""What rows under load judge: a strike falls on a system that keeps up, and what did not recover, or was never tried, is no success."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atf.config import Timing
from atf.verify.load import Load
from atf.verify.outcome import Outcome, Recovery, Strike, judge
from tests.chaos import bench
from tests.chaos.bench import DRAIN_S, RECOVERY_S, back, judged, settled
from tests.chaos.frame import Progress, summarise
from tests.chaos.rows import store_modes
from tests.chaos.rows.freezes import survival
from tests.chaos.rows.partitions import strike_at
from tests.chaos.rows.store_modes import somebody_at_work

STRIKE = Strike("kill", "hsc", 7, 0)
QUIET = Progress(lambda _line: None)


def outcome(*recoveries: Recovery) -> Outcome:
    found = judge([], {}, {})
    found.recoveries = list(recoveries)
    return found


class World:
    """A bench whose seconds pass when somebody sleeps; `left` is asked with what has passed."""

    def __init__(
        self,
        folder: Path,
        *,
        left: Callable[[float], int] = lambda _s: 90,
        unanswered: Callable[[float], int] = lambda _s: 0,
        rate: float = 500,
        kept: float = 500,
        recovers: bool = True,
    ) -> None:
        self.now, self.done = 0.0, 0
        self.load, self.told, self.directory = Load(rate=rate), list[dict[str, Any]](), folder
        self.stream: Any = SimpleNamespace(called={}, accepted={}, per_second=kept)
        self.stored = SimpleNamespace(left=self._left)
        self._kept, self._left_at, self._unanswered, self._recovers = kept, left, unanswered, recovers

    async def _left(self) -> int:
        return self._left_at(self.now)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.done += 1
        self.stream.called = range(int(self.now * self._kept))
        self.stream.accepted = self.stream.called[self._unanswered(self.now) :]

    async def recovered(self, _strike: Strike, _within: float) -> bool:
        return self._recovers


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def made(**more: Any) -> World:
        found = World(tmp_path, **more)
        monkeypatch.setattr(bench, "asyncio", SimpleNamespace(sleep=found.sleep, timeout=asyncio.timeout))
        monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=lambda: found.now))
        return found

    return made


async def test_a_load_that_is_kept_up_with_is_struck_at_once(world: Callable[..., Any]) -> None:
    one = world()
    await settled(one)
    assert one.told == [{"failures": [], "late": [], "waited_for_drain_s": 0.0}]


async def test_a_strike_waits_until_the_backlog_is_gone(world: Callable[..., Any]) -> None:
    one = world(left=lambda at: 3000 if at < 20 else 90)
    await settled(one)
    assert 18 < one.told[0]["waited_for_drain_s"] < 21
    assert one.told[0]["failures"] == []


async def test_calls_without_an_answer_are_a_backlog_too(world: Callable[..., Any]) -> None:
    one = world(left=lambda _s: 490, unanswered=lambda at: 100 if at < 30 else 0)
    await settled(one)
    assert 28 < one.told[0]["waited_for_drain_s"] < 31


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"left": lambda at: 501 + round(at)}, "tasks were left to do"),
        ({"kept": 440}, "440/s were scheduled"),
    ],
)
async def test_a_machine_that_can_not_sustain_the_load_is_a_failure(
    world: Callable[..., Any], more: dict[str, Any], said: str
) -> None:
    one = world(**more)
    await settled(one)
    (told,) = one.told
    assert DRAIN_S <= told["waited_for_drain_s"] < DRAIN_S + 2
    (failure,) = told["late"]
    assert failure.startswith("the machine could not sustain 500 tasks/s: 300 s before the strike were not enough")
    assert said in failure


async def test_a_bench_without_a_load_of_its_own_waits_for_none(world: Callable[..., Any]) -> None:
    one = world(rate=0, left=lambda _s: 10_000)
    await settled(one)
    assert one.told == [{"failures": [], "late": [], "waited_for_drain_s": 0.0}]


async def test_what_does_not_recover_fails_its_trial(world: Callable[..., Any]) -> None:
    one = world(recovers=False)
    await settled(one)
    await settled(one)
    assert not await back(one, STRIKE, QUIET)
    trials = judged(one, outcome(Recovery(STRIKE, 1.0, None, None), Recovery(STRIKE, 2.0, None, None)), QUIET)
    assert [each["late"] for each in trials] == [[], [f"kill hsc: not recovered from within {RECOVERY_S:g} s"]]
    assert (one.directory / "keep").exists()


async def test_a_trial_is_what_the_bench_and_the_row_know_of_its_strike(world: Callable[..., Any]) -> None:
    one = world()
    await settled(one)
    assert await back(one, STRIKE, QUIET)
    more = [{"late": ["late"], "exit_s": 3.0}]
    (trial,) = judged(one, outcome(Recovery(STRIKE, 0.5, None, 20.0)), QUIET, more, worst_s=18)
    assert trial["failures"] == []
    assert trial["late"] == ["kill hsc: a task started 20.0 s after it, the bar is 18 s", "late"]
    assert trial["lost"] == 0
    assert (trial["resumed_s"], trial["exit_s"], trial["scheduled_per_s"]) == (0.5, 3.0, 500)
    with pytest.raises(ValueError, match="zip"):
        judged(one, outcome(), QUIET, more)


@pytest.mark.parametrize(("kept", "said"), [(451, []), (449, ["449/s were scheduled"])])
async def test_a_load_below_its_rate_has_tried_something_else(
    world: Callable[..., Any], kept: float, said: list[str]
) -> None:
    one = world(kept=kept)
    one.told.append({})
    (trial,) = judged(one, outcome(Recovery(STRIKE, 0.5, None, None)), QUIET)
    assert [each.partition("tasks/s: ")[2] for each in trial["late"]] == said


def test_a_stop_before_the_first_strike_leaves_no_trial(world: Callable[..., Any]) -> None:
    assert judged(world(kept=0), outcome(), QUIET) == []
    broken = outcome()
    broken.wrong = 1
    assert judged(world(kept=0), broken, QUIET)[0]["failures"] == ["1 tasks ended otherwise than planned"]


async def test_a_lab_that_is_stopped_before_its_first_trial_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.asynccontextmanager
    async def scene(*_: Any) -> AsyncIterator[object]:
        yield object()

    async def begin(_scene: Any) -> Any:
        return None

    monkeypatch.setattr(store_modes, "Scene", scene)
    stopped = Progress(lambda _line: None)
    stopped.stopping = True
    assert await store_modes._run(begin, Timing(), 5, stopped) == []


def test_a_run_that_ended_before_its_executor_was_cut_off_is_not_waited_for() -> None:
    runs = {"cut": {("a", 1): 5, ("b", 2): 6}, "read": {("b", 2): 6}}
    order: list[str] = []
    record = SimpleNamespace(open_runs=lambda _pid: runs[order[-1]])
    world: Any = SimpleNamespace(poll=lambda: order.append("read"), record=record, strikes=[])
    strike = strike_at(world, 7, lambda: order.append("cut"))
    assert (order, strike.cut_off, world.strikes) == (["cut", "read"], [("b", 2)], [strike])


def test_a_short_freeze_is_to_be_survived() -> None:
    assert survival(died=False) == {"late": [], "survived": 1}
    assert survival(died=True)["late"]


def test_executors_without_work_prove_nothing_by_ending() -> None:
    assert somebody_at_work(summarise([{"failures": [], "at_work_inside": 0}] * 2))
    assert somebody_at_work(summarise([{"failures": [], "at_work_inside": count} for count in (0, 1)])) == []
    assert {each.name for each in store_modes.ROWS if each.verdict is somebody_at_work} == {
        "split-brain",
        "datacenter-cut",
    }
