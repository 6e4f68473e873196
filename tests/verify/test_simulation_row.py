"""The row of the simulation says what hardly occurred: a promise that nothing has put to the proof is not kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from atf.task import MOVES
from proof.chaos import frame
from proof.chaos.frame import ROOT, Trial, summarise
from proof.chaos.rows.simulation import ROWS, SEEDS, too_few, trial_of, unbroken
from proof.simulation import calls
from proof.simulation.__main__ import FEWEST
from proof.simulation.nemesis import KINDS
from proof.simulation.net import KINDS as NET_KINDS

FAULTS = dict.fromkeys((*KINDS, *NET_KINDS), FEWEST)
DONE = {move.name: FEWEST for move in MOVES}
WAYS = dict.fromkeys(calls.WAYS, FEWEST)


def figures(faults: dict[str, int], moves: dict[str, int], seeds: int, ways: dict[str, int] = WAYS) -> dict[str, Any]:
    made = {"seed": 1, "wrong": [], "tally": Counter[str](), "virtual_s": 120.0, "faults": faults, "moves": moves}
    made["calls"] = ways
    return {**summarise([trial_of(made)]), "seeds": seeds}


def test_all_that_occurred_often_enough_is_no_failure() -> None:
    assert too_few(figures(FAULTS, DONE, SEEDS)) == []


@pytest.mark.parametrize(
    ("faults", "moves", "said"),
    [
        ({**FAULTS, "kill store": FEWEST - 1}, DONE, "faults: kill store 19 times"),
        (
            {name: count for name, count in FAULTS.items() if name != "queues wiped"},
            DONE,
            "faults: queues wiped 0 times",
        ),
        (FAULTS, {**DONE, "claim": 0}, "moves: claim 0 times"),
    ],
)
def test_what_hardly_occurred_fails_a_full_run_only(faults: dict[str, int], moves: dict[str, int], said: str) -> None:
    assert [each.partition(": fewer")[0] for each in too_few(figures(faults, moves, SEEDS))] == [said]
    assert too_few(figures(faults, moves, SEEDS - 1)) == []


def test_a_call_that_was_hardly_disturbed_fails_a_full_run_too() -> None:
    seldom = {name: count for name, count in WAYS.items() if not name.startswith("store skip_key ")}
    seldom |= {f"store skip_key {fate}": 3 for fate in calls.FATES}
    assert too_few(figures(FAULTS, DONE, SEEDS, seldom)) == [
        f"disturbed: store skip_key 15 times: fewer than {FEWEST} mean nothing"
    ]


def test_a_call_that_did_not_occur_counts_0_and_fails_a_full_run() -> None:
    without = {name: count for name, count in WAYS.items() if not name.startswith("rpc get_task ")}
    found = figures(FAULTS, DONE, SEEDS, without)
    assert found["disturbed: rpc get_task"] == 0
    said = too_few(found)
    assert said[0] == f"disturbed: rpc get_task 0 times: fewer than {FEWEST} mean nothing"
    assert said[1:] == [f"ways: rpc get_task {fate} 0 times: nobody knows what comes of it" for fate in calls.FATES]


def test_a_call_that_was_never_done_and_reported_as_failed_fails_a_full_run() -> None:
    told = {name: 0 if name == "store set_results answer lost" else count for name, count in WAYS.items()}
    assert too_few(figures(FAULTS, DONE, SEEDS, told)) == [
        "ways: store set_results answer lost 0 times: nobody knows what comes of it"
    ]


def test_how_real_processes_are_tried_has_no_part_in_what_a_seed_means() -> None:
    for each in ROWS:
        assert each.harness == "proof/chaos/rows/simulation.py"
        assert (ROOT / each.harness).is_file()
        assert each.proof() != frame.proof(*each.also)


def test_a_stop_leaves_no_seed_out() -> None:
    found: dict[int, Trial] = {seed: {"failures": [], "seed": seed} for seed in (6, 5, 8)}
    assert [each["seed"] for each in unbroken(found, 5)] == [5, 6]
    assert unbroken(found, 7) == []
