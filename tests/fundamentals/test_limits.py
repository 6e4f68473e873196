"""Limits: how many tasks of a lambda go out in a second, and how many run at once."""

from __future__ import annotations

import asyncio

import pytest

import atf
from atf.testing import Harness

app = atf.App("limits")


@app.task(rate=2)
def call_partner() -> None: ...


@app.task(max_running=2)
async def report() -> None: ...


running: list[int] = [0]
"""How many tasks of `slow` run, whenever one starts or ends."""


@app.task(max_running=3)
async def slow() -> None:
    running.append(running[-1] + 1)
    await asyncio.sleep(1)
    running.append(running[-1] - 1)


@pytest.fixture(autouse=True)
def _none_runs() -> None:
    running[:] = [0]


def test_a_flood_goes_out_at_the_rate(h: Harness) -> None:
    handles = [call_partner.schedule() for _ in range(10)]

    def done() -> int:
        return sum(each.status() is atf.Status.SUCCESS for each in handles)

    h.advance(2)
    assert 4 <= done() <= 6
    h.advance(2)
    assert 8 <= done() <= 10
    assert h.client.explain(handles[-1].id).reason in {"rate", "finished"}
    h.advance(2)
    assert done() == 10


def test_what_has_to_wait_runs_when_another_one_has_ended(h: Harness) -> None:
    handles = [report.schedule() for _ in range(5)]
    assert h.run_until_idle() == 5
    assert {each.status() for each in handles} == {atf.Status.SUCCESS}


def test_an_operator_changes_a_limit(h: Harness) -> None:
    h.client.set_lambda("limits/call_partner", {"rate": 1000})
    handles = [call_partner.schedule() for _ in range(10)]
    h.advance(1)
    assert all(each.status() is atf.Status.SUCCESS for each in handles)


def test_a_limit_holds_over_all_partitions_and_executors() -> None:
    with Harness(app, partitions=3, executors=2) as h:
        for _ in range(12):
            slow.schedule()
        h.run_until_idle()
    assert (max(running), len(running)) == (3, 25)


def test_a_limit_below_what_runs_ends_nothing_and_waits(h: Harness) -> None:
    handles = [slow.schedule() for _ in range(6)]
    h.advance(0.5)
    h.client.set_lambda("limits/slow", {"max_running": 1})
    h.advance(0.4)
    assert running[-1] == 3
    h.run_until_idle()
    assert {h.client.get(each.id).runs for each in handles} == {1}
    assert running == [0, 1, 2, 3, 2, 1, 0, *[1, 0] * 3]
