"""Searching: a task is found by the arguments that its lambda declares, whoever has made it; and what is found can be acted on."""

from __future__ import annotations

from datetime import timedelta

import atf
from atf.testing import Harness

app = atf.App("searching")


@app.task(search=["order_id"])
def pay(order_id: int) -> int:
    return order_id


@app.task(search=["order_id"])
def ship(order_id: int) -> int:
    return order_id


def found(h: Harness, order_id: int) -> list[str]:
    return sorted(each.lambda_name for each in h.client.list(search={"order_id": str(order_id)}))


def test_a_task_is_found_by_its_arguments(h: Harness) -> None:
    handle = pay.schedule(7)
    pay.schedule(8)
    assert [each.id for each in h.client.list(search={"order_id": "7"})] == [handle.id]


def test_a_tick_of_a_job_is_found_and_so_is_its_extra_run(h: Harness) -> None:
    h.client.schedule_job("searching/nightly", pay.prepare(7), "@every 1h", repeats=2)
    h.advance(timedelta(hours=3))
    assert found(h, 7) == ["searching/pay"] * 2
    h.client.schedule_job("searching/later", pay.prepare(9), "@every 100h")
    h.client.run_job_now("searching/later")
    assert found(h, 9) == ["searching/pay"]


def test_items_and_callbacks_of_a_batch_are_found(h: Harness) -> None:
    pay.map([7, 8], on_success=pay.s(order_id=9), on_complete=ship.s(order_id=10)).wait()
    h.run_until_idle()
    assert [found(h, number) for number in (7, 8, 9)] == [["searching/pay"]] * 3
    assert found(h, 10) == ["searching/ship"]


def test_every_link_of_a_chain_is_found_by_what_it_was_handed(h: Harness) -> None:
    (pay.s(7) | ship.s()).submit()
    h.run_until_idle()
    assert found(h, 7) == ["searching/pay", "searching/ship"]


def test_what_is_found_can_be_cancelled(h: Harness) -> None:
    later = pay.options(delay=60).schedule(7)
    pay.options(delay=60).schedule(8)
    assert h.client.cancel_matching(search={"order_id": "7"}, dry_run=False).cancelled == 1
    assert later.status() is atf.Status.CANCELLED
    assert h.client.count("searching/*")["searching/pay"][atf.Status.NEW] == 1
