"""first_time: of several tasks that are about the same thing one does it, in however many runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

import atf
from atf.testing import Harness

app = atf.App("first")
charged: list[str] = []


@pytest.fixture(autouse=True)
def nothing_charged() -> None:
    charged.clear()


@app.task(backoff=atf.Backoff(1, jitter=0))
def charge(ctx: atf.Context, order: str, fails: int = 0) -> bool:
    if not ctx.first_time(f"charge-{order}"):
        return False
    if ctx.attempt <= fails:
        raise ConnectionError("the bank is closed")
    charged.append(order)
    return True


@app.task
async def charge_async(ctx: atf.Context, order: str) -> bool:
    return await ctx.first_time_async(f"charge-{order}", ttl=timedelta(hours=1))


@app.task
async def blocks(ctx: atf.Context) -> None:
    ctx.first_time("x")


@pytest.mark.usefixtures("h")
def test_of_two_tasks_with_one_key_the_first_does_the_work() -> None:
    assert [charge.schedule("42").result(), charge.schedule("42").result(), charge.schedule("43").result()] == [
        True, False, True,
    ]  # fmt: skip
    assert charged == ["42", "43"]


def test_a_task_that_failed_has_its_key_in_the_next_attempt_too(h: Harness) -> None:
    first = charge.schedule("42", fails=2)
    h.run_until_idle()
    second = charge.schedule("42")
    assert not second.result()
    assert first.result()
    assert charged == ["42"]


def test_the_key_is_free_again_after_a_day_unless_a_ttl_says_otherwise(h: Harness) -> None:
    assert charge.schedule("42").result()
    assert charge_async.schedule("7").result()
    h.advance(timedelta(hours=23))
    assert not charge.schedule("42").result()
    assert charge_async.schedule("7").result()
    h.advance(timedelta(hours=1))
    assert charge.schedule("42").result()


@pytest.mark.usefixtures("h")
def test_both_calls_ask_for_the_same_keys() -> None:
    assert charge.schedule("42").result()
    assert not charge_async.schedule("42").result()


@pytest.mark.usefixtures("h")
def test_it_does_not_block_a_loop() -> None:
    handle = blocks.options(max_attempts=1).schedule()
    with pytest.raises(atf.TaskFailed, match="await its _async twin"):
        handle.result()
