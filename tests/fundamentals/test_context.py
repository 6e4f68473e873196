"""The context: what a run knows of itself."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import atf
from atf.testing import Harness

app = atf.App("context")
fences: list[int] = []


@app.task
def who_am_i(ctx: atf.Context, name: str) -> dict[str, object]:
    return {
        "name": name,
        "task_id": ctx.task_id,
        "lambda": ctx.lambda_name,
        "attempt": ctx.attempt,
        "run": ctx.run,
        "labels": dict(ctx.labels),
        "scheduled_at": ctx.scheduled_at,
        "deadline": ctx.deadline,
        "cancelled": ctx.cancelled,
    }


@app.task(max_attempts=3, backoff=atf.Backoff(1, jitter=0))
def fails(ctx: atf.Context) -> None:
    fences.append(ctx.fence)
    raise ValueError(f"attempt {ctx.attempt}, run {ctx.run}")


@app.task
async def reports(ctx: atf.Context) -> None:
    ctx.progress("half way")
    await asyncio.sleep(10)


def test_a_run_knows_its_task(h: Harness) -> None:
    handle = who_am_i.options(delay=5, labels={"order": "7"}).schedule("anna")
    due = h.now + timedelta(seconds=5)
    assert handle.result() == {
        "name": "anna",
        "task_id": handle.id,
        "lambda": "context/who_am_i",
        "attempt": 1,
        "run": 1,
        "labels": {"order": "7"},
        "scheduled_at": due.isoformat().replace("+00:00", "Z"),
        "deadline": None,
        "cancelled": False,
    }


def test_the_fence_grows_with_every_run(h: Harness) -> None:
    fences.clear()
    handle = fails.schedule()
    h.advance(10)
    assert fences == sorted(set(fences))
    assert len(fences) == 3
    handle.retry()
    h.advance(10)
    assert len(fences) == 6
    assert fences == sorted(set(fences))


def test_progress_shows_in_the_record(h: Harness) -> None:
    reports.schedule()
    h.advance(5)
    assert h.tasks(reports)[0].progress == "half way"
