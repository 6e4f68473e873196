"""Makes the Context that a lambda is given, from its task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atf.runtime import Runtime
from atf.sdk.context import Context, FirstTimeCheck, Flag, InBatch
from atf.sdk.options import from_us
from atf.sdk.work_items import parse
from atf.task import US

from .held import HeldTask

if TYPE_CHECKING:
    from atf.sdk.lambdas import Lambda


def context_of(
    task: HeldTask, known: Lambda[..., Any], first_time: FirstTimeCheck | None, stopping: Flag | None, runtime: Runtime
) -> Context:
    """What the lambda of a task is told of its run. Without `first_time` each is the first, and without `stopping` the executor never drains."""
    left_us = round(task.timeout * US)
    tick = task.spec.tick
    scheduled_at = from_us(max(1, tick.at_us or task.scheduled_at_us))
    assert scheduled_at is not None
    return Context(
        task_id=task.task_id,
        lambda_name=task.lambda_name,
        attempt=task.attempt,
        run=task.run,
        fence=task.counter,
        scheduled_at=scheduled_at,
        job=tick.job,
        tick=tick.number,
        batch=_batch_of(task, known) if task.spec.HasField("batch") else None,
        deadline=from_us(runtime.wall_us() + left_us) if left_us else None,
        labels=dict(task.spec.labels),
        cancelled=task,
        stopping=stopping,
        progress=task.say,
        first_time=first_time,
    )


def _batch_of(task: HeldTask, known: Lambda[..., Any]) -> InBatch:
    made, item = task.spec.batch, parse(task.task_id)
    if item is None:
        return InBatch(made.id, None, "", task.task_id)
    return InBatch(item.batch_id, made.number, item.work_item_id, task.task_id, known)
