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


def test_a_key_may_be_an_order_number_or_a_url(h: Harness) -> None:
    for key in ("order:2024/17.3", "https://shop.example/a?b=c d", "anna müller {1}"):
        first = charge.options(key=key).schedule("anna", 100)
        assert charge.options(key=key).schedule("anna", 100).id == first.id
        step.options(ordering_key=key, concurrency_key=key, unique=atf.Unique(key, "1m")).schedule(key, 10)
        behind = step.options(ordering_key=key).schedule(f"second {key}", 10)
        h.advance(5)
        assert atf.default_client().explain(behind.id).reason == "behind"
        h.run_until_idle()
        assert events[-1] == f"second {key} ends"


@pytest.mark.usefixtures("h")
def test_another_call_under_a_key_in_use_is_refused() -> None:
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


def test_the_task_of_a_window_is_found_after_its_end_too_and_the_next_window_has_one_of_its_own(h: Harness) -> None:
    once = charge.options(unique=atf.Unique("anna", window=60))
    first = once.schedule("anna", 100)
    h.advance(59)
    assert once.schedule("anna", 200).status() is atf.Status.SUCCESS
    h.advance(1)
    assert once.schedule("anna", 300).id != first.id
    h.run_until_idle()
    assert events == ["anna 100", "anna 300"]


def test_a_task_may_be_put_off_until_calls_have_ceased(h: Harness) -> None:
    later = charge.options(unique=atf.Unique("anna", window=60, policy="debounce"))
    later.schedule("anna", 100)
    h.advance(59)
    later.schedule("anna", 200)
    h.advance(59)
    assert events == []
    h.advance(1)
    assert events == ["anna 200"]
    later.schedule("anna", 300)
    h.advance(60)
    assert events == ["anna 200", "anna 300"]


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


def test_a_key_that_has_stopped_goes_on_without_the_task_that_stopped_it_where_that_is_skipped(h: Harness) -> None:
    bad, good = (strict.options(ordering_key="anna").schedule(name) for name in ("bad", "good"))
    strict.options(ordering_key="bert").schedule("other")
    h.run_until_idle()
    assert (events, good.status()) == (["bad", "other"], atf.Status.NEW)
    assert h.client.explain(good.id).reason == "key_stopped"
    h.client.skip_key("keys/strict", "anna", bad.id)
    h.run_until_idle()
    assert events == ["bad", "other", "good"]
    assert bad.status() is atf.Status.FATAL_FAILURE
    assert not h.client.stopped_keys("keys/strict")
