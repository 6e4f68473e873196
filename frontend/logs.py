"""What the runs of a task said, as callers ask for it: as far as it is kept, or as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Final

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.errors import ResourceExhausted
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.runtime import happens
from atf.sdk.redaction import Redactor
from atf.store.run_logs import TaskLog
from atf.task import HELD, Status

from . import view
from .found import permit_found
from .parts import FrontendParts
from .validate import check_stored_id

MAX_WATCHERS: Final = 100
"""Calls of WatchLog at once: each looks at the store twice a second, and has an executor send what it has."""
MAX_OF_ONE: Final = 25
"""Of these, of one caller. Without auth nobody is known, and all may be one's."""
_LOOK_S: Final = 0.5
_LOOK_WAITING_S: Final = 2.0
"""The same of a task that does not run."""
_MARK_S: Final = 10.0
"""For so long after a look an executor sends what a run says."""


class LogRpcs(FrontendParts):
    """The calls on logs."""

    async def get_log(self, request: f.GetLogRequest, *, timeout: float = 10) -> f.GetLogReply:
        """What is kept of what the runs of a task said."""
        task_id = check_stored_id(request.id, self._store.partitions)
        redact = await self._redactor(task_id)
        return await self._shown(task_id, await self._store.get_log(task_id), redact)

    async def watch_log(
        self, request: f.WatchLogRequest, *, timeout: float = 3600
    ) -> AsyncGenerator[f.GetLogReply, None]:
        """The same whenever it has changed, until the task has ended."""
        task_id = check_stored_id(request.id, self._store.partitions)
        with self._watching(task_id):
            redact = await self._redactor(task_id)
            until_s = self._runtime.monotonic() + caller().longest(inf)
            with self._waiting.notification_of(task_id) as ended:
                said: f.GetLogReply | None = None
                while True:
                    ended.clear()
                    log = await self._store.watch_log(task_id, _MARK_S)
                    shown = await self._shown(task_id, log, redact)
                    if shown != said:
                        said = shown
                        yield shown
                    if Status(shown.status).finished or self._draining or self._runtime.monotonic() > until_s:
                        return
                    await happens(ended, _LOOK_S if Status(shown.status) in HELD else _LOOK_WAITING_S)

    @contextmanager
    def _watching(self, task_id: str) -> Iterator[None]:
        """Counts one more call that watches.

        Raises:
            ResourceExhausted: there are too many, of this caller or at all.
        """
        who, most = caller().account, f"{MAX_WATCHERS} calls watch"
        if who and self._watchers[who] >= MAX_OF_ONE:
            most = f"{who} has {MAX_OF_ONE} calls that watch"
        elif self._watchers.total() < MAX_WATCHERS:
            most = ""
        if most:
            raise ResourceExhausted(f"{most} logs at this frontend: end one, or read what is kept: atf logs {task_id}")
        self._watchers[who] += 1
        try:
            yield
        finally:
            self._watchers[who] -= 1
            if not self._watchers[who]:
                del self._watchers[who]

    async def _redactor(self, task_id: str) -> Redactor:
        (record,) = await self._store.get_tasks([task_id], caller().seen())
        if record is None:
            raise view.no_task(task_id)
        permit_found(Verb.READ_PAYLOAD, record.lambda_name, partial(view.no_task, task_id))
        await self._redaction.load([record.lambda_name])
        return self._redaction.redactor(record)

    async def _shown(self, task_id: str, log: TaskLog | None, redact: Redactor) -> f.GetLogReply:
        if log is None:
            raise view.no_task(task_id)
        # Once more by its lambda: since the watch began, another task may have been made of its id.
        permit_found(Verb.READ_PAYLOAD, log.lambda_name, partial(view.no_task, task_id))
        runs = [
            t.RunLog(run=each.run, attempt=each.attempt, text=redact(each.text), cut_bytes=each.cut_bytes)
            for each in log.runs
        ]
        return f.GetLogReply(
            runs=runs, status=view.status(log.status), why_none="" if runs else self._why_none(task_id, log)
        )

    def _why_none(self, task_id: str, log: TaskLog) -> str:
        """Why a task has no log."""
        name, known = log.lambda_name, self._lambdas.find(log.lambda_name)
        kept = t.LOGS_OF_FAILED if known is None else known.in_force.logs
        if kept == t.LOGS_OF_NONE:
            return (
                f'no logs of {name} are kept, as logs="none" says. Those of its next runs that fail are with:'
                f" atf lambda set {name} logs=failed; those of all with logs=all"
            )
        if not log.status.finished:
            if log.status in HELD:
                return f"it runs, and nothing is kept yet; see what it says while it runs: atf logs {task_id} --follow"
            return "it has not run yet, or its runs said nothing"
        if log.status is Status.SUCCESS and kept == t.LOGS_OF_FAILED:
            return (
                f"it succeeded, and of {name} only the logs of failed runs are kept. Those of all its next runs are with:"
                f" atf lambda set {name} logs=all"
            )
        return (
            "its runs printed and logged nothing; what a run said that was lost with its executor is in that one's log"
        )
