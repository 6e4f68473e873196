"""Timeouts: a run that takes too long is an attempt that failed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import atf
from atf.testing import Harness

app = atf.App("timeouts")


@app.task(timeout=10, max_attempts=2, backoff=atf.Backoff(5, jitter=0))
async def fetch(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "fetched"


@app.task(timeout=timedelta(minutes=1))
async def remaining(ctx: atf.Context) -> float:
    assert ctx.deadline is not None
    return (ctx.deadline - ctx.scheduled_at).total_seconds()


@pytest.mark.usefixtures("h")
def test_what_ends_in_time_succeeds() -> None:
    assert fetch.schedule(9.999).result() == "fetched"


def test_what_takes_longer_fails_at_its_timeout(h: Harness) -> None:
    handle = fetch.schedule(10.001)
    begun = h.now
    with pytest.raises(atf.TaskFailed, match="timed out after 10 s"):
        handle.result()
    assert h.now - begun == timedelta(seconds=10 + 5 + 10)
    (task,) = h.tasks(fetch)
    assert [run.why for run in task.ended_runs] == ["timed_out: timed out after 10 s"] * 2


@pytest.mark.usefixtures("h")
def test_a_call_may_have_its_own_timeout() -> None:
    assert fetch.options(timeout=3_600).schedule(600).result() == "fetched"
    assert fetch.options(timeout=None).schedule(5_000).result() == "fetched"


@pytest.mark.usefixtures("h")
def test_a_handler_knows_its_deadline() -> None:
    assert remaining.schedule().result() == 60
