"""The page of results says what was measured, and of what was not run that it was not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proof.chaos import frame
from proof.chaos.frame import Row
from tools import fuzz as fuzz_tool, reliability_front, rolling_upgrade
from tools.draw_reliability import END, START, beside, measured, proofs, put, table

CODE = "fedcba987654"
FOUND: dict[str, Any] = {
    "row": "b",
    "what": "this, then",
    "bar": "that, then",
    "status": "ok",
    "done": 3,
    "full": 9,
    "failures": [],
    "date": "2030-01-02",
    "commit": "0123456789ab",
    "code": CODE,
    "dirty": False,
    "cores": 2,
    "memory_mib": 8192,
    "kernel": "Linux 6",
    "python": "3.11",
    "server": "valkey | 9",
    "figures": {"acknowledged": 1234, "lost": 0, "stuck": 0, "dead": 2, "x_s": {"p50": 1, "p99": 2, "max": 3, "n": 4}},
}


CONTRACT: dict[str, Any] = {
    "row": "contract",
    "status": "ok",
    "at": "2030-01-02T03:04:05+00:00",
    "commit": "0123456789ab",
    "code": CODE,
    "proof": "c",
    "dirty": False,
    "figures": {"too_slow": 0, "calls": 1234},
    "tests": {"fake": {"passed": 3, "skipped": 1}, "embedded": {"passed": 4}},
    "slowest": [{"ms": 7.25}],
    "limit_ms": 20.0,
    "failures": [],
}
FUZZ: dict[str, Any] = {
    "what": "fuzz",
    "verdict": "ok",
    "at": "2030-01-02T03:04:05+00:00",
    "commit": "0123456789ab",
    "code": CODE,
    "proof": "f",
    "dirty": True,
    "examples": 2000,
    "tests": 723,
    "failed": [],
}
UPGRADE: dict[str, Any] = {
    **rolling_upgrade.result(
        {"accepted": 1234, "failed": 0, "errors": [], "first_attempt": 1234, "losses": 0, "exit_codes": [0] * 8}, []
    ),
    "at": "2030-01-02T03:04:05+00:00",
    "commit": "0123456789ab",
    "code": CODE,
    "proof": "u",
    "dirty": False,
    "from": "a copy of it",
    "rate": 50.0,
}


NOW = {"contract": (CODE, "c"), "fuzz": (CODE, "f"), "upgrade": (CODE, "u")}


def row(name: str) -> Row:
    async def run(*_: Any) -> list[Any]:
        return []

    return Row(name=name, what="this", bar="that", full=9, batch=1, run=run)


def test_a_row_without_a_result_says_so() -> None:
    line = table([row("a")], {}, CODE).splitlines()[-1]
    assert line == "| `a` | this | that | 0 of 9 | – | not run: no result is recorded | – |"


def test_a_row_shows_its_figures_and_its_machine() -> None:
    text = table([row("b")], {"b": [FOUND]}, CODE)
    assert (
        "| `b` | this, then | that, then | 3 of 9 | 1,234 tasks; lost 0, dead 2; x 1.00 / 2.00 / 3.00 s | ok so far, 3 of 9 "
        "| 2030-01-02, 01234567, code fedcba98, machine 1 |" in text
    )
    assert text.endswith("1. 2 cores, 8 GiB, Linux 6, Python 3.11; valkey | 9")


def test_a_full_result_is_ok() -> None:
    assert "| ok |" in table([row("b")], {"b": [{**FOUND, "done": 9}]}, CODE)


def test_a_result_of_other_code_than_now_says_so() -> None:
    assert "| ok, of older code |" in table([row("b")], {"b": [{**FOUND, "done": 9}]}, "0123")
    failed = {**FOUND, "status": "failed", "failures": ["too late"]}
    assert "| **failed**: too late, of older code |" in table([row("b")], {"b": [failed]}, "0123")


def of(status: str, at: str, **more: Any) -> dict[str, Any]:
    """A full result, by default; where it has failed, with what."""
    failures = ["too late"] if status == "failed" else []
    return {**FOUND, "status": status, "at": at, "date": at, "done": 9, "full": 9, "failures": failures, **more}


def shown(*results: dict[str, Any]) -> str:
    return table([row("b")], {"b": results}, CODE).splitlines()[2].split(" | ")[5]


def test_full_runs_of_the_same_code_that_failed_stand_beside_the_one_that_counts() -> None:
    failed = of("failed", "2030-01-01")
    said = "**failed**: too late (2030-01-01, 01234567)"
    assert shown(failed, of("ok", "2030-01-02")) == f"ok; 1 of 2 full runs of this code failed: {said}"
    assert shown(failed, of("failed", "2030-01-02")).endswith(f"too late; 2 of 2 full runs of this code failed: {said}")
    assert shown({**failed, "code": "other"}, of("ok", "2030-01-02")) == "ok"


def test_a_newer_run_that_failed_stands_beside_the_full_one_that_counts() -> None:
    newer = [of("failed", f"2030-01-0{day}", done=4, code="other") for day in (1, 3, 4)]
    assert shown(*newer[:1], of("ok", "2030-01-02")) == "ok"
    said = "**failed**: too late (2030-01-04, 01234567)"
    assert shown(*newer[2:], of("ok", "2030-01-02")) == f"ok; a newer run of 4 trials {said}"
    assert shown(*newer, of("ok", "2030-01-02")) == f"ok; a newer run of 4 trials (and 1 before it) {said}"
    assert shown(of("ok", "2030-01-04", done=4), of("ok", "2030-01-02")) == "ok"
    mended = of("ok", "2030-01-05", done=4, code="other")
    after = "after it a run of 4 trials was ok (2030-01-05, 01234567)"
    assert shown(*newer[2:], mended, of("ok", "2030-01-02")) == f"ok; a newer run of 4 trials {said}; {after}"


@pytest.mark.parametrize(
    ("status", "shown"),
    [("failed", "**failed**: too late; too long"), ("not run: no compiler", "not run: no compiler")],
)
def test_what_did_not_go_well_is_told(status: str, shown: str) -> None:
    found = {**FOUND, "status": status, "failures": ["too late", "too long"]}
    assert f"| {shown} |" in table([row("b")], {"b": [found]}, CODE)


def test_a_rate_is_no_time() -> None:
    assert measured({"scheduled_per_s": {"p50": 499.6, "p99": 1, "max": 1, "n": 1}}) == "scheduled 500/s"


def test_of_a_group_of_counts_the_fewest_is_shown() -> None:
    figures = {"seeds": 3, "faults: kill store": 40, "faults: cut off": 20, "faults: freeze host": 1000}
    assert measured(figures) == "seeds 3, faults 1,060 of 3 kinds (fewest: cut off, 20)"


def test_nothing_measured_is_a_dash() -> None:
    assert measured({}) == "–"
    assert measured({"beside_busy_until_pushed_p95_s": {"p50": 1, "p99": 1, "max": 1, "n": 1}}) == "–"


def test_the_rest_of_the_page_stays() -> None:
    assert put(f"a\n{START}\nold\n{END}\nb\n", "new") == f"a\n{START}\nnew\n{END}\nb\n"
    with pytest.raises(SystemExit):
        put("no markers", "new")


def kept(folder: Path, **results: Any) -> Path:
    for name, result in results.items():
        (folder / f"{name}.json").write_text(json.dumps(result))
    return folder


def test_the_newest_contract_fuzz_and_upgrade_results_are_named_by_themselves(tmp_path: Path) -> None:
    assert beside(tmp_path, NOW) == [
        f"- `make {name}`: not run: no result is recorded" for name in ("contract", "fuzz", "upgrade")
    ]
    later = "2030-01-03T00:00:00+00:00"
    kept(tmp_path, a=CONTRACT, b={**CONTRACT, "at": later}, c=FUZZ, d={**FUZZ, "at": "2030-01-01"}, e=FOUND, f=UPGRADE)
    contract, fuzz, upgrade = beside(tmp_path, NOW)
    assert contract == (
        "- `make contract`: ok; 7 tests passed, 0 failed, of 1,234 calls the slowest took 7.2 ms, 0 functions too slow (the bar is"
        " 20 ms); 2030-01-03, 01234567: `b.json`"
    )
    assert fuzz == (
        "- `make fuzz`: ok; 723 tests passed, 0 failed, 2,000 examples of each fuzz test; 2030-01-02, 01234567, with changes:"
        " `c.json`"
    )
    assert upgrade == (
        "- `make upgrade`: ok; 8 times a role was replaced, by this code from a copy of it and back, under 50 tasks a second: 1,234 tasks,"
        " 1,234 with their first attempt, 0 failed, 0 losses; 2030-01-02, 01234567: `f.json`"
    )


def test_a_contract_or_a_fuzz_that_failed_says_of_what(tmp_path: Path) -> None:
    acl = {"embedded": {"passed": 2, "failed": 1}}
    failed = {**CONTRACT, "status": "failed", "failures": ["too late", "too long"], "acl": acl}
    contract, fuzz, _ = beside(kept(tmp_path, a=failed, b={**FUZZ, "verdict": "failed", "failed": ["x::y"]}), NOW)
    assert (
        "**failed**: too late; too long; 7 tests passed, 0 failed, as the user that ships 2 tests passed, 1 failed,"
        in contract
    )
    assert "**failed**: x::y; 722 tests passed, 1 failed," in fuzz


def test_an_upgrade_that_broke_down_says_so(tmp_path: Path) -> None:
    broken = {**UPGRADE, **rolling_upgrade.result({}, ["it broke down: TimeoutError: "]), "code": "other"}
    *_, upgrade = beside(kept(tmp_path, a=broken), NOW)
    assert upgrade.startswith("- `make upgrade`: **failed**: it broke down: TimeoutError: , of older code; 0 times")


def test_a_contract_and_a_fuzz_say_whether_they_are_of_other_code_or_of_another_suite(tmp_path: Path) -> None:
    kept(tmp_path, a={**CONTRACT, "proof": "other"}, b={**FUZZ, "code": "other", "proof": "other"})
    contract, fuzz, _ = beside(tmp_path, NOW)
    assert contract.startswith("- `make contract`: ok, of an older suite; 7 tests")
    assert fuzz.startswith("- `make fuzz`: ok, of older code; 723 tests")
    without = {name: value for name, value in FUZZ.items() if name not in {"code", "proof", "dirty"}}
    _, fuzz, _ = beside(kept(tmp_path, b={**without, "changed_files": 1}), NOW)
    assert "ok, of older code; 723 tests" in fuzz
    assert ", with changes:" in fuzz


@pytest.mark.processes
def test_what_is_held_beside_the_rows_is_known_by_the_product_and_its_own_suite() -> None:
    now = proofs()
    assert {code for code, _ in now.values()} == {frame.code()}
    assert now["fuzz"][1] == fuzz_tool.circumstances()["proof"]
    assert len({proof for _, proof in now.values()} | {frame.proof()}) == 4


def test_the_opening_page_shows_what_was_lost_and_how_long_tasks_waited() -> None:
    figures = {"acknowledged": 1200, "lost": 0, "concurrent": 0, "early": 0, "forgiven": 7}
    wait = {"start_s": {"p50": 16.0, "p99": 16.1, "max": 16.2}}
    found = {"done": 20, "status": "ok", "figures": {**figures, **wait}}
    page = reliability_front.table({"power-loss-everysec": [{}, found]})
    assert "| 20 | 1,200 | 0, and 7 that the store forgot | 0 | 0 | 16.0 / 16.2 s |" in page
    assert "| an executor is killed | `kill-executor` | not run | – |" in page
    assert "the store is killed" in reliability_front.picture({"store-killed": [{"figures": wait}]})


def test_a_failed_result_is_shown_as_one_on_the_opening_page() -> None:
    found = {"done": 3, "status": "failed", "figures": {"lost": 1}}
    assert "| 3, **failed** | 0 | 1 | 0 | 0 | – |" in reliability_front.table({"ordinary-life": [found]})


def test_every_trial_of_the_opening_page_is_a_row() -> None:
    assert {each.row for each in reliability_front.TRIALS} <= set(frame.all_rows())
