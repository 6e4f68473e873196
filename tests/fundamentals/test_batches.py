"""Batches: a task for each of a list of arguments, with one handle for all of them; and what is built on their ends."""

from __future__ import annotations

from typing import Any

import pytest

import atf
from atf.testing import Harness

app = atf.App("batches")
told: list[dict[str, Any]] = []


@app.task(max_attempts=1)
def half(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


@app.task
def total(parts: list[int], more: int = 0) -> int:
    return sum(parts) + more


@app.task
def square(number: int) -> int:
    return number * number


@app.task
def report(batch: dict[str, Any], tag: str = "") -> None:
    told.append({**batch, "tag": tag})


@app.task
def countdown(ctx: atf.Context, number: int) -> int:
    assert ctx.batch is not None
    if number:
        ctx.batch.extend([number - 1])
    return number


@app.task
def crawl(ctx: atf.Context, url: str, host: str) -> str:
    assert ctx.batch is not None
    if url == "a":
        ctx.batch.extend([("b", host), ("c", "there")], target="host")
    return url


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()


def test_each_element_becomes_an_item_and_results_come_in_their_order(h: Harness) -> None:
    batch = half.map(range(0, 400, 2))
    assert batch.progress().status is atf.BatchStatus.CREATED
    assert batch.wait().status is atf.BatchStatus.DONE
    assert list(batch.results()) == list(range(200))
    assert batch.result_of(14) == 7


def test_identical_items_have_a_result_each(h: Harness) -> None:
    batch = half.map([4] * 100)
    assert list(batch.results()) == [2] * 100
    assert len({item.work_item_id for item in batch.items()}) == 100


def test_failures_are_told_apart_and_can_be_retried(h: Harness) -> None:
    batch = half.map([2, 3, 4], on_failure=report.s(tag="failed"))
    assert batch.wait().status is atf.BatchStatus.DONE_WITH_FAILURES
    assert list(batch.results(failed="skip")) == [1, 2]
    with pytest.raises(atf.TaskFailed, match=r"item 1 .*3 is odd"):
        list(batch.results())
    assert [(item.number, item.status) for item in batch.failures()] == [(1, atf.ItemStatus.PERMANENTLY_FAILED)]
    assert batch.retry().round == 2
    assert batch.wait().ended
    h.run_until_idle()
    assert [(each["tag"], each["failed"], each["round"]) for each in told] == [("failed", 1, 1), ("failed", 1, 2)]


def test_the_same_call_goes_on_where_it_ended_and_doubles_nothing(h: Harness) -> None:
    items: list[Any] = [2, 4, "six", 8]
    with pytest.raises(atf.InvalidArgument, match="item 2, 'six'"):
        half.map(items, batch_id="b")
    h.run_until_idle()
    assert h.client.batch_handle("b").progress().status is atf.BatchStatus.IN_PROGRESS, "it is not closed"
    items[2] = 6
    for _ in range(2):
        assert list(half.map(items, batch_id="b").results()) == [1, 2, 3, 4]
    with pytest.raises(atf.AlreadyExists):
        half.map(items, batch_id="b", max_attempts=3)


def test_a_callback_is_told_the_summary_once(h: Harness) -> None:
    batch = half.map([2, 4], on_success=report, on_failure=total.s([], 1), on_complete=[report.s(tag="end")])
    h.run_until_idle()
    assert sorted((each["tag"], each["id"], each["status"], each["done"]) for each in told) == [
        ("", batch.id, "done", 2), ("end", batch.id, "done", 2),
    ]  # fmt: skip


def test_an_item_extends_its_batch_while_it_runs(h: Harness) -> None:
    batch = countdown.map([3], on_complete=report)
    assert batch.wait().items == 4
    assert list(batch.results()) == [3, 2, 1, 0]
    h.run_until_idle()
    assert [each["items"] for each in told] == [4]


def test_an_item_of_a_batch_with_a_pause_extends_it(h: Harness) -> None:
    batch = crawl.map([("a", "here")], pause=1, target="host")
    assert batch.wait().done == 3
    assert list(batch.results()) == ["a", "b", "c"]


def test_a_batch_that_is_kept_open_ends_once_it_is_closed(h: Harness) -> None:
    batch = half.map([2, 4], keep_open=True, on_complete=report)
    batch.extend([6])
    h.run_until_idle()
    assert (batch.progress().status, told) == (atf.BatchStatus.IN_PROGRESS, [])
    batch.close()
    assert batch.wait().done == 3
    assert sorted(batch.results()) == [1, 2, 3]
    h.run_until_idle()
    assert [each["items"] for each in told] == [3]


def test_a_batch_is_cancelled_and_deleted(h: Harness) -> None:
    batch = half.map(range(100), max_in_flight=3)
    batch.cancel()
    assert batch.wait().status is atf.BatchStatus.CANCELLED
    assert batch.delete()
    h.run_until_idle()
    with pytest.raises(atf.NotFound):
        batch.progress()


def test_a_chain_hands_results_on(h: Harness) -> None:
    assert (square.s(2) | half.s() | square.s()).submit().result() == 4
    assert (half.map_s([2, 4, 6]) | total.s(more=10) | square.s()).submit().result() == 256
    grown = (square.s(3) | countdown.s()).submit()
    assert grown.result() == 9
    assert grown.wait().done == 10, "a link that extends itself"
    broken = (half.map_s([2, 3]) | total.s()).submit()
    with pytest.raises(atf.TaskFailed, match="3 is odd"):
        broken.result()
