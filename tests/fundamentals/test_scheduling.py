"""Scheduling: a task runs once, when it is due, never earlier."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import atf
from atf.testing import Harness

app = atf.App("scheduling")
calls: list[tuple[datetime, str]] = []


@app.task
def greet(ctx: atf.Context, name: str, *, greeting: str = "hello") -> str:
    calls.append((ctx.scheduled_at, name))
    return f"{greeting}, {name}"


@pytest.fixture(autouse=True)
def _nobody_called() -> None:
    calls.clear()


@pytest.mark.usefixtures("h")
def test_a_task_runs_as_soon_as_it_can() -> None:
    handle = greet.schedule("anna", greeting="good day")
    assert handle.result() == "good day, anna"
    assert calls == [(datetime(2026, 1, 1, tzinfo=UTC), "anna")]


def test_a_lambda_is_still_the_function_it_was() -> None:
    with Harness(app) as h:
        assert greet("bert") == "hello, bert"
        assert h.tasks() == []


def test_a_delay_ends_on_the_microsecond(h: Harness) -> None:
    handle = greet.options(delay=30).schedule("anna")
    h.advance(29.999_999)
    assert handle.status() is atf.Status.NEW
    assert calls == []
    h.advance(0.000_001)
    assert handle.status() is atf.Status.SUCCESS
    assert h.tasks(greet)[0].finished_at == datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


def test_a_task_may_name_an_instant(h: Harness) -> None:
    at = h.now + timedelta(days=3)
    greet.options(at=at).schedule("anna")
    h.advance(timedelta(days=3) - timedelta(microseconds=1))
    assert calls == []
    h.advance(timedelta(microseconds=1))
    assert calls == [(at, "anna")]


def test_an_instant_in_the_past_means_now(h: Harness) -> None:
    greet.options(at=h.now - timedelta(days=1)).schedule("anna")
    assert h.run_until_idle() == 1


def test_tasks_run_in_the_order_in_which_they_fall_due(h: Harness) -> None:
    for name, delay in (("third", 30), ("first", 10), ("second", 20)):
        greet.options(delay=delay).schedule(name)
    h.advance(60)
    assert [name for _, name in calls] == ["first", "second", "third"]


def test_wrong_arguments_fail_at_the_caller(h: Harness) -> None:
    with pytest.raises(TypeError, match="name"):
        greet.schedule(nmae="anna")  # type: ignore[call-arg]
    assert h.tasks() == []


def test_many_tasks_travel_together(h: Harness) -> None:
    handles = h.client.schedule_many([greet.prepare(str(each)) for each in range(50)])
    assert h.run_until_idle() == 50
    assert [handle.result() for handle in handles] == [f"hello, {each}" for each in range(50)]
