"""Priorities: of what is due, the more urgent goes first."""

from __future__ import annotations

import pytest

import atf
from atf.testing import Harness

app = atf.App("priorities")
order: list[str] = []


@app.task
def work(name: str) -> None:
    order.append(name)


@app.task(priority="high")
def urgent(name: str) -> None:
    order.append(name)


@app.task(shares={"low": 0.2})
def shared(name: str) -> None:
    order.append(name)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    order.clear()


def test_high_goes_before_normal_before_low(h: Harness) -> None:
    for priority in ("low", "normal", "high"):
        for number in range(3):
            work.options(priority=priority).schedule(f"{priority} {number}")
    h.run_until_idle()
    assert order == [f"{priority} {number}" for priority in ("high", "normal", "low") for number in range(3)]


def test_a_flood_of_urgent_tasks_leaves_the_others_their_share(h: Harness) -> None:
    for number in range(1000):
        shared.options(priority="high").schedule(f"high {number}")
    for number in range(300):
        shared.options(priority="low").schedule(f"low {number}")
    h.run_until_idle()
    low = [name.startswith("low") for name in order]
    # In an answer the urgent ones go first; so the share holds wherever one ends, until there are no urgent ones left.
    ends = [place + 1 for place in range(1000) if low[place] and not low[place + 1]]
    assert len(ends) >= 3
    assert [sum(low[:end]) for end in ends] == [pytest.approx(0.2 * end, abs=3) for end in ends]
    assert (len(low), sum(low)) == (1300, 300)


def test_a_lambda_may_have_a_priority_of_its_own(h: Harness) -> None:
    work.schedule("work")
    urgent.schedule("urgent")
    h.run_until_idle()
    assert order == ["urgent", "work"]


def test_a_call_outweighs_the_lambda(h: Harness) -> None:
    work.schedule("work")
    urgent.options(priority=9).schedule("not so urgent")
    h.run_until_idle()
    assert order == ["work", "not so urgent"]


@pytest.mark.usefixtures("h")
def test_there_are_ten_of_them() -> None:
    with pytest.raises(atf.InvalidArgument, match="priority"):
        work.options(priority=10)
