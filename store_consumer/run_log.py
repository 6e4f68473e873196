"""Logs runs that were lost with their leases, and attempts counted because a payload fitted no executor; and counts tasks that ended so.

What a pass of the store counted is read once more, for people and metrics alone: a task that moves on meanwhile is said as it is then, and where it can't be read its id is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from atf.errors import AtfError
from atf.log import get_logger
from atf.metrics.table import TASKS_ENDED
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store.values.passes import EnqueuePass
from atf.store.values.tasks import TaskRecord
from atf.task import FINISHED, Status

_log = get_logger(duty="run")
_NOT_COUNTED = "(not counted)"


class RunLog:
    """Reads and says; a pass never waits for it."""

    def __init__(self, *, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._works: set[asyncio.Task[None]] = set()

    def add(self, made: EnqueuePass) -> None:
        """Has said soon what a pass has ended."""
        if made.expired or made.unfit:
            work = self._runtime.spawn(self._log_ended(made.expired, made.unfit), name="say what has ended")
            self._works.add(work)
            work.add_done_callback(self._works.discard)

    async def idle(self) -> None:
        """Waits until all that was taken has been said."""
        await asyncio.gather(*self._works)

    async def _log_ended(self, expired: Sequence[str], unfit: Sequence[str]) -> None:
        ids = [*expired, *unfit]
        records: Sequence[TaskRecord | None] = [None] * len(ids)
        try:
            records = await self._store.get_tasks(ids)
        except AtfError as error:
            _log.debug("what has ended can't be read", error=str(error))
        for record in records:
            if record is not None and record.status in FINISHED:
                self._store.metrics.counter(TASKS_ENDED, record.lambda_name, record.status.name).inc()
        for task_id, record in zip(ids[: len(expired)], records, strict=False):
            _log_lost(task_id, record)
        for task_id, record in zip(unfit, records[len(expired) :], strict=True):
            _log_failed(task_id, record)


def _log_lost(task_id: str, record: TaskRecord | None) -> None:
    if record is None:
        _log.warning("run lost", task=task_id, why="lease expired")
        return
    run = record.ended_runs[-1] if record.ended_runs else None
    why = run.why.removeprefix("lost: ") if run else "lease expired"
    last = record.status is Status.FATAL_FAILURE
    # What is no loss, as at the end of a drain, has cost the task nothing.
    say = _log.error if last else _log.debug if why.endswith(_NOT_COUNTED) else _log.warning
    say(
        "run lost",
        task=task_id,
        lambda_name=record.lambda_name,
        attempt=record.attempts + 1,
        loss=f"{record.losses} of {record.most_losses}",
        last=last,
        executor=run.owner if run else "",
        why=why,
    )


def _log_failed(task_id: str, record: TaskRecord | None) -> None:
    if record is None:
        _log.warning("attempt failed", task=task_id)
        return
    last = record.status is Status.FATAL_FAILURE
    say = _log.error if last else _log.warning
    say(
        "attempt failed",
        task=task_id,
        lambda_name=record.lambda_name,
        attempt=f"{record.attempts} of {record.most_attempts}",
        last=last,
        error="for too long no executor was there that its payload fits",  # what does not fit may be a secret: explain has it
    )
