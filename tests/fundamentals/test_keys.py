"""Keys: scheduling twice under one key makes one task. Ordering keys: one after another, in the order of acceptance."""

from __future__ import annotations

import asyncio

import pytest

import atf
from atf.testing import Harness

app = atf.App("keys")
events: list[str] = []


@app.task
def charge(customer: str, cents: int) -> None:
    events.append(f"{customer} {cents}")


@app.task
async def step(name: str, seconds: float) -> None:
    events.append(f"{name} starts")
    await asyncio.sleep(seconds)
    events.append(f"{name} ends")


@pytest.fixture(autouse=True)
def _no_events() -> None:
    events.clear()


def test_the_same_call_under_one_key_is_one_task(h: Harness) -> None:
    first = charge.options(key="invoice-7").schedule("anna", 100)
    again = charge.options(key="invoice-7").schedule("anna", 100)
    assert first.id == again.id
    assert h.run_until_idle() == 1
    assert charge.options(key="invoice-7").schedule("anna", 100).status() is atf.Status.SUCCESS
    assert h.run_until_idle() == 0
    assert events == ["anna 100"]


def test_another_call_under_a_key_in_use_is_refused(h: Harness) -> None:
    charge.options(key="invoice-7").schedule("anna", 100)
    with pytest.raises(atf.AlreadyExists):
        charge.options(key="invoice-7").schedule("anna", 999)


def test_tasks_of_one_ordering_key_run_one_after_another(h: Harness) -> None:
    for name in ("first", "second", "third"):
        step.options(ordering_key="anna").schedule(name, 10)
    h.run_until_idle()
    assert events == [f"{name} {what}" for name in ("first", "second", "third") for what in ("starts", "ends")]


def test_tasks_of_different_keys_do_not_wait_for_each_other(h: Harness) -> None:
    step.options(ordering_key="anna").schedule("long", 10)
    step.options(ordering_key="bert").schedule("short", 1)
    h.run_until_idle()
    assert events == ["long starts", "short starts", "short ends", "long ends"]


def test_of_a_concurrency_key_so_many_run_at_once(h: Harness) -> None:
    for name in ("first", "second", "third"):
        step.options(concurrency_key=atf.Concurrency("anna", limit=2)).schedule(name, 10)
    h.run_until_idle()
    assert sorted(events[:2]) == ["first starts", "second starts"]
    assert events.index("third starts") > min(events.index("first ends"), events.index("second ends"))


def test_of_a_unique_key_there_is_one_task_in_a_window(h: Harness) -> None:
    once = charge.options(unique=atf.Unique("anna", window=60))
    first, again = once.schedule("anna", 100), once.schedule("anna", 200)
    assert first.id == again.id
    h.run_until_idle()
    assert events == ["anna 100"]


def test_a_task_may_be_put_off_until_calls_have_ceased(h: Harness) -> None:
    later = charge.options(unique=atf.Unique("anna", window=60, policy="debounce"))
    later.schedule("anna", 100)
    h.advance(59)
    later.schedule("anna", 200)
    h.advance(59)
    assert events == []
    h.advance(1)
    assert events == ["anna 200"]


@app.task(stop_on_fatal=True)
def strict(ctx: atf.Context, name: str) -> None:
    events.append(name)
    if name == "bad" and ctx.run == 1:
        raise atf.Fatal("no such account")


def test_a_key_stops_where_a_task_fails_for_good(h: Harness) -> None:
    for name in ("bad", "good"):
        strict.options(ordering_key="anna").schedule(name)
    h.run_until_idle()
    (key,) = h.client.stopped_keys("keys/strict")
    assert (key.key, key.unfinished, events) == ("anna", 1, ["bad"])
    h.client.resume_key("keys/strict", "anna", key.task_id)
    h.run_until_idle()
    assert events == ["bad", "bad", "good"]
