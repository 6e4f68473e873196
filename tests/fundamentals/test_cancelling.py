"""Cancelling: what waits never runs; what runs is told."""

from __future__ import annotations

import asyncio

import pytest

import atf
from atf.testing import Harness

app = atf.App("cancelling")
seen: list[str] = []


@app.task
def quick() -> str:
    seen.append("quick")
    return "done"


@app.task
async def long() -> str:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        seen.append("told to stop")
        raise
    return "done"


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def test_what_waits_never_runs(h: Harness) -> None:
    handle = quick.options(delay=60).schedule()
    assert handle.cancel()
    h.advance(120)
    assert seen == []
    assert handle.status() is atf.Status.CANCELLED
    with pytest.raises(atf.TaskCancelled):
        handle.result()


def test_what_runs_is_told(h: Harness) -> None:
    handle = long.schedule()
    h.advance(60)
    assert handle.cancel()
    h.run_until_idle()
    assert seen == ["told to stop"]
    assert handle.status() is atf.Status.CANCELLED
    assert (h.now - h.tasks(long)[0].scheduled_at).total_seconds() == 60  # type: ignore[operator]


def test_what_has_finished_stays_as_it_is(h: Harness) -> None:
    handle = quick.schedule()
    h.run_until_idle()
    assert not handle.cancel()
    assert handle.result() == "done"


@pytest.mark.usefixtures("h")
def test_what_was_cancelled_can_be_retried() -> None:
    handle = quick.options(delay=60).schedule()
    handle.cancel()
    assert handle.retry()
    assert handle.result() == "done"
