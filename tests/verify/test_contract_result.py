"""`make contract` is ok where slow logs of every server were judged, and nowhere else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import frame
from tools import contract

TESTS = {name: Counter(passed=3) for name in ("none", "fake", "embedded", "redis-7.0")}
FULL: dict[str, Any] = {"version": "some 1", "calls": 9, "noted": [[600, "atf_1_ab_claim"], [900, "atf_1_ab_claim"]]}
BOTH = [{**FULL, "backend": "valkey-server"}, {**FULL, "backend": "redis-7.0"}]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "circumstances", lambda *_also: {"cores": 2})
    monkeypatch.delenv("ATF_TEST_SERVERS", raising=False)


def judged(
    tests: Any, *noted: Any, limit_us: int = 1000, passed: bool = True, not_run: dict[str, str] | None = None
) -> dict[str, Any]:
    """`noted`: of each run."""
    return contract.judged([contract.Run(passed, tests, each) for each in noted], limit_us, not_run=not_run or {})


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


def test_what_is_too_slow_once_is_an_interruption_and_what_is_each_time_is_not() -> None:
    def run(claim_us: int, finish_us: int) -> list[dict[str, Any]]:
        return [{**each, "noted": [[claim_us, "atf_1_ab_claim"], [finish_us, "atf_1_ab_finish"]]} for each in BOTH]

    found = judged(TESTS, run(700, 9000), run(9000, 890), run(8000, 910), limit_us=800)
    assert found["failures"] == ["some 1: finish took 0.9 ms, the bar is 0.8 ms"]
    assert (found["figures"]["runs"], found["figures"]["too_slow"], found["figures"]["interrupted"]) == (3, 1, 2)
    calm = judged(TESTS, run(700, 9000), run(9000, 700), limit_us=800)
    assert (calm["status"], calm["figures"]["interrupted"]) == ("ok", 2)


def test_the_oldest_server_is_missing_where_it_was_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contract.missing(tmp_path) == {"Redis 7.0": "it was not fetched"}
    (tmp_path / "why-not").write_text("no network\n")
    assert contract.missing(tmp_path) == {"Redis 7.0": "no network"}
    monkeypatch.setenv("ATF_TEST_SERVERS", "/somewhere/redis-server")
    assert contract.missing(tmp_path) == {}
    monkeypatch.delenv("ATF_TEST_SERVERS")
    (tmp_path / "redis-server").touch()
    assert contract.missing(tmp_path) == {}
