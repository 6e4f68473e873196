"""Results: what counts as done, what is called ok, and that a benchmark goes on where it was."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atf.errors import Unavailable
from proof.benchmarks import __main__ as bench, installed, known, results, run
from proof.benchmarks.__main__ import _is_done as is_done
from proof.benchmarks.question import Bar, Figures, Question, Sizes
from proof.benchmarks.results import origin as results_origin
from proof.benchmarks.roles import BenchError
from proof.benchmarks.run import BenchmarkRun, told
from proof.benchmarks.stats import ratios
from proof.benchmarks.verdict import verdict
from proof.benchmarks.world import NotAsked
from proof.chaos import frame
from tools import make_venv

SIZES = Sizes(tasks=10)
CIRCUMSTANCES = frame.circumstances()
ORIGIN = results.origin()


async def unmeasured(_system: known.System, _sizes: Sizes) -> Figures:
    raise AssertionError


def question(**more: Any) -> Question:
    given: dict[str, Any] = {
        "name": "speed",
        "what": "how fast",
        "figure": "per_s",
        "unit": "tasks/s",
        "more": True,
        "measure": unmeasured,
        "sizes": ("tasks",),
        "systems": ("atf", "saq", "huey"),
    }
    return Question(**given | more)


def one(system: str, figures: Figures | None = None, **more: Any) -> results.Round:
    base = {"run": "r", "at": "t", "system": system, "sizes": {"tasks": 10}, "load": 0.1}
    return base | ({} if figures is None else {"figures": figures, "versions": {"x": "1"}, "settings": "s"}) | more


def test_it_is_ok_when_every_system_has_its_rounds() -> None:
    rounds = [one(name, {"per_s": value}) for name in ("atf", "saq", "huey") for value in (1.0, 3.0, 2.0)]
    found = results.result(question(), SIZES, 3, rounds)
    assert found["status"] == "ok"
    assert found["systems"]["atf"]["median"] == {"per_s": 2.0}
    assert [each["per_s"] for each in found["systems"]["atf"]["rounds"]] == [1.0, 3.0, 2.0]
    assert {"date", "code", "commit", "cores", "memory_mib", "kernel", "cpu", "server"} <= found.keys()
    assert found["full"] is False  # ten tasks


def test_what_could_not_run_says_why_and_is_never_ok() -> None:
    rounds = [one("atf", {"per_s": 1.0}), one("saq", not_run="it has no such call"), one("huey", error="it broke")]
    found = results.result(question(), SIZES, 1, rounds)
    assert found["systems"]["saq"]["status"] == "not run: it has no such call"
    assert found["systems"]["huey"]["status"] == "failed: it broke"
    assert found["status"] == "failed: huey: failed: it broke"


def test_a_system_that_cannot_does_not_spoil_the_rest() -> None:
    rounds = [one("atf", {"per_s": 1.0}), one("saq", not_run="it has no such call"), one("huey", {"per_s": 1.0})]
    assert results.result(question(), SIZES, 1, rounds)["status"] == "ok"
    alone = [one("saq", not_run="it has no such call")]
    assert results.result(question(), SIZES, 1, alone)["status"] == "not run: it has no such call"
    assert results.result(question(), SIZES, 1, [])["status"].startswith("not run: ")


def test_a_full_result_has_all_rounds_of_atf_and_of_the_best_peer_and_may_have_fewer_of_slower_ones() -> None:
    sizes = Sizes()

    def rounds(atf: int, saq: int, arq: int) -> list[results.Round]:
        given = [("atf", 9.0)] * atf + [("saq", 3.0)] * saq + [("arq", 1.0)] * arq
        return [one(name, {"per_s": value}, sizes={"tasks": sizes.tasks}) for name, value in given]

    asked = question(systems=("atf", "saq", "arq"))
    full = {each: results.result(asked, sizes, 5, rounds(*each))["full"] for each in [(5, 5, 1), (5, 4, 5), (4, 5, 5)]}
    assert full == {(5, 5, 1): True, (5, 4, 5): False, (4, 5, 5): False}


def test_missing_systems_and_rounds_make_it_a_part() -> None:
    found = results.result(question(), SIZES, 2, [one("atf", {"per_s": 1.0})])
    assert (found["status"], found["missing"]) == ("in part", ["saq", "huey"])
    assert found["systems"]["atf"]["status"] == "in part: 1 of 2 rounds"


@pytest.mark.parametrize(
    ("system", "figures", "status"),
    [
        ("saq", {"never": 2}, "failed: 2 tasks never ran"),
        ("saq", {"never": 2, "killed": "worker 1"}, "loses tasks: 2 tasks never ran, after 1 of 1 kills"),
        ("atf", {"never": 2, "killed": "worker 1"}, "failed: 2 tasks never ran"),
        ("huey", {"never": 2}, "failed: 2 tasks never ran"),
        ("atf", {"never": 0, "twice": 1}, "failed: 1 tasks ran twice"),
        ("atf", {"never": 0, "twice": 1, "killed": "worker 1"}, "ok"),
        ("saq", {"never": 0, "twice": 1}, "ok"),
    ],
)
def test_tasks_that_never_ran_are_a_failure_and_of_ours_those_that_ran_twice(
    system: str, figures: Figures, status: str
) -> None:
    found = results.result(question(), SIZES, 1, [one(system, figures)])
    assert found["systems"][system]["status"] == status


def test_rounds_at_other_sizes_do_not_count(tmp_path: Path) -> None:
    lines = [json.dumps(one("atf", {"per_s": 1.0})), json.dumps(one("atf", {"per_s": 9.0}) | {"sizes": {"tasks": 99}})]
    (tmp_path / "speed.jsonl").write_text("\n".join(lines) + "\n")
    assert [each["figures"] for each in results.rounds_of(tmp_path, question(), SIZES)] == [{"per_s": 1.0}]


def test_a_larger_result_is_not_written_over(tmp_path: Path) -> None:
    large = results.result(question(), Sizes(tasks=20), 1, [one("atf", {"per_s": 1.0})])
    small = results.result(question(), SIZES, 1, [one("atf", {"per_s": 2.0})])
    path = results.write(large, tmp_path)
    assert results.write(small, tmp_path) == path
    assert results.latest(tmp_path)["speed"]["sizes"] == {"tasks": 20}


def test_a_question_that_asks_another_system_since_is_not_done(tmp_path: Path) -> None:
    sizes = Sizes()
    rounds = [one("atf", {"per_s": 1.0}, sizes={"tasks": sizes.tasks})] * 5
    results.write(results.result(question(systems=("atf",)), sizes, 5, rounds), tmp_path)
    assert is_done(question(systems=("atf",)), tmp_path, 5)
    assert not is_done(question(systems=("atf", "saq")), tmp_path, 5)


def test_a_question_that_takes_very_long_is_done_with_few_rounds_and_not_where_more_are_asked_for(
    tmp_path: Path,
) -> None:
    sizes = Sizes()
    rounds = [one("atf", {"per_s": 1.0}, sizes={"tasks": sizes.tasks})]
    long = question(systems=("atf",), rounds=1)
    found = results.result(long, sizes, 1, rounds)
    assert found["full"] is False, "medians want five rounds"
    older = results.result(long, sizes, 5, rounds * 5) | {"code": "before", "at": "2000"}
    results.write(older, tmp_path)
    assert not is_done(long, tmp_path, 1)
    results.write(found, tmp_path)
    assert is_done(long, tmp_path, long.rounds)
    assert not is_done(long, tmp_path, 5)
    judged = question(systems=("atf",), rounds=1, bars=(Bar(words="", figure="per_s", limit=1.0, least=True),))
    assert not is_done(judged, tmp_path, 1), "a bar wants the median of five"
    assert results.latest(tmp_path)["speed"]["code"] == "before", "a full one goes before a newer one that is not"


def test_what_was_called_full_with_few_rounds_is_not_full(tmp_path: Path) -> None:
    sizes = Sizes()
    rounds = [one("atf", {"per_s": 1.0}, sizes={"tasks": sizes.tasks})]
    before = results.result(question(systems=("atf",)), sizes, 1, rounds) | {"full": True, "at": "2000", "code": "a"}
    newer = results.result(question(systems=("atf",)), sizes, 2, rounds * 2) | {"at": "2001", "code": "b"}
    for each in (before, newer):
        results.write(each, tmp_path)
    assert results.latest(tmp_path)["speed"]["code"] == "b"


@pytest.mark.parametrize(
    ("sizes", "full"),
    [
        (Sizes(), True),
        (Sizes(tasks=60_000), True),
        (Sizes(tasks=20_000), False),
        (Sizes(pending=(1_000,)), False),
        (Sizes(burst=100), True),
    ],
)
def test_a_result_is_full_only_if_no_size_that_its_question_uses_is_smaller(sizes: Sizes, full: bool) -> None:
    asked = question(sizes=("tasks", "pending"), systems=("atf",))
    rounds = [one("atf", {"per_s": 1.0}, sizes=sizes.as_json(asked.sizes))] * 5
    assert results.result(asked, sizes, 5, rounds)["full"] is full


# --- running ---


class PlayedResult:
    """Systems that are played: what each measurement gives."""

    def __init__(self, *outcomes: Figures | Exception) -> None:
        self.outcomes, self.asked = list(outcomes), [""]
        self.asked.clear()

    async def __call__(self, system: known.System, _sizes: Sizes) -> Figures:
        self.asked.append(system.name)
        outcome = self.outcomes.pop(0) if self.outcomes else {"per_s": float(len(self.asked))}
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def no_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proof.benchmarks.run.prepare", lambda system: "no index" if system.name == "huey" else "")

    async def versions(_system: known.System) -> dict[str, str]:
        return {"x": "1"}

    monkeypatch.setattr("proof.benchmarks.run.versions", versions)


@pytest.fixture(autouse=True)
def circumstances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for once: git and the server's program answer slowly."""
    monkeypatch.setattr(frame, "circumstances", lambda: CIRCUMSTANCES)
    monkeypatch.setattr(results, "origin", lambda: ORIGIN)


def run_in(folder: Path, rounds: int | None = 2, peers: tuple[str, ...] | None = None) -> BenchmarkRun:
    return BenchmarkRun(SIZES, rounds, peers, lambda _line: None, folder / "rounds", folder / "results")


@pytest.mark.usefixtures("no_environments")
async def test_systems_take_turns_and_each_round_begins_with_another(tmp_path: Path) -> None:
    measure = PlayedResult()
    found = await run_in(tmp_path, rounds=2).ask(question(measure=measure, systems=("atf", "saq", "arq")))
    assert measure.asked == ["saq", "atf", "arq", "arq", "atf", "saq"], "ATF is the neighbour of both"
    assert found["status"] == "ok"
    assert json.loads(next((tmp_path / "results").iterdir()).read_text())["systems"] == found["systems"]
    assert [each["round"] for each in found["systems"]["atf"]["rounds"]] == [1, 2]


@pytest.mark.usefixtures("no_environments")
async def test_a_question_has_its_own_number_of_rounds_and_as_many_as_are_asked_for(tmp_path: Path) -> None:
    first, more = PlayedResult(), PlayedResult()
    once = await run_in(tmp_path, rounds=None).ask(question(measure=first, systems=("atf",), rounds=1))
    assert (first.asked, once["status"]) == (["atf"], "ok")
    found = await run_in(tmp_path, rounds=3).ask(question(measure=more, systems=("atf",), rounds=1))
    assert (more.asked, found["status"]) == (["atf", "atf"], "ok"), "it goes on after the round that was done"
    assert [each["round"] for each in found["systems"]["atf"]["rounds"]] == [1, 2, 3]


@pytest.mark.usefixtures("no_environments")
async def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    first = PlayedResult()
    stopped = run_in(tmp_path)

    async def stop_after_one(system: known.System, sizes: Sizes) -> Figures:
        stopped.stopping = True
        return await first(system, sizes)

    asked = question(systems=("atf", "saq"))
    part = await stopped.ask(question(measure=stop_after_one, systems=("atf", "saq")))
    assert (first.asked, part["status"]) == (["saq"], "in part")
    rest = PlayedResult()
    found = await run_in(tmp_path).ask(question(measure=rest, systems=asked.systems))
    assert (rest.asked, found["status"]) == (["saq", "atf", "atf", "saq"], "ok"), "half a pair is measured again"
    again = PlayedResult()
    await run_in(tmp_path).ask(question(measure=again, systems=asked.systems))
    assert again.asked == []


@pytest.mark.usefixtures("no_environments")
async def test_what_is_not_compared_in_pairs_is_measured_once_a_round_and_goes_on_within_it(tmp_path: Path) -> None:
    systems, first = ("atf", "saq", "arq", "rq"), PlayedResult()
    stopped = run_in(tmp_path)

    async def stop_after_one(system: known.System, sizes: Sizes) -> Figures:
        stopped.stopping = True
        return await first(system, sizes)

    await stopped.ask(question(measure=stop_after_one, systems=systems, paired=False))
    rest = PlayedResult()
    found = await run_in(tmp_path, rounds=1).ask(question(measure=rest, systems=systems, paired=False))
    assert sorted(first.asked + rest.asked) == sorted(systems)
    assert found["status"] == "ok"
    assert "group" not in found["systems"]["atf"]["rounds"][0]


@pytest.mark.usefixtures("no_environments")
async def test_every_peer_runs_directly_beside_atf_which_two_share(tmp_path: Path) -> None:
    measure, systems = PlayedResult(), ("atf", "taskiq", "saq", "arq", "rq", "dramatiq")
    found = await run_in(tmp_path, rounds=5).ask(question(measure=measure, systems=systems))
    for name in systems[1:]:
        places = [place for place, each in enumerate(measure.asked) if each == name]
        assert len(places) == 5
        assert all("atf" in measure.asked[max(place - 1, 0) : place + 2] for place in places), name
        assert len(ratios(found["systems"]["atf"]["rounds"], found["systems"][name]["rounds"], "per_s")) == 5
    assert len(measure.asked) == 5 * 8, "three runs of ATF for five peers"
    assert found["systems"]["atf"]["status"] == "ok"


@pytest.mark.usefixtures("no_environments")
async def test_peers_go_on_alone_where_atf_failed(tmp_path: Path) -> None:
    measure = PlayedResult({"per_s": 1.0}, Unavailable("it is away"))
    found = await run_in(tmp_path).ask(question(measure=measure, systems=("atf", "saq")))
    assert measure.asked == ["saq", "atf", "saq"]
    assert found["status"].startswith("failed: ")


@pytest.mark.usefixtures("no_environments")
async def test_a_system_that_failed_is_not_asked_again_in_that_run(tmp_path: Path) -> None:
    measure = PlayedResult(Unavailable("it is away"))
    found = await run_in(tmp_path).ask(question(measure=measure, systems=("atf", "saq")))
    assert measure.asked == ["saq", "atf", "atf"]
    assert found["systems"]["saq"]["status"] == "failed: Unavailable: it is away"
    again = PlayedResult()
    found = await run_in(tmp_path).ask(question(measure=again, systems=("atf", "saq")))
    assert again.asked == ["saq", "atf", "atf", "saq"], "what it is compared with runs beside it"
    assert found["status"] == "ok"


@pytest.mark.usefixtures("no_environments")
async def test_what_is_not_there_or_not_able_says_why(tmp_path: Path) -> None:
    measure = PlayedResult(NotAsked("it has no clock"))
    found = await run_in(tmp_path, rounds=1).ask(question(measure=measure))
    assert found["systems"]["saq"]["status"] == "not run: it has no clock"
    assert found["systems"]["huey"]["status"] == "not run: no index"


@pytest.mark.usefixtures("no_environments")
async def test_it_can_be_asked_in_pieces(tmp_path: Path) -> None:
    asked = question(measure=PlayedResult(), systems=("atf", "saq"))
    part = await run_in(tmp_path, peers=("none",)).ask(asked)
    assert (part["status"], part["missing"]) == ("in part", ["saq"])
    whole = await run_in(tmp_path, peers=("saq",)).ask(asked)
    assert (whole["status"], whole["missing"]) == ("ok", [])


# --- where a result comes from ---


def test_a_result_says_of_which_commit_it_is_and_whether_something_was_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init", "--quiet")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "one.py").write_text("1")
    git("add", ".")
    git("commit", "--quiet", "--message", "m")
    commit = git("rev-parse", "HEAD").strip()[:12]
    assert results_origin(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "proof" / "results").mkdir(parents=True)
    (tmp_path / "proof" / "results" / "new.json").write_text("{}")
    assert results_origin(tmp_path)["dirty"] is False, "what a measurement writes changes nothing of what it means"
    (tmp_path / "tests" / "one.py").write_text("2")
    assert results_origin(tmp_path) == {"commit": commit, "dirty": True}


def test_where_git_cannot_say_it_nothing_is_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert results_origin(tmp_path) == {"commit": "unknown", "dirty": None}
    monkeypatch.setenv("PATH", "")
    assert results_origin(tmp_path) == {"commit": "unknown", "dirty": None}


def test_a_result_without_a_commit_is_not_written_among_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "origin", lambda: {"commit": "unknown", "dirty": None})
    monkeypatch.setattr("sys.argv", ["bench", "--ask", "floor"])
    assert bench.main() == 2
    assert "git can't say of which commit" in capsys.readouterr().err


@pytest.mark.parametrize("rounds", ["0", "-1", "few"])
def test_a_number_of_rounds_is_at_least_one(
    rounds: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", f"--rounds={rounds}"])
    with pytest.raises(SystemExit):
        bench.main()
    assert f"{rounds} is no number of rounds: 1 is the least" in capsys.readouterr().err


async def test_versions_are_those_of_the_environment_that_a_system_runs_in() -> None:
    """Of ATF and of what calls the store's functions alone, which runs in the same."""
    floor = await run.versions(known.SYSTEMS[known.FLOOR])
    ours = await run.versions(known.SYSTEMS[known.OURS])
    libraries = ["redis", "hiredis", "protobuf", "grpcio", "uvloop", "msgspec"]
    assert list(floor) == libraries
    assert set(ours) == {"atf-tasks", *libraries}
    assert all(each[0].isdigit() for each in floor.values()), floor
    assert floor.items() <= ours.items()


def test_a_package_that_an_environment_lacks_is_said_to_be_missing() -> None:
    assert installed.installed(["redis", "no-such-package"])["no-such-package"] == "not installed"
    assert "hiredis" in installed.OF_ALL, "of peers, too"


async def test_a_system_that_does_not_say_its_versions_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "known_versions", {})
    broken = known.System("broken", "Broken", "no_such_module")
    monkeypatch.setattr(known.System, "python", property(lambda _self: sys.executable))
    with pytest.raises(BenchError, match="does not say its versions"):
        await run.versions(broken)


def test_an_environment_is_made_anew_for_another_build_of_the_same_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("a==1")
    before = make_venv.stamp(tmp_path, pins)
    assert before == make_venv.stamp(tmp_path, pins)
    for name, other in (("version", f"{sys.version} another"), ("base_prefix", "/another")):
        with monkeypatch.context() as patched:
            patched.setattr(sys, name, other)
            assert make_venv.stamp(tmp_path, pins) != before, name
    pins.write_text("a==2")
    assert make_venv.stamp(tmp_path, pins) != before


def test_a_peer_of_another_interpreter_is_not_measured(tmp_path: Path) -> None:
    assert known.another_interpreter(sys.executable) == ""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf '3.11.7 (main)'\n")
    python.chmod(0o755)
    why = known.another_interpreter(str(python))
    assert why.startswith("its environment has Python 3.11.7 (main), and ATF's has ")
    assert "remove .build/peers" in why


def test_the_interpreter_is_recorded_once() -> None:
    found = results.result(question(), SIZES, 1, [one("atf", {"per_s": 1.0})])
    assert found["interpreter"] == " ".join(sys.version.split())


# --- bars ---


@pytest.mark.parametrize(
    ("bar", "expected"),
    [
        (Bar(words="", figure="per_s", limit=5.0, least=True, against=("saq", "rq")), (5.0, True)),
        (Bar(words="", figure="per_s", limit=5.1, least=True, against=("saq",)), (5.0, False)),
        (Bar(words="", figure="ms", limit=0.5, least=False, against=("saq", "rq")), (1.0, False)),
        (Bar(words="", figure="ms", limit=2.0, least=False), (2.0, True)),
        (Bar(words="", figure="ms", limit=1.9, least=False), (2.0, False)),
        (Bar(words="", figure="none", limit=1.9, least=False), None),
        (Bar(words="", figure="per_s", limit=1.0, least=True, against=("huey",)), None),
    ],
)
def test_a_bar_compares_with_the_best(bar: Bar, expected: tuple[float, bool] | None) -> None:
    figures = {"atf": {"per_s": 100.0, "ms": 2.0}, "saq": {"per_s": 20.0, "ms": 4.0}, "rq": {"per_s": 5.0, "ms": 2.0}}
    systems = {name: {"median": each, "rounds": [each]} for name, each in figures.items()}
    found = bar.reached(systems)
    assert (found and found[:2]) == expected


def test_a_bar_compares_rounds_of_one_number() -> None:
    bar = Bar(words="", figure="per_s", limit=2.0, least=True, against=("saq",))
    slow_fast = [one("saq", {"per_s": value}, round=number) for number, value in ((1, 10.0), (2, 40.0), (3, 50.0))]
    mine = [one("atf", {"per_s": value}, round=number) for number, value in ((2, 80.0), (3, 100.0), (1, 30.0))]
    systems = results.result(question(bars=(bar,)), SIZES, 3, [*mine, *slow_fast])["systems"]
    assert [each["round"] for each in systems["atf"]["rounds"]] == [2, 3, 1]
    assert bar.reached(systems) == (2.0, True, [2.0, 2.0, 3.0]), "80 ÷ 40 and 100 ÷ 50, not 80 ÷ 50 or 100 ÷ 40"


def test_a_bar_that_asks_for_no_worse_bears_what_rounds_differ_by() -> None:
    bar = Bar(words="", figure="us", limit=1.0, least=False, against=("floor-then",), of="floor", tolerant=True)
    asked = question(systems=("floor", "floor-then"), bars=(bar,))

    def enough(*us: float, judged: Bar = bar) -> bool | None:
        rounds = [one("floor", {"us": each}, round=number) for number, each in enumerate(us, 1)]
        rounds += [one("floor-then", {"us": 100.0}, round=number) for number in range(1, len(us) + 1)]
        reached = judged.reached(results.result(asked, SIZES, 5, rounds)["systems"])
        return reached and reached.enough

    assert enough(97.0, 99.0, 101.0, 102.0, 105.0)
    assert not enough(97.0, 99.0, 101.0, 102.0, 105.0, judged=replace(bar, tolerant=False))
    assert not enough(99.0, 101.0, 101.0, 102.0, 105.0), "one lucky round is not enough"


def test_at_least_once_is_who_has_lost_nothing_by_any_kill_with_any_of_its_workers() -> None:
    def rounds(*never: int) -> dict[str, Any]:
        return {"rounds": [{"never": each} for each in never]}

    systems = {"atf": rounds(0), "saq": rounds(0, 0), "arq": rounds(0, 2), "rq": rounds()}
    found = verdict({"systems": systems | {"celery": rounds(0), "celery-later": rounds(0, 1)}})
    assert found == (frozenset({"saq"}), frozenset({"arq", "celery", "huey"})), "of RQ nothing is known"


def test_at_least_once_is_none_that_was_not_killed_with_each_of_its_workers() -> None:
    fine: dict[str, Any] = {"rounds": [{"never": 0}]}
    none: dict[str, Any] = {"rounds": []}
    assert verdict({"systems": {"celery": fine, "celery-later": fine}}).safe == {"celery"}
    for killed in ({"celery": fine}, {"celery-later": fine}, {"celery": fine, "celery-later": none}):
        found = verdict({"systems": killed})
        assert "celery" not in found.safe | found.loses, killed


def test_a_peer_whose_documentation_says_that_a_kill_costs_tasks_is_none_that_lost_nothing() -> None:
    lucky = {"systems": {"huey": {"rounds": [{"never": 0}]}, "saq": {"rounds": [{"never": 0}]}}}
    assert verdict(lucky) == (frozenset({"saq"}), frozenset({"huey"}))
    assert verdict(None) == (frozenset(), frozenset({"huey"})), "nobody has to be killed for that"
    assert [each.name for each in known.SYSTEMS.values() if each.loses] == ["huey"]


def test_a_bar_of_those_that_are_at_least_once_takes_the_verdict_of_the_kill() -> None:
    bar = Bar(words="", figure="per_s", limit=2.0, least=True, against=("saq", "huey"), at_least_once=True)
    figures = {"atf": {"per_s": 100.0}, "saq": {"per_s": 20.0}, "huey": {"per_s": 80.0}}
    systems = {name: {"median": each, "rounds": [each]} for name, each in figures.items()}
    assert bar.reached(systems, {"saq"}) == (5.0, True, [5.0])
    assert bar.reached(systems, {"saq", "huey"}) == (1.25, False, [1.25])
    assert bar.reached(systems) is None, "nobody was killed yet"


def test_a_full_result_has_all_rounds_of_the_best_that_is_safe_too() -> None:
    sizes, bar = (
        Sizes(),
        Bar(words="", figure="per_s", limit=5.0, least=True, against=("saq", "huey"), at_least_once=True),
    )

    def full(saq: int, huey: int, safe: set[str]) -> bool:
        given = [("atf", 9.0)] * 5 + [("saq", 3.0)] * saq + [("huey", 8.0)] * huey
        rounds = [one(name, {"per_s": value}, sizes={"tasks": sizes.tasks}) for name, value in given]
        return bool(results.result(question(bars=(bar,)), sizes, 5, rounds, safe)["full"])

    assert full(saq=1, huey=5, safe=set())
    assert not full(saq=1, huey=5, safe={"saq"})
    assert full(saq=5, huey=5, safe={"saq"})


def test_where_every_system_decides_something_all_have_their_rounds() -> None:
    sizes = Sizes()
    given = [("atf", 9.0)] * 5 + [("saq", 3.0)] * 5 + [("huey", 1.0)]
    rounds = [one(name, {"per_s": value}, sizes={"tasks": sizes.tasks}) for name, value in given]
    assert results.result(question(), sizes, 5, rounds)["full"]
    assert not results.result(question(every=True), sizes, 5, rounds)["full"]


def test_without_a_round_in_common_there_is_no_ratio() -> None:
    bar = Bar(words="", figure="per_s", limit=2.0, least=True, against=("saq",))
    rounds = [one("atf", {"per_s": 9.0}, round=1), one("saq", {"per_s": 3.0}, round=2)]
    assert bar.reached(results.result(question(), SIZES, 1, rounds)["systems"]) is None


def test_a_bar_may_be_of_another_system_than_atf() -> None:
    bar = Bar(words="", figure="cpu_us.store", limit=1.05, least=False, against=("floor-then",), of="floor")
    rounds = [one(name, {"cpu_us": {"store": us}}) for name, us in (("floor", 102.0), ("floor-then", 100.0))]
    asked = question(systems=("floor", "floor-then"))
    assert bar.reached(results.result(asked, SIZES, 1, rounds)["systems"]) == (1.02, True, [1.02])


def test_a_full_result_has_all_rounds_of_those_that_bars_compare_with_huey_among_them() -> None:
    sizes = Sizes()
    bar = Bar(words="", figure="per_s", limit=5.0, least=True, against=("saq", "huey"))

    def full(huey: int) -> bool:
        given = [("atf", 9.0)] * 5 + [("saq", 3.0)] * 5 + [("huey", 8.0)] * huey
        rounds = [one(name, {"per_s": value}, sizes={"tasks": sizes.tasks}) for name, value in given]
        return bool(results.result(question(bars=(bar,)), sizes, 5, rounds)["full"])

    assert not full(huey=1)
    assert full(huey=5)


def test_a_full_result_has_all_rounds_of_the_one_that_a_bar_judges() -> None:
    sizes = Sizes()
    bar = Bar(words="", figure="us", limit=1.05, least=False, against=("floor-then",), of="floor")
    asked = question(bars=(bar,), systems=("floor", "floor-then", "atf"))

    def full(floor: int) -> bool:
        given = [("atf", 1.0)] * 5 + [("floor-then", 9.0)] * 5 + [("floor", 8.0)] * floor
        rounds = [one(name, {"per_s": value, "us": 1.0}, sizes={"tasks": sizes.tasks}) for name, value in given]
        return bool(results.result(asked, sizes, 5, rounds)["full"])

    assert not full(floor=0)
    assert not full(floor=1)
    assert full(floor=5)


def test_a_measurement_is_told_on_one_line() -> None:
    asked = question(also=("scheduled_per_s", "cpu_us"))
    figures = {"per_s": 12345.0, "scheduled_per_s": 2.0, "cpu_us": {"store": 1.0}, "never": 0, "twice": 3}
    assert told(asked, figures) == "per_s 12,345, scheduled_per_s 2, twice 3, tasks/s"
    assert told(asked, {}) == "no figure"


@pytest.mark.parametrize(("more", "way"), [(True, "many_per_s"), (False, "single_per_s")])
def test_a_peer_is_judged_by_one_way_in_all_rounds_and_atf_by_the_first(more: bool, way: str) -> None:
    # In each round the other one of a peer's ways is the faster: the medians decide, once.
    draws = [(10.0, 30.0), (40.0, 20.0), (10.0, 15.0)]
    asked = question(more=more, ways=("single_per_s", "many_per_s"))
    figures = [{"per_s": single, "single_per_s": single, "many_per_s": many} for single, many in draws]
    found = results.result(asked, SIZES, 3, [one(name, each) for name in ("atf", "saq") for each in figures])
    assert [each["per_s"] for each in found["systems"]["atf"]["rounds"]] == [10.0, 40.0, 10.0]
    assert [each["per_s"] for each in found["systems"]["saq"]["rounds"]] == [each[way] for each in figures]
    assert found["systems"]["saq"]["median"]["per_s"] == found["systems"]["saq"]["median"][way]


def test_a_peer_that_failed_has_no_way() -> None:
    found = results.result(question(ways=("single_per_s",)), SIZES, 1, [one("saq", error="it broke")])
    assert found["systems"]["saq"]["status"] == "failed: it broke"
