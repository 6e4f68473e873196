"""What rows under load judge: a strike falls on a system that keeps up, and what did not recover, or was never tried, is no success."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atf.config.settings import Timing
from atf.errors import ResourceExhausted, Unavailable
from atf.exits import EXIT_NO_HEARTBEAT
from atf.testing.loop import VirtualLoop
from atf.verify.events import Accepted, Called
from atf.verify.load import Load
from atf.verify.outcome import LoadOutcome, Recovery, Strike, judge
from proof.chaos import bench
from proof.chaos.bench import DRAIN_S, RECOVERY_S, back, judged, settled
from proof.chaos.frame import Progress, summarise
from proof.chaos.rows import store_modes
from proof.chaos.rows.freezes import survival
from proof.chaos.rows.partitions import cut_off, strike_at, told_code
from proof.chaos.rows.store_full import EXHAUSTED, RATE, Once
from proof.chaos.rows.store_modes import ALONE_S, LAG_S, forgotten, of_relaxed, somebody_at_work, too_long
from proof.chaos.scene import Scene, is_relaxed

STRIKE = Strike("kill", "hsc", 7, 0)
QUIET = Progress(lambda _line: None)


def outcome(*recoveries: Recovery) -> LoadOutcome:
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
    assert await store_modes.run_scene(begin, Timing(), 5, stopped) == []


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
        "split-brain-relaxed",
        "datacenter-cut",
    }


# --- an executor that is cut off from the HSC -------------------------------------------------------------------------


def test_an_executor_that_is_cut_off_ends_by_itself_within_its_lease() -> None:
    good = cut_off(EXIT_NO_HEARTBEAT, 5.0, 16.0, guarded=True)
    assert (good["failures"], good["late"], good["of_a_controller"]) == ([], [], 1)
    assert cut_off(EXIT_NO_HEARTBEAT, 16.0, 16.0, guarded=False)["late"] == [
        "it ended after 16.0 s, a lease lasts 16 s"
    ]
    assert cut_off(0, 5.0, 16.0, guarded=False)["failures"]


def test_a_controllers_log_tells_how_an_executor_ended() -> None:
    lines = [
        "Traceback, which is no JSON",
        '{"message": "executor started", "executor": "e", "worker": 8}',
        '{"message": "executor ended; starting another", "guard": 6, "code": 1, "why": "x"}',
    ]
    assert told_code(lines, 7) is None
    assert told_code([*lines, '{"message": "executor ended; starting another", "guard": 7, "code": 81}'], 7) == 81


# --- a store that is full ---------------------------------------------------------------------------------------------


async def test_each_call_while_the_store_is_full_is_counted_and_none_repeated() -> None:
    answers: list[Any] = [ResourceExhausted("full"), SimpleNamespace(id="0-p1"), Unavailable("away")]

    async def schedule(_task: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client: Any = SimpleNamespace(schedule=schedule)
    once = Once(client, "n", "p")
    for _ in range(3):
        await once.call()
    assert (once.called, once.accepted, once.turned_away) == (["p0", "p1", "p2"], {"p1": "0-p1"}, {"p0"})
    assert once.refused == {EXHAUSTED: 1, "Unavailable": 1}
    assert once.failures == ["schedule while the store was full: away"]
    assert [type(each) for each in once.events] == [Called, Called, Accepted, Called]
    assert once.late == []


def test_calls_while_the_store_is_full_go_on_at_their_rate_whatever_the_answers_take() -> None:
    async def schedule(_task: Any) -> Any:
        await asyncio.sleep(1.5)
        raise ResourceExhausted("full")

    loop = VirtualLoop()
    once = Once(SimpleNamespace(schedule=schedule), "n", "p")  # type: ignore[arg-type]
    began = loop.time()
    loop.run_until_complete(once.steadily(2.0))
    assert 1.95 * RATE <= len(once.called) <= 2 * RATE, "none waits for the answers to those before it"
    assert 3.4 <= loop.time() - began <= 3.6, "but all answers are waited for"
    assert once.refused[EXHAUSTED] == len(once.called) == len(set(once.called))
    loop.close()


# --- a master that is killed, or cut off ------------------------------------------------------------------------------


def test_schedule_is_too_late_five_seconds_after_a_kill_or_after_a_return_that_it_waits_for() -> None:
    assert too_long("Schedule", 5.0) == []
    assert too_long("Schedule", 6.0) == ["Schedule was away for 6.0 s"]
    assert too_long("Schedule", 34.0, 30.0) == []
    assert too_long("Schedule", 36.0, 30.0) == ["Schedule was away for 6.0 s after its master's return"]
    assert too_long("Schedule", 4.0, 30.0) == [], "no task of it was called for meanwhile"


def test_a_load_of_class_relaxed_is_known_by_its_name_and_its_tasks_by_their_keys() -> None:
    assert [is_relaxed(each) for each in ("r1", "r1-12", "s-3-4", "relaxed-1")] == [False] * 4
    assert [is_relaxed(each) for each in ("r1-relaxed", "r1-relaxed-12")] == [True] * 2


class Heard:
    """What two tasks of a load have come to: the one accepted at the given second, the other at 0.1 s; the store knows neither."""

    def __init__(self, prefix: str, accepted_s: float) -> None:
        self.endings: dict[str, Any] = {}
        self.refused = {"Unavailable": 1}
        at = {f"{prefix}-0": round(accepted_s * 1e6), f"{prefix}-1": 100_000}
        self.called = dict.fromkeys(at, 1)
        self.accepted = {key: (at_us, 1) for key, at_us in at.items()}

    def poll(self) -> None: ...

    def plans(self, *_: Any) -> list[Any]:
        return []


def judged_scene(accepted_s: float, cut_s: float, *runs: Any) -> tuple[LoadOutcome, LoadOutcome]:
    scene: Any = object.__new__(Scene)
    scene.deaths = SimpleNamespace(all={})
    scene.record = SimpleNamespace(begun=runs, ends=[])
    names = ("r1", "r1-relaxed")
    scene.loads = {name: SimpleNamespace(heard=Heard(name, accepted_s), what=None, seed=1) for name in names}
    scene.forgot = [forgotten(cut_s)]
    return scene.judged(relaxed=False), scene.judged(relaxed=True)


@pytest.mark.parametrize(("accepted_s", "gone"), [(98.5, True), (104.5, True), (97.5, False), (105.5, False)])
def test_a_failover_may_lose_of_class_relaxed_what_was_accepted_about_then_and_of_others_nothing(
    accepted_s: float, gone: bool
) -> None:
    assert (LAG_S, ALONE_S) == (2, 5)
    others, relaxed = judged_scene(accepted_s, 100.0)
    assert (others.breaches["lost"], others.forgiven) == (2, 0)
    assert (relaxed.breaches["lost"], relaxed.forgiven) == ((1, 1) if gone else (2, 0))
    assert of_relaxed(relaxed)["relaxed_forgiven"] == int(gone)
    assert others.refused == relaxed.refused == {"Unavailable": 1}


def test_two_runs_at_once_of_a_relaxed_task_are_no_less_wrong() -> None:
    def run(process: str, fence: int) -> Any:
        return SimpleNamespace(at_us=200_000 + fence, task_id="r1-relaxed-1", fence=fence, process=process, store_us=0)

    others, relaxed = judged_scene(99.0, 100.0, run("1", 1), run("2", 2))
    assert others.figures()["concurrent"] == 0
    assert relaxed.figures()["concurrent"] == of_relaxed(relaxed)["relaxed_concurrent"] == 1
