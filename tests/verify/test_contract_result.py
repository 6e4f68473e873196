"""`make contract` is ok where slow logs of every server were judged, and nowhere else."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proof.chaos import frame
from tools import contract

TESTS = {name: Counter(passed=3) for name in ("none", "fake", "embedded", "redis-7.0")}
WHERE = ("embedded", "redis-7.0", "cluster@0", "sentinel@1", "processes")
SHIPPED = contract.ContractRun(True, {name: Counter(passed=2) for name in WHERE}, [])
"""The pass as the user that ships."""
FULL: dict[str, Any] = {"version": "some 1", "calls": 9, "noted": [[600, "atf_1_ab_claim"], [900, "atf_1_ab_claim"]]}
BOTH = [{**FULL, "backend": "valkey-server"}, {**FULL, "backend": "redis-7.0"}]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "circumstances", lambda *_also, harness: {"cores": 2, "harness": harness})
    monkeypatch.delenv("ATF_TEST_SERVERS", raising=False)


def judged(
    tests: Any,
    *noted: Any,
    limit_us: int = 1000,
    passed: bool = True,
    acl: contract.ContractRun = SHIPPED,
    not_run: dict[str, str] | None = None,
) -> dict[str, Any]:
    """`noted`: of each run."""
    runs = [contract.ContractRun(passed, tests, each) for each in noted]
    return contract.judged(runs, limit_us, acl=acl, not_run=not_run or {})


def test_every_server_was_judged() -> None:
    found = judged(TESTS, BOTH)
    assert (found["status"], found["figures"]["calls"], found["failures"]) == ("ok", 18, [])
    assert found["slowest"][0] == {"server": "some 1", "function": "claim", "ms": 0.9}


@pytest.mark.parametrize(
    ("noted", "said"),
    [
        ([], ["embedded", "redis-7.0"]),
        ([{**each, "calls": 0} for each in BOTH], ["embedded", "redis-7.0"]),
        (BOTH[:1], ["redis-7.0"]),
        (BOTH[1:], ["embedded"]),
    ],
)
def test_without_a_slow_log_nothing_was_judged(noted: list[dict[str, Any]], said: list[str]) -> None:
    found = judged(TESTS, noted)
    assert found["status"] == "failed"
    assert found["failures"] == [f"{server}: no slow log tells of a call: nothing was judged" for server in said]


def test_a_server_that_is_missing_is_not_ok() -> None:
    tests = {name: count for name, count in TESTS.items() if name != "redis-7.0"}
    found = judged(tests, BOTH[:1], not_run={"Redis 7.0": "no network"})
    assert (found["status"], found["failures"]) == ("not run: Redis 7.0: no network", [])
    assert judged(tests, BOTH[:1], passed=False, not_run={"Redis 7.0": "no network"})["status"] == "failed"


def test_what_is_too_slow_fails() -> None:
    found = judged(TESTS, BOTH, limit_us=800)
    assert found["failures"] == ["some 1: claim took 0.9 ms, the bar is 0.8 ms"]
    assert (found["figures"]["too_slow"], found["figures"]["interrupted"]) == (1, 0)


def noted(claim_us: int, finish_us: int) -> list[dict[str, Any]]:
    """What a run notes of two functions."""
    return [{**each, "noted": [[claim_us, "atf_1_ab_claim"], [finish_us, "atf_1_ab_finish"]]} for each in BOTH]


def test_what_is_too_slow_once_is_an_interruption_and_what_is_so_in_two_runs_is_not() -> None:
    found = judged(TESTS, noted(700, 9000), noted(9000, 890), noted(800, 700), limit_us=800)
    assert found["failures"] == ["some 1: finish took 0.9 ms, the bar is 0.8 ms"]
    assert (found["figures"]["runs"], found["figures"]["too_slow"], found["figures"]["interrupted"]) == (3, 1, 1)
    assert "no function's slowest call takes more than 0.8 ms" in found["bar"]
    calm = judged(TESTS, noted(700, 9000), noted(9000, 700), noted(700, 700), limit_us=800)
    assert (calm["status"], calm["figures"]["interrupted"]) == ("ok", 2)
    gone = judged(TESTS, noted(900, 1), noted(900, 1), [{**each, "noted": []} for each in BOTH], limit_us=800)
    assert gone["status"] == "failed", "also where the last run noted nothing of it"


@pytest.mark.parametrize(
    ("runs", "more"),
    [
        ([noted(1, 1)], False),
        ([noted(900, 1)], True),
        ([noted(900, 1), noted(1, 1)], True),
        ([noted(900, 1), noted(1, 900)], True),
        ([noted(900, 1), noted(900, 1)], False),
        ([noted(900, 1), noted(1, 1), noted(1, 900)], False),
    ],
)
def test_the_tests_run_again_for_as_long_as_that_tells_more(runs: list[list[dict[str, Any]]], more: bool) -> None:
    assert contract.undecided([contract.ContractRun(True, TESTS, each) for each in runs], 800) is more
    assert not contract.undecided([contract.ContractRun(False, TESTS, each) for each in runs], 800), "they have failed"


def test_the_pass_as_the_user_that_ships_counts() -> None:
    assert judged(TESTS, BOTH)["acl"] == {name: {"passed": 2} for name in WHERE}
    refused = judged(TESTS, BOTH, acl=SHIPPED._replace(passed=False))
    assert refused["failures"] == ["tests failed as the user that ships: see above"]
    for count in (Counter[str](), Counter(skipped=2)):
        nothing = judged(TESTS, BOTH, acl=SHIPPED._replace(tests=dict.fromkeys(WHERE, count)))
        where = ("embedded", "redis-7.0", "cluster", "sentinel", "processes")
        assert nothing["failures"] == [f"{each}: no test ran as the user that ships" for each in where]


def test_that_pass_has_every_real_server_and_mode_and_processes_and_no_slow_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[list[str], dict[str, str]]] = []

    def pytest_run(words: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append((words, env))
        report = next(each for each in words if each.startswith("--junitxml=")).partition("=")[2]
        cases = "".join(f'<testcase name="{each}"/>' for each in ("a[cluster@0-20]", "b[open-1]", "c"))
        Path(report).write_text(f"<x>{cases}</x>", encoding="utf-8")
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", pytest_run)
    monkeypatch.setenv("ATF_TEST_SERVERS", "cluster")
    contract.run()
    found = contract.run(restricted=True)
    assert (found.passed, found.tests["cluster@0"], found.tests["processes"]) == (True, {"passed": 1}, {"passed": 3})
    (_, free), (words, bound), (modes, named), (processes, too) = asked
    assert (free["ATF_TEST_SERVERS"], "ATF_TEST_ACL" in free, "ATF_TEST_CONTRACT" in free) == ("cluster", False, True)
    assert {each["ATF_TEST_ACL"] for each in (bound, named, too)} == {"1"}
    assert not {"ATF_TEST_CONTRACT"} & {*bound, *named, *too}
    assert (bound["ATF_TEST_SERVERS"], words[words.index("-k") + 1]) == ("", "not fake")
    assert (named["ATF_TEST_SERVERS"], modes[modes.index("-k") + 1]) == ("cluster:sentinel", "cluster or sentinel")
    assert contract.PROCESSES in processes


def test_the_oldest_server_is_missing_where_it_was_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contract.missing(tmp_path) == {"Redis 7.0": "it was not fetched"}
    (tmp_path / "why-not").write_text("no network\n")
    assert contract.missing(tmp_path) == {"Redis 7.0": "no network"}
    monkeypatch.setenv("ATF_TEST_SERVERS", "/somewhere/redis-server")
    assert contract.missing(tmp_path) == {}
    monkeypatch.delenv("ATF_TEST_SERVERS")
    (tmp_path / "redis-server").touch()
    assert contract.missing(tmp_path) == {}
