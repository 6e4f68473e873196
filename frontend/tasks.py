"""Tasks as callers ask for them: one, those that have ended; their cancelling, retrying and explaining."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeVar

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.isolation import chokes
from atf.store.values.tasks import CancelResult, RetryResult
from atf.task import US

from . import view
from .capacity import CapacityRpcs
from .explain import explain
from .explain_workers import waits_for_executors
from .found import permit_found, permitted_tasks
from .gates import GateRpcs
from .listing import ListRpcs
from .validate import check_ids, check_stored_id
from .view import ANSWER_BYTES

MAX_WAIT_S: Final = 60.0
_READ_TOGETHER: Final = 32


R = TypeVar("R")


class TaskRpcs(ListRpcs, GateRpcs, CapacityRpcs):
    """The calls on tasks that are there."""

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float = 10) -> t.Task:
        """A task's record."""
        (record,) = await self._store.get_tasks([check_stored_id(request.id, self._store.partitions)], caller().seen())
        if record is None:
            raise view.no_task(request.id)
        permit_found(Verb.READ, record.lambda_name, partial(view.no_task, request.id))
        (record,) = await self._shown_tasks([record], with_spec=request.with_spec, unredacted=request.unredacted)
        return view.task(record, with_spec=request.with_spec)

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        """Answers when tasks have finished. At most 4 MiB of them: a caller asks again for those that are missing."""
        ids = check_ids(request.ids, self._store.partitions)
        if not ids:
            raise InvalidArgument("ids: name at least one task")
        if request.timeout_us < 0:
            raise InvalidArgument(f"timeout_us {request.timeout_us}: at least 0")
        if hidden := set(ids).difference(await permitted_tasks(self._store, Verb.READ, ids)):
            raise view.no_task(min(hidden))
        seconds = caller().longest(min(request.timeout_us / US, MAX_WAIT_S))
        done = await self._waiting.finished(ids, seconds=seconds, want_all=request.all)
        ids = [each for each in dict.fromkeys(ids) if each in done]
        reply, who = f.WaitTasksReply(), caller()
        for start in range(0, len(ids), _READ_TOGETHER):
            records = await self._store.get_tasks(ids[start : start + _READ_TOGETHER])
            ended = (each for each in records if each is not None and each.status.finished)
            # Once more by its lambda: since it was permitted, another task may have been made of its id.
            seen = (self._redaction.record(each) for each in ended if who.may(Verb.READ, each.lambda_name))
            reply.tasks.extend(map(view.task, seen))
            if reply.ByteSize() > ANSWER_BYTES:
                break
        return reply

    async def cancel_tasks(self, request: f.CancelTasksRequest, *, timeout: float = 10) -> f.CancelTasksReply:
        """Cancels what has not started; asks what runs to stop."""
        ids = check_ids(request.ids, self._store.partitions)
        reply = f.CancelTasksReply()
        permitted = await permitted_tasks(self._store, Verb.OPERATE, ids)
        async with self._audit.write("cancel_tasks", request, tasks=permitted) as draft:
            done = await self._store.cancel_tasks(permitted, caller().scopes(Verb.OPERATE))
            results = _of_all(ids, permitted, done, CancelResult(None, False, False))
            draft.done_to(
                (task_id, each.lambda_name)
                for task_id, each in zip(ids, results, strict=True)
                if each.cancelled or each.cancel_requested
            )
        for task_id, result in zip(ids, results, strict=True):
            reply.results.add(
                id=task_id,
                status=view.status(result.status),
                cancelled=result.cancelled,
                cancel_requested=result.cancel_requested,
            )
        return reply

    async def retry_tasks(self, request: f.RetryTasksRequest, *, timeout: float = 10) -> f.RetryTasksReply:
        """Starts dead-lettered or cancelled tasks afresh."""
        ids = check_ids(request.ids, self._store.partitions)
        reply = f.RetryTasksReply()
        permitted = await permitted_tasks(self._store, Verb.OPERATE, ids)
        async with self._audit.write("retry_tasks", request, tasks=permitted) as draft:
            done = await self._store.retry_tasks(permitted, caller().scopes(Verb.OPERATE))
            results = _of_all(ids, permitted, done, RetryResult(None, False))
            draft.done_to(
                (task_id, each.lambda_name) for task_id, each in zip(ids, results, strict=True) if each.retried
            )
        for task_id, result in zip(ids, results, strict=True):
            reply.results.add(
                id=task_id, status=view.status(result.status), retried=result.retried, held_by=result.held_by
            )
        return reply

    async def explain_task(self, request: f.ExplainTaskRequest, *, timeout: float = 10) -> f.ExplainTaskReply:
        """Says why a task has not started."""
        found = await self._store.explain_task(check_stored_id(request.id, self._store.partitions), caller().seen())
        if found is None:
            raise view.no_task(request.id)
        permit_found(Verb.READ, found.record.lambda_name, partial(view.no_task, request.id))
        found = found._replace(record=self._redaction.record(found.record))
        if found.waits_for.startswith("rate="):
            held = (await self._lambdas.known(found.record.lambda_name)).in_force
            found = found._replace(waits_for=f"burst={held.burst}") if chokes(held) else found
        gates = await self._gates_met(found)
        core = await self._lacks_core(found) if waits_for_executors(found) else None
        return explain(found, gates, core)


def _of_all(ids: Sequence[str], permitted: Sequence[str], results: Sequence[R], missing: R) -> Sequence[R]:
    """The results of all ids, of which some don't exist for the caller."""
    if len(permitted) == len(ids):
        return results
    done = dict(zip(permitted, results, strict=True))
    return [done.get(each, missing) for each in ids]
