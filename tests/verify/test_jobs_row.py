"""The row about jobs: its judge finds every way in which ticks may go wrong."""

from __future__ import annotations

import pytest

from proof.chaos.rows.jobs import judge
from proof.chaos.ticks import TickRun

FIRST_US = 1_000_000_000
RIGHT = [TickRun(0, 1, FIRST_US, FIRST_US + 1, 10), TickRun(0, 2, FIRST_US + 1_000_000, FIRST_US + 1_000_000, 11)]
"""Of a job that ticks every second."""


def said(runs: list[TickRun], made: int = 2, skipped: int = 0, settled_us: int = FIRST_US + 1_999_999) -> list[str]:
    found: list[str] = judge(runs, {0: made}, {0: skipped}, FIRST_US, settled_us)["failures"]
    return found


def test_ticks_that_ran_once_each_are_right() -> None:
    assert said(RIGHT) == []
    assert said([*RIGHT, RIGHT[1]]) == [], "a task may run again"


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([*RIGHT, RIGHT[1]._replace(task=12)], "more than one task"),
        (RIGHT[1:], "never ran"),
        ([*RIGHT, RIGHT[1]._replace(tick=3, due_us=FIRST_US + 2_000_000, at_us=FIRST_US + 2_000_000)], "no tick"),
        ([RIGHT[0]._replace(at_us=FIRST_US - 1), RIGHT[1]], "before their instant"),
        ([RIGHT[0], RIGHT[1]._replace(due_us=FIRST_US + 999_999)], "another instant"),
    ],
)
def test_what_is_wrong_is_said(runs: list[TickRun], says: str) -> None:
    (failure,) = said(runs)
    assert says in failure


def test_a_job_that_skipped_or_is_behind_is_wrong() -> None:
    assert "skipped" in said(RIGHT, skipped=1)[0]
    assert "behind" in said(RIGHT, settled_us=FIRST_US + 2_000_000)[0]
