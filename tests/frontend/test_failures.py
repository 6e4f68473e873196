"""Where an error is shown, it is the exception's message: not the last line of its traceback."""

from __future__ import annotations

from typing import Any

from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.claims import Outcome
from atf.task import US

from .conftest import Bench

ERROR = """ValueError: no card
of this number
Traceback (most recent call last):
  File "shop.py", line 3, in pay
    charge(card)
    ~~^~~
Caused by: KeyError: 7"""
OF: dict[str, Any] = {"lambda": "photos/thumbnail"}


async def failed(bench: Bench, **options: Any) -> str:
    await bench.register()
    stored = await bench.schedule(options=t.TaskOptions(**options))
    await bench.finish(stored, Outcome.FAILED, error=ERROR)
    return stored


async def test_a_task_has_its_parts(bench: Bench) -> None:
    task = await bench.stored(await failed(bench, max_attempts=1))
    assert (task.error_type, task.error_message) == ("ValueError", "no card\nof this number")
    assert task.error == ERROR


async def test_explain_says_the_message(bench: Bench) -> None:
    said = await bench.frontend.explain_task(f.ExplainTaskRequest(id=await failed(bench, max_attempts=1)))
    assert "ValueError: no card of this number." in said.sentence
    assert "~" not in said.sentence
    assert "Caused" not in said.sentence


async def test_a_redrive_counts_by_message(bench: Bench) -> None:
    await failed(bench, max_attempts=1)
    await failed(bench, max_attempts=1)
    asked = f.RedriveRequest(filter=OF, dry_run=True, who="ada", why="rain", error="ValueError: no card")
    assert dict((await bench.frontend.redrive(asked)).errors) == {"ValueError: no card": 2}


async def test_a_retry_beside_the_task_that_holds_its_unique_key_is_refused(bench: Bench) -> None:
    unique = t.Unique(key="anna", window_us=60 * US)
    one = await bench.schedule("a", unique=unique)
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[one]))
    other = await bench.schedule("b", unique=unique)
    reply = await bench.frontend.retry_tasks(f.RetryTasksRequest(ids=[one]))
    assert [(each.retried, each.held_by) for each in reply.results] == [(False, other)]
