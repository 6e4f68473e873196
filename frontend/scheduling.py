"""From ScheduleRequest to the store: checked, completed, and many calls in one.

Concurrent Schedule calls share a call of the store: one goes out at once when none is under way, and what arrives
meanwhile leaves together when it has come back. So an idle frontend adds no wait, and a busy one makes few calls.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

from atf import task as rules
from atf.errors import AlreadyExists, AtfError, InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.rpc import task_pb2 as t
from atf.runtime import Runtime, new_id
from atf.store.store import Store
from atf.store.types import NewTask, Scheduled

from .lambdas import Lambdas
from .validate import check_spec, check_when, filled_in, shown, spec_lambda, spec_lambdas

MAX_REQUESTS: Final = 1_000
"""Of one ScheduleMany."""
_DIGEST_BYTES: Final = 12
_MAX_SENTENCE_CHARS: Final = 500


class Scheduling:
    """Schedule and ScheduleMany."""

    def __init__(self, store: Store, lambdas: Lambdas, runtime: Runtime, max_attempts_cap: int) -> None:
        self._store = store
        self._lambdas = lambdas
        self._runtime = runtime
        self._cap = max_attempts_cap
        self._waiting: list[tuple[NewTask, asyncio.Future[Scheduled]]] = []
        self._sending = False

    async def one(self, request: f.ScheduleRequest) -> f.ScheduleReply:
        """One task, in a call of the store that it may share with others."""
        await self._lambdas.load([spec_lambda(request.spec)])
        task = self._new_task(request)
        future: asyncio.Future[Scheduled] = asyncio.get_running_loop().create_future()
        self._waiting.append((task, future))
        if not self._sending:
            self._sending = True
            self._runtime.spawn(self._send(), name="schedule")
        return _reply(task, await future)

    async def many(self, requests: Sequence[f.ScheduleRequest]) -> f.ScheduleManyReply:
        """Many tasks; a bad one fails by itself. Where the store fails, the whole call fails and may be repeated."""
        if len(requests) > MAX_REQUESTS:
            raise InvalidArgument(f"{len(requests)} requests: at most {MAX_REQUESTS} in one call")
        await self._lambdas.load(spec_lambdas(requests))
        results = [f.ScheduleResult() for _ in requests]
        tasks: list[tuple[f.ScheduleResult, NewTask]] = []
        for result, request in zip(results, requests, strict=True):
            try:
                tasks.append((result, self._new_task(request)))
            except AtfError as error:
                result.error.CopyFrom(_error(error))
        stored = await self._store.schedule([task for _, task in tasks])
        for (result, task), scheduled in zip(tasks, stored, strict=True):
            try:
                result.reply.CopyFrom(_reply(task, scheduled))
            except AtfError as error:
                result.error.CopyFrom(_error(error))
        return f.ScheduleManyReply(results=results)

    def _new_task(self, request: f.ScheduleRequest) -> NewTask:
        task_id = rules.check_id(shown(request.id)) if request.id else new_id(self._runtime.random)
        check_spec(request.spec)
        at_us, delay_us = check_when(request, self._runtime.wall_us())
        known = self._lambdas.get(spec_lambda(request.spec))
        spec = t.TaskSpec()
        spec.CopyFrom(request.spec)
        spec.options.CopyFrom(filled_in(request.spec.options, known.options))
        spec.DiscardUnknownFields()  # of any size, and no rule has looked at them
        options = spec.options
        options.max_attempts = min(options.max_attempts, self._cap)
        return NewTask(
            id=task_id,
            partition=self._store.partition_for(spec.ordering_key or task_id),
            lambda_name=known.record.name,
            priority=options.priority,
            spec=spec.SerializeToString(deterministic=True),
            digest=digest(request),
            at_us=at_us,
            delay_us=delay_us,
            max_attempts=options.max_attempts,
            max_losses=options.max_losses,
            retention_us=options.retention_us,
            ordering_key=spec.ordering_key,
        )

    async def _send(self) -> None:
        try:
            while waiting := [each for each in self._waiting if not each[1].done()]:  # the callers of the rest gave up
                batch, self._waiting = waiting[: rules.MAX_BATCH], waiting[rules.MAX_BATCH :]
                await self._send_batch(batch)
            self._waiting = []
        finally:
            self._sending = False

    async def _send_batch(self, batch: list[tuple[NewTask, asyncio.Future[Scheduled]]]) -> None:
        try:
            stored = await self._store.schedule([task for task, _ in batch])
        except Exception as error:  # noqa: BLE001  every caller of the batch gets it, whatever it is
            for _, future in batch:
                if not future.done():
                    future.set_exception(_copy(error))
        else:
            for (_, future), scheduled in zip(batch, stored, strict=True):
                if not future.done():  # its caller may have given up
                    future.set_result(scheduled)


def digest(request: f.ScheduleRequest) -> bytes:
    """What tells two requests of one id apart: a hash of the request as it was sent."""
    return hashlib.blake2b(request.SerializeToString(deterministic=True), digest_size=_DIGEST_BYTES).digest()


def _reply(task: NewTask, scheduled: Scheduled) -> f.ScheduleReply:
    if scheduled.conflict:
        raise AlreadyExists(f"task id {task.id!r} is taken by another request; the same request again would be fine")
    return f.ScheduleReply(id=scheduled.id, existed=scheduled.existed, scheduled_at_us=scheduled.scheduled_at_us)


def _error(error: AtfError) -> f.Error:
    return f.Error(code=error.code, message=str(error)[:_MAX_SENTENCE_CHARS], reason=error.reason)


def _copy(error: Exception) -> Exception:
    # One exception raised in several tasks would gather all their tracebacks.
    return type(error)(str(error)) if isinstance(error, AtfError) else error
