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
