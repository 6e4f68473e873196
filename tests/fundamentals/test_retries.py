"""Retries: a handler that raises is tried again after its backoff, until it says otherwise or its attempts are used up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import atf
from atf.testing import Harness

app = atf.App("retries")
attempts: list[tuple[float, int]] = []
harness: Harness


@pytest.fixture
def h() -> Iterator[Harness]:
    global harness
    attempts.clear()
    with Harness(app) as harness:
        yield harness


def note(ctx: atf.Context) -> None:
    attempts.append((harness.now.timestamp() - ctx.scheduled_at.timestamp(), ctx.attempt))


@app.task(max_attempts=4, backoff=atf.Backoff(10, factor=2, max=30, jitter=0))
def always_fails(ctx: atf.Context) -> None:
    note(ctx)
    raise ValueError("the printer is out of paper")


@app.task(backoff=atf.Backoff(10, jitter=0))
def fails_twice(ctx: atf.Context) -> str:
    note(ctx)
    if ctx.attempt < 3:
        raise ConnectionError("not yet")
    return "at last"


@app.task(max_attempts=3, backoff=atf.Backoff(100, factor=1, max=100, jitter=0.5))
def fails_with_jitter(ctx: atf.Context) -> None:
    note(ctx)
    raise ValueError


@app.task
def asks_for_time(ctx: atf.Context) -> str:
    note(ctx)
    if ctx.attempt == 1:
        raise atf.Retry("the rate limit says so", after=3_600)
    return "done"


@app.task
def gives_up(ctx: atf.Context) -> None:
    note(ctx)
    raise atf.Fatal("there is no such customer")


def test_each_attempt_comes_after_its_backoff(h: Harness) -> None:
    handle = always_fails.schedule()
    h.advance(600)
    assert attempts == [(0, 1), (10, 2), (30, 3), (60, 4)]  # 10 s, 20 s, then 30 s, the longest
    assert handle.status() is atf.Status.FATAL_FAILURE


def test_a_backoff_ends_on_the_microsecond(h: Harness) -> None:
    handle = always_fails.schedule()
    h.advance(9.999_999)
    assert (len(attempts), handle.status()) == (1, atf.Status.RETRIABLE_FAILURE)
    h.advance(0.000_001)
    assert len(attempts) == 2


def test_a_later_attempt_may_succeed(h: Harness) -> None:
    assert fails_twice.schedule().result() == "at last"
    assert attempts == [(0, 1), (10, 2), (30, 3)]
    assert [run.why for run in h.tasks(fails_twice)[0].ended_runs] == [
        "failed: ConnectionError: not yet",
        "failed: ConnectionError: not yet",
        "succeeded",
    ]


def test_jitter_spreads_attempts_around_the_backoff(h: Harness) -> None:
    for _ in range(20):
        fails_with_jitter.schedule()
    h.advance(200)
    seconds = {at for at, attempt in attempts if attempt == 2}
    assert len(seconds) == 20
    assert 50 <= min(seconds) < 80
    assert 120 < max(seconds) <= 150


@pytest.mark.usefixtures("h")
def test_a_handler_may_say_when() -> None:
    assert asks_for_time.schedule().result() == "done"
    assert attempts == [(0, 1), (3_600, 2)]


@pytest.mark.usefixtures("h")
def test_a_handler_may_say_never_again() -> None:
    handle = gives_up.schedule()
    with pytest.raises(atf.TaskFailed, match="there is no such customer"):
        handle.result()
    assert attempts == [(0, 1)]
