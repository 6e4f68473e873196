"""What the simulation says of a job's ticks: nothing where they are as they must be, and what is wrong where they are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from atf.task import US

from . import jobs
from .jobs import EVERY_S, REPEATS, Told, judge

BEGUN_US = 1_000_000_000
EVERY_US = EVERY_S * US
QUEUE_AND_ALL = next(
    each
    for each in range(3, 200, 5)
    if jobs.options_of(each)["overlap"] == "queue" and jobs.options_of(each)["misfire"] == "all"
)
QUEUE_AND_LATEST = next(
    each
    for each in range(3, 200, 5)
    if jobs.options_of(each)["overlap"] == "queue" and jobs.options_of(each)["misfire"] == "latest"
)


def tick(number: int, **changed: Any) -> Told:
    """The tick of a number, dealt with in time, as a task."""
    due_us = BEGUN_US + number * EVERY_US
    next_us = None if number == REPEATS else due_us + EVERY_US
    return Told(due_us + 1000, due_us, next_us, 0, "", due_us, f"1-j{number}")._replace(**changed)


def said(ticks: list[Told], seed: int = QUEUE_AND_ALL, **changed: Any) -> str:
    """What the judge says, in one piece."""
    numbers = {each.task_id: number for number, each in enumerate((each for each in ticks if each.task_id), 1)}
    server = SimpleNamespace(ticks=ticks, tick_numbers=numbers, firsts={})
    vars(server).update(changed)
    return "; ".join(judge(SimpleNamespace(seed=seed, server=server)))  # type: ignore[arg-type]


def test_ticks_that_follow_one_another_to_the_last_are_right() -> None:
    assert said([tick(number) for number in range(1, REPEATS + 1)]) == ""


def test_ticks_that_were_late_may_be_passed_over_if_the_job_says_so() -> None:
    late = tick(
        2, decided_us=tick(4).due_us + 1, passed_over=2, why="misfire", tick_us=tick(4).due_us, next_us=tick(5).due_us
    )
    assert said([tick(1), late, tick(5)], QUEUE_AND_LATEST) == ""
    assert "and the job wants all" in said([tick(1), late, tick(5)], QUEUE_AND_ALL)
    hasty = late._replace(decided_us=late.due_us + 5 * US)
    assert "it was not late" in said([tick(1), hasty, tick(5)], QUEUE_AND_LATEST)


@pytest.mark.parametrize(
    ("ticks", "words"),
    [
        ([tick(1), tick(1)], "follows one after which"),
        ([tick(1), tick(3)], "follows one after which"),
        ([tick(1, next_us=tick(3).due_us), tick(3)], "and 1 were dealt with"),
        ([tick(1, tick_us=BEGUN_US)], "became a task of"),
        ([tick(1, decided_us=tick(1).due_us - 1)], "before its time"),
        ([*map(tick, range(1, REPEATS - 1)), tick(REPEATS - 1, next_us=None)], "the job has ended with 11 tasks of 12"),
        ([tick(1, task_id="0-j1")], "in another partition"),
    ],
)
def test_a_tick_that_is_not_as_it_must_be_is_told(ticks: list[Told], words: str) -> None:
    assert words in said(ticks)


def test_a_tick_that_was_found_due_before_the_clock_was_set_back_is_not_early() -> None:
    due_us = tick(1).due_us
    args = ["", jobs.JOB, "1", str(due_us), "", "0", "", "0", str(due_us), str(due_us), "1-j1", "q", "spec", ""]
    (found,) = jobs.due([jobs.JOB, "1", str(due_us), "0", "", "", "0", "spec"])
    (before,) = jobs.told(args, [1], due_us - 1, {found: due_us})
    assert "before its time" not in said([before])
    (early,) = jobs.told(args, [1], due_us - 1, {})
    assert "before its time" in said([early])


def test_each_tick_becomes_one_task_with_the_next_number() -> None:
    ticks = [tick(1), tick(2)]
    assert "and their ticks are" in said(ticks, tick_numbers={"1-j1": 1, "1-j2": 3})
    assert "and their ticks are" in said(ticks, tick_numbers={"1-j1": 1, "1-j2": 2, "1-j3": 2})


def test_a_key_of_first_time_has_one_owner() -> None:
    right = {("a", "1-j1"): [True, True], ("a", "1-j2"): [False], ("b", "1-j3"): [True]}
    assert said([], firsts=right) == ""
    assert "more than one task" in said([], firsts=right | {("a", "1-j2"): [True]})
    assert "different things" in said([], firsts=right | {("a", "1-j1"): [True, False]})
    assert "nobody was the first" in said([], firsts={("a", "1-j1"): [False]})
