"""What fails a seed beside its history: what crashed, and what it had too little of."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import pytest

from atf.process.role import Process as Frame
from atf.rpc.task_pb2 import TaskSpec
from atf.task import MOVES
from atf.verify.events import Accepted, Rescheduled
from atf.verify.judgement import Breach
from proof.chaos.rows import simulation as row

from . import __main__ as command
from .chronicle import StoryLine
from .deploys import GRACE_US, NAME as DEPLOYED, Deploys
from .lambdas import limited
from .loop import SimProcess
from .mutants import KINDS, MUTANTS, QUICK
from .nemesis import DONE, HORIZON_S, KINDS as FAULTS, Nemesis
from .play import Result, judge_world, missing_of, tasks_about
from .rates import BURST, RATE, Rates
from .world import World

ROOT: Final = Path(__file__).parents[2]
LIMITED: Final = 1
"""A seed whose steps have limits."""
BEGAN_US: Final = 7_000_000
"""When a payload's time of grace began."""


@pytest.fixture
def world() -> Iterator[World]:
    made = World(1)
    with closing(made.loop):
        yield made


# --- who is there for a payload ----------------------------------------------------------------------------------------


def failed_for_want_of(registered_us: int | None, awake_us: int = 0) -> list[str]:
    """What is odd where a payload counted as failed at the end of its grace, beside an executor that it fits and that registered then; its
    controller is awake since."""
    judge, spec = Deploys(), TaskSpec(payload=b'{"color": "red"}').SerializeToString().decode("latin-1")
    if registered_us is not None:
        judge.registered(SimProcess("h1-e1.1", "h1"), 0, registered_us, lambda: awake_us)
    record = {"q": f"{DEPLOYED}:1", "a": "0", "mf": "5 0", "spec": spec}

    def odd(verb: str, at_us: int, **changed: str) -> list[str]:
        record.update(changed)
        now = {"0-a": ("NEW", 1)}
        return list(
            judge.look(
                verb, [""], [], now if verb == "enqueue" else {}, now, lambda _, name: record.get(name), (at_us, at_us)
            )
        )

    assert odd("schedule", BEGAN_US) == []
    return odd("enqueue", BEGAN_US + GRACE_US, a="1")


def test_a_payload_must_not_fail_beside_an_executor_that_it_fits_and_that_had_registered_before() -> None:
    said = "0-a: an attempt is counted, and h1-e1.1, which it fits, was there all the time"
    assert failed_for_want_of(BEGAN_US) == [said]
    assert failed_for_want_of(BEGAN_US + 1) == failed_for_want_of(None) == []
    assert failed_for_want_of(BEGAN_US, awake_us=BEGAN_US) == [said]
    assert failed_for_want_of(BEGAN_US, awake_us=BEGAN_US + 1) == [], "nobody spoke for it"


# --- what is started afresh -------------------------------------------------------------------------------------------


def test_a_task_that_is_redriven_stands_elsewhere_in_its_line_and_has_another_instant(world: World) -> None:
    def call(verb: str, *args: str) -> Any:
        return world.server.execute(verb, "atf:{0}", ["", *args], server=verb in {"next_claims", "enlist"})

    call("apply_outbox", "1", "register", "sim/step", "", "100", "10000000", "")
    call("schedule", "0-a", "sim/step:1", "", "d" * 16, "", "0", "2", "k", "sim/step:line")
    call("enqueue", "0", "256", "0", "", "16000000")
    call("enlist", "16000000", "hsc-1", "", "0")
    asked = ["16000000", "1", "4096", "", "", "", "1", "h1-e1.1", "nonce", "1", "1", "sim/step:1"]
    (_, (_, _, counter, *_)), *_ = call("next_claims", "hsc-1", *asked)
    call("set_results", "0-a", counter, "nonce", "3", "", "0", "it failed", "0", "1", "0", "")
    call("redrive", "", str(world.server.now_us()), "0-a", "5000000")
    assert [each for each in world.chronicle.events if isinstance(each, Rescheduled)] == [
        Rescheduled(0, "0-a", world.server.now_us() + 5_000_000)
    ]


def test_a_task_that_is_stored_anew_since_the_store_has_forgotten_it_has_another_instant(world: World) -> None:
    call = ["", "0-a", "sim/step:1", "", "d" * 16, "", "2000000", "0"]
    for _ in range(2):
        world.server.execute("schedule", "atf:{0}", call, server=False)
        assert not [each for each in world.chronicle.events if isinstance(each, Rescheduled)]
    world.server.keep_nothing()
    world.server.restarted(forgetting=True)
    world.server.command("FUNCTION", "LOAD", world.server.library.source)
    world.server.execute("schedule", "atf:{0}", call, server=False)
    assert [each for each in world.chronicle.events if isinstance(each, Rescheduled)] == [
        Rescheduled(0, "0-a", world.server.now_us() + 2_000_000)
    ]


def test_a_story_is_told_of_whatever_its_findings_name() -> None:
    found = Result(1, wrong=[("OUT_OF_ORDER", "0-k9", "0-k9 at 2 s: it began too early: 0-k2 began after it, at 3 s")])
    assert tasks_about(found, {"0-k2": 1, "0-k9": 1, "0-k1": 1}) == {"0-k2", "0-k9"}
    assert tasks_about(Result(1), {"0-k1": 1}) == {"0-k1"}
    line = StoryLine(0, "", "claim: ENQUEUED -> CLAIMED", ("0-k2", "0-k1"))
    assert line.told({"0-k2"}) == "0-k2: claim: ENQUEUED -> CLAIMED"
    assert line.told({"0-k7"}) == "claim: ENQUEUED -> CLAIMED"


# --- what a seed must have had ----------------------------------------------------------------------------------------


def result(**given: Any) -> Result:
    made: dict[str, Any] = {"done": 10, "executors": 3, "virtual_s": HORIZON_S, "tally": {"attempted": 30}} | given
    return Result(1, **made)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"done": 9}, "9 faults: fewer than 10"),
        ({"virtual_s": 119.5}, "119.5 virtual seconds: fewer than 120"),
        ({"tally": {"attempted": 29}}, "29 tasks: fewer than 30"),
        ({"executors": 2}, "2 executors: fewer than 3"),
    ],
)
def test_a_seed_that_had_too_little_fails(given: dict[str, Any], said: str) -> None:
    assert list(missing_of(result())) == []
    assert list(missing_of(result(**given))) == [said]


def test_a_role_that_crashes_is_no_finding_of_a_checker(world: World) -> None:
    async def body(_frame: Frame, _process: SimProcess) -> int:
        raise ValueError("broken")

    world.start("hsc-1", "host-hsc-1", body)
    world.loop.advance_to(1_000_000)
    assert world.chronicle.crashed == ["hsc-1.1 ended by ValueError('broken')"]
    assert world.chronicle.odd == []


def test_what_broke_or_was_missing_catches_no_mutant() -> None:
    crashed, stuck = ("CRASHED", "", "claim raised"), ("STUCK", "t", "NEW at the end")
    assert result(wrong=[crashed, ("MEAGRE", "", "9 faults"), ("BROKEN", "", "")]).found == []
    assert result(wrong=[crashed, stuck]).found == [stuck]


@pytest.mark.parametrize("wrong", [[], [("STUCK", "", "50001 steps")], [("BROKEN", "", "TimeoutError()")]])
def test_no_task_is_lost_where_nobody_looked_for_it_since_the_seed_broke_off(
    world: World, wrong: list[tuple[str, str, str]]
) -> None:
    world.chronicle.event(Accepted(0, "0-k", 0))
    found = Result(1, wrong=list(wrong))
    judge_world(world, found)
    assert ("LOST" in found.kinds) == (not wrong)


def test_the_row_says_by_which_sentence_a_mutant_was_caught() -> None:
    made = {"mutant": "no_fence", "seed": 4, "kinds": ["CONCURRENT", "STUCK"], "text": "two at once"}
    assert row.caught_by(made) == "no_fence: CONCURRENT, STUCK, seed 4: two at once"
    assert row.caught_by(made | {"seed": 0}) == "no_fence: nothing"


def test_the_row_fails_where_no_mutant_was_caught_by_one_of_the_breaches() -> None:
    figures = {"mutants": len(MUTANTS), **{f"caught by: {kind}": 1 for kind in KINDS}}
    assert row.blind(figures) == []
    assert row.blind(figures | {"caught by: LOST": 0}) == ["no mutant was caught by LOST"]
    assert row.blind({"mutants": 1, "caught by: STUCK": 1}) == []


# --- which seed catches a mutant --------------------------------------------------------------------------------------


def caught(monkeypatch: pytest.MonkeyPatch, name: str, finds: dict[tuple[int, str], str]) -> Result | None:
    """By which seed of five a mutant is caught, where seeds find these breaches with it and with others."""

    def played(seeds: Iterable[tuple[int, str]], _jobs: int) -> Iterator[tuple[str, Result]]:
        for number, mutant in seeds:
            breach = finds.get((number, mutant), "")
            yield mutant, Result(number, wrong=[(breach, "t", f"by {breach}")] if breach else [])

    monkeypatch.setattr(command, "play_all", played)
    return command.first_caught(name, SimpleNamespace(seeds=5, jobs=1))


def test_a_mutant_is_caught_by_its_own_breach_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MUTANTS["one_token"].by == "TOKEN_REUSED"
    finds = {(1, "one_token"): "CRASHED", (2, "one_token"): "CONCURRENT"}
    assert caught(monkeypatch, "one_token", finds) is None
    found = caught(monkeypatch, "one_token", finds | {(4, "one_token"): "TOKEN_REUSED"})
    assert found is not None
    assert command.caught("one_token", found) == {
        "mutant": "one_token", "seed": 4, "kinds": ["TOKEN_REUSED"], "text": "by TOKEN_REUSED"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["deaf_executor", "lost_goes_on"])
def test_a_seed_that_catches_what_a_mutant_includes_does_not_catch_the_mutant(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    both = {(2, name): "CONCURRENT", (2, "idle_guard"): "CONCURRENT"}
    assert caught(monkeypatch, name, both) is None
    found = caught(monkeypatch, name, both | {(3, name): "CONCURRENT"})
    assert found is not None
    assert found.seed == 3


def test_each_breach_catches_a_mutant_in_every_test_run() -> None:
    assert sorted(MUTANTS[name].by for name in QUICK) == sorted(KINDS)
    assert set(KINDS) <= set(Breach.__members__)


# --- what a run must have had -----------------------------------------------------------------------------------------


def test_a_run_that_time_has_cut_fails_where_something_never_happened_in_many_seeds() -> None:
    counts = {"kill store": 30, "SIGTERM hsc": 0, "claim": 5}
    assert command.too_little(counts, 100, 200) == (
        True,
        "in 100 seeds these never happened, which is no chance: SIGTERM hsc",
    )
    for seldom, played in ((counts, 99), (counts | {"SIGTERM hsc": 1}, 199)):
        failed, said = command.too_little(seldom, played, 200)
        assert not failed
        assert "SIGTERM hsc" in said
    assert command.too_little(counts, 200, 200)[0]
    assert command.too_little({"claim": 20}, 150, 200) == (False, "")


def test_moves_of_a_jobs_ticks_and_disturbed_calls_are_asked_of_many_seeds_alone() -> None:
    assert set(command.JOB_MOVES) <= {move.name for move in MOVES}
    counts = {"claim": 20, **dict.fromkeys(command.JOB_MOVES, 0)}
    asked, scarce = command.apart(counts, {"rpc get_task": 3}, 1_000)
    assert (command.too_little(asked, 1_000, 1_000), len(scarce)) == ((False, ""), 5)
    asked, scarce = command.apart(counts, {"rpc get_task": 3}, command.ENOUGH)
    assert scarce == {}
    failed, said = command.too_little(asked, command.ENOUGH, command.ENOUGH)
    assert failed
    assert "hold 0 times" in said
    assert "rpc get_task 3 times" in said


# --- how fast tasks are pushed ----------------------------------------------------------------------------------------


def crowds(*pushes: tuple[float, int], forward_s: float = 0) -> int:
    """How many passes have pushed too many: each at this second so many. After the first one the store's clock is set forward."""
    rates = Rates(LIMITED)
    for at_s, count in pushes:
        rates.pushed(count, round(at_s * 1e6))
        rates.look(round(forward_s * 1e6))
    return len(rates.wrong)


def test_no_second_may_see_more_than_the_burst_and_no_longer_time_what_the_rate_brings_beside_it() -> None:
    assert (RATE, BURST) == (1, 2)
    assert crowds((10, 2), (11, 1), (12, 1)) == 0
    assert crowds((10, 2), (10.9, 1)) == 1
    assert crowds((10, 2), (11, 1), (11.9, 1)) == 1
    assert crowds((10, 3)) == 1


def test_what_the_store_s_clock_is_set_forward_by_has_passed_and_what_it_is_set_back_by_has_not() -> None:
    assert crowds((10, 2), (10.5, 2), forward_s=2) == 0
    assert crowds((10, 2), (10.5, 2), forward_s=-2) == 1
    assert crowds((10, 2), (13, 2), forward_s=-2) == 0


def test_what_the_store_pushed_and_has_forgotten_does_not_count() -> None:
    rates = Rates(LIMITED)
    rates.pushed(1, 9_000_000)
    rates.pushed(1, 9_500_000)
    rates.forgot(9_200_000)
    rates.pushed(1, 9_700_000)
    assert rates.wrong == []
    rates.pushed(1, 9_800_000)
    assert rates.wrong == ["3 were pushed from 9.000000 s to 9.800000 s, 2 may be"]


def test_pushes_are_counted_where_they_arrive_those_that_are_pushed_again_too(world: World) -> None:
    def call(verb: str, *args: str, partition: int = 0) -> Any:
        return world.server.execute(verb, f"atf:{{{partition}}}", ["", *args], server=False)

    call("open_partition", "1", "1", "16000000", "1")
    call(
        "apply_outbox", "1", "register", limited.name, "", "100", "10000000", ""
    )  # a store that lets through what it likes
    for number in range(3):
        call("schedule", f"0-{number}", f"{limited.name}:1", "", "d" * 16, "", "0", "0")
    call("enqueue", "0", "256", "0", "", "16000000")
    assert len(world.server.rates.wrong) == 1
    world.server.command("LPOP", f"rq:queue:{{0}}{limited.name}:1", "3")
    world.server.offset_us = 11_000_000
    call("enqueue", "0", "256", "0", "", "16000000")
    assert [each.split(" from")[0] for each in world.server.rates.wrong] == ["3 were pushed"] * 2


# --- faults that come later -------------------------------------------------------------------------------------------


def test_a_fault_that_was_to_come_and_could_not_is_made_up_for(world: World) -> None:
    nemesis = Nemesis(world)
    nemesis.at_once = [(1, nemesis.fill_store)]
    world.boot_store()
    assert nemesis.roll_back()
    world.processes["store"].alive = False  # something else was faster
    world.loop.advance_to(2_000_000)
    assert world.chronicle.faults["roll back store"] == 0
    assert sum(world.chronicle.faults[kind] for kind in DONE) == 1


def test_no_store_is_rolled_back_once_the_faults_are_over(world: World) -> None:
    nemesis = Nemesis(world)
    world.boot_store()
    world.loop.advance_to(round((HORIZON_S - 0.5) * 1e6))
    assert not nemesis.roll_back()


def test_what_guards_do_is_none_of_the_faults_that_count() -> None:
    assert set(FAULTS) - DONE == {"guard kills"}


# --- another Python ---------------------------------------------------------------------------------------------------


def test_under_another_python_nothing_is_said_to_be_well(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        patch.object(command, "PYTHON", (3, 1)),
        patch.object(sys, "argv", ["proof.simulation", "run", "--seeds", "1"]),
    ):
        assert command.main() == command.NOT_RUN
    assert "THE SIMULATION WAS NOT RUN" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["test", "sim", "mutants"])
def test_make_test_alone_goes_on_without_the_simulation(target: str) -> None:
    """By what `make` would do: the exit code is forgiven in `make test`, whose last line then says so."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command_line = ["make", "--dry-run", "--old-file=.venv/.ready", target]
    done = subprocess.run(command_line, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    last = [line for line in done.stdout.splitlines() if "proof.simulation" in line]
    assert last
    forgiven = [f"[ $? -eq {command.NOT_RUN} ]" in line for line in last]
    assert forgiven == [target == "test"] * len(last)
    assert done.stdout.splitlines()[-1] == last[-1]
