"""Results: what a handler returns comes back in the type of its annotation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

import atf
from atf.testing import Harness

app = atf.App("results")


@dataclass
class Order:
    number: int
    placed_at: datetime
    items: dict[str, float]


@app.task
def reorder(order: Order) -> Order:
    return Order(order.number + 1, order.placed_at + timedelta(days=1), order.items)


@app.task
def reverse(data: bytes) -> bytes:
    return data[::-1]


@app.task
def nothing() -> None:
    pass


@app.task
def unspeakable() -> object:
    return object()


def test_arguments_and_results_are_typed(h: Harness) -> None:
    order = Order(7, h.now, {"tea": 2.5})
    assert reorder.schedule(order).result() == Order(8, h.now + timedelta(days=1), {"tea": 2.5})


@pytest.mark.usefixtures("h")
def test_bytes_travel_as_they_are() -> None:
    assert reverse.schedule(b"\x00\xff\xfe").result() == b"\xfe\xff\x00"


@pytest.mark.usefixtures("h")
def test_none_is_a_result() -> None:
    assert nothing.schedule().result() is None


def test_what_json_cannot_hold_fails_for_good(h: Harness) -> None:
    handle = unspeakable.schedule()
    with pytest.raises(atf.TaskFailed, match="JSON can't hold"):
        handle.result()
    assert h.tasks(unspeakable)[0].attempts == 1
