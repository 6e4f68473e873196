"""Batches: a task for each of a list of arguments, with one handle for all of them; and what is built on their ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

import atf
from atf.testing import Harness

app = atf.App("batches")
told: list[dict[str, Any]] = []
runs: list[tuple[int, float, float]] = []
"""Of `step`: the number, and when it started and ended, in seconds."""
START = datetime(2026, 1, 1, tzinfo=UTC)


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
async def step(number: int, seconds: float = 1.0) -> int:
    clock = asyncio.get_running_loop().time
    began = clock()
    await asyncio.sleep(seconds)
    runs.append((number, began, clock()))
    return number


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
def go_on(ctx: atf.Context, batch: dict[str, Any], rounds: int) -> None:
    told.append({**batch, "tag": "on"})
    assert ctx.batch is not None
    if batch["round"] < rounds:
        ctx.batch.extend([batch["items"], batch["items"] + 1], of=step)


@app.task
def crawl(ctx: atf.Context, url: str, host: str) -> str:
    assert ctx.batch is not None
    if url == "a":
        ctx.batch.extend([("b", host), ("c", "there")], target="host")
    return url


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()
    runs.clear()


@pytest.fixture
def wide() -> Iterator[Harness]:
    """Several partitions, and several executors."""
    with Harness(app, partitions=4, executors=3) as harness:
        yield harness


def most_at_once() -> int:
    """How many of the runs there were at any one instant."""
    return max(sum(began <= start < ended for _, began, ended in runs) for _, start, _ in runs)


def seconds(h: Harness) -> float:
    return (h.now - START).total_seconds()


@pytest.mark.usefixtures("h")
def test_each_element_becomes_an_item_and_results_come_in_their_order() -> None:
    batch = half.map(range(0, 400, 2))
    assert batch.progress().status is atf.BatchStatus.CREATED
    assert batch.wait().status is atf.BatchStatus.DONE
    assert list(batch.results()) == list(range(200))
    assert batch.result_of(14) == 7


@pytest.mark.usefixtures("h")
def test_identical_items_have_a_result_each() -> None:
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


@pytest.mark.usefixtures("h")
def test_an_item_of_a_batch_with_a_pause_extends_it() -> None:
    batch = crawl.map([("a", "here")], pause=1, target="host")
    assert batch.wait().done == 3
    assert list(batch.results()) == ["a", "b", "c"]


def test_a_callback_extends_its_own_batch_and_is_told_once_of_each_round(wide: Harness) -> None:
    batch = step.map(range(3), on_success=go_on.s(rounds=3), on_complete=report.s(tag="end"))
    wide.run_until_idle()
    assert batch.progress().status is atf.BatchStatus.DONE
    assert list(batch.results()) == list(range(7))
    assert sorted(number for number, *_ in runs) == list(range(7))
    for tag in ("on", "end"):
        seen = [(each["round"], each["items"], each["done"], each["status"]) for each in told if each["tag"] == tag]
        assert seen == [(1, 3, 3, "done"), (2, 5, 5, "done"), (3, 7, 7, "done")]
    wide.advance(60)
    assert len(told) == 6, "and then no more"


def test_no_more_items_run_at_once_than_may_be_in_flight(wide: Harness) -> None:
    batch = step.map(range(20), max_in_flight=3)
    assert batch.wait().done == 20
    assert sorted(number for number, *_ in runs) == list(range(20))
    assert (most_at_once(), seconds(wide)) == (3, 7), "and no fewer, so long as there are some"
    assert len({item.peer for item in batch.items()}) == 3, "any executor takes them"
    runs.clear()
    assert step.map(range(20)).wait().done == 20
    assert most_at_once() == 20, "it is the batch's own bound"


def test_of_each_worker_s_chunk_one_item_runs_at_a_time_however_few_executors_there_are(wide: Harness) -> None:
    batch = step.map(range(20), workers=6)
    assert batch.wait().done == 20
    assert (most_at_once(), seconds(wide)) == (6, 4)
    assert {item.number: item.chunk for item in batch.items()} == {each: str(each % 6) for each in range(20)}
    for chunk in range(6):
        of_chunk = sorted(run[1:] for run in runs if run[0] % 6 == chunk)
        assert all(ended <= began for (_, ended), (began, _) in pairwise(of_chunk))


def test_chunks_are_finished_by_the_executors_that_are_left(wide: Harness) -> None:
    items: list[Any] = [*range(20), "bad", 21]
    with pytest.raises(atf.InvalidArgument, match="item 20"):
        step.map(items, workers=6, batch_id="b")
    wide.advance(1.5)
    assert len({item.peer for item in wide.client.batch_handle("b").items() if item.peer}) == 3
    wide.stop_executor()
    wide.stop_executor()
    items[20] = 20
    batch = step.map(items, workers=6, batch_id="b")
    assert batch.wait().done == 22
    assert [(item.number, item.result, item.attempts) for item in batch.items("done")] == [(n, n, 1) for n in range(22)]
    assert Counter(number for number, *_ in runs) == Counter(range(22)), "each ran once"
    assert most_at_once() <= 6
    late = {number for number, began, _ in runs if began > 1.5}
    assert len({item.peer for item in batch.items() if item.number in late}) == 1


def test_the_end_of_a_batch_over_many_partitions_is_told_at_once_and_nobody_polls(wide: Harness) -> None:
    """The harness's roles look by themselves once an hour, and this watcher once a minute: only being told is as quick."""
    batch = step.map([(number, 1 + number * 0.37) for number in range(40)], on_complete=report)
    assert len({item.task_id.partition("-")[0] for item in batch.items()}) == 4
    *_, now = batch.watch(every=60)
    seen_at = wide.now
    last = max(item.finished_at or START for item in batch.items("done"))
    assert last - START == timedelta(seconds=1 + 39 * 0.37)
    assert (now.status, now.done) == (atf.BatchStatus.DONE, 40)
    assert now.ended_at is not None
    assert last <= now.ended_at <= last + timedelta(milliseconds=5)
    assert last <= seen_at <= last + timedelta(milliseconds=5)
    wide.run_until_idle()
    assert ([each["done"] for each in told], wide.now <= last + timedelta(milliseconds=5)) == ([40], True)


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


def test_the_results_of_a_batch_that_was_kept_open_end_when_it_is_cancelled(h: Harness) -> None:
    batch = half.map([2, 4], keep_open=True)
    h.run_until_idle()
    batch.cancel()
    assert list(batch.results(timeout=60)) == [1, 2]
    assert batch.close().status is atf.BatchStatus.CANCELLED


@app.task
def pixels(number: int, pad: str = "") -> bytes:
    return b"\xff" * number


@app.task
def text(number: int) -> str:
    return "x" * 60_000


@pytest.mark.usefixtures("h")
@pytest.mark.parametrize(
    ("chain", "why"),
    [
        (pixels.s(1) | square.s(), "batches/square: the result of item 0 is raw bytes, which JSON can't hold"),
        (pixels.s(1) | square.s() | square.s(), "batches/square: the result of item 0 is raw bytes"),
        (square.s(1) | pixels.s() | square.s(), "batches/square: the result of item 0 is raw bytes"),
        (text.map_s(range(18)) | total.s(), "batches/total: the results take more than 1048576 bytes"),
        (text.map_s(range(6)) | pixels.s(pad="y" * 900_000), "batches/pixels: its arguments take 1[0-9]* bytes"),
    ],
    ids=["bytes", "bytes before two", "bytes in the middle", "large results", "large arguments"],
)
def test_a_chain_that_can_not_hand_on_fails_and_says_why(chain: atf.Chain[Any], why: str) -> None:
    """Nobody has cancelled it."""
    handle = chain.submit()
    with pytest.raises(atf.TaskFailed, match=f"can't go on: its next step can't be made: {why}"):
        handle.result(timeout=60)
    end = handle.wait(timeout=1)
    assert (end.status, end.items, end.cancel_requested) == (atf.BatchStatus.DONE_WITH_FAILURES, 0, False)
    with pytest.raises(atf.FailedPrecondition, match=f"could not be made .{why}"):
        atf.default_client().batch_handle(end.id).retry()


def test_a_chain_that_somebody_cancels_is_cancelled(h: Harness) -> None:
    atf.default_client().pause("batches/half")
    handle = (square.s(2) | half.s() | square.s()).submit()
    h.advance(1)
    handle.cancel()
    with pytest.raises(atf.TaskCancelled):
        handle.result(timeout=60)


@pytest.mark.usefixtures("h")
def test_a_chain_hands_results_on() -> None:
    assert (square.s(2) | half.s() | square.s()).submit().result() == 4
    assert (half.map_s([2, 4, 6]) | total.s(more=10) | square.s()).submit().result() == 256
    grown = (square.s(3) | countdown.s()).submit()
    assert grown.result() == 9
    assert grown.wait().done == 10, "a link that extends itself"
    broken = (half.map_s([2, 3]) | total.s()).submit()
    with pytest.raises(atf.TaskFailed, match="3 is odd"):
        broken.result()
