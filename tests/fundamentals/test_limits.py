"""Limits: how many tasks of a lambda go out in a second, and how many run at once."""

from __future__ import annotations

import atf
from atf.testing import Harness

app = atf.App("limits")


@app.task(rate=2)
def call_partner() -> None: ...


@app.task(max_running=2)
async def report() -> None: ...


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
