"""Looks at, awaits and commands tasks, as a part of AsyncClient."""

from __future__ import annotations

import builtins
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from atf.errors import FailedPrecondition, InvalidArgument, TaskNotFound
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.runtime import Runtime
from atf.sdk.blocking import LoopBridge
from atf.sdk.handle import Handle
from atf.task import MAX_BATCH, key_held

from .info import Explanation, TaskInfo
from .matching import MatchingCalls
from .whoami import signed


class TaskCalls(MatchingCalls):
    """The calls of AsyncClient about single tasks."""

    _runtime: Runtime
    _loop_bridge: LoopBridge

    def handle(self, task_id: str) -> Handle[Any]:
        """The handle of a task that was scheduled elsewhere; asks nobody."""
        return Handle(self, self._loop_bridge, task_id, None)

    async def get(self, task_id: str) -> TaskInfo:
        """A task's record.

        Raises:
            TaskNotFound: there is no such task, or its record has expired.
        """
        return TaskInfo.from_proto(await self.get_task(task_id))

    async def get_task(self, task_id: str) -> t.Task:
        """A task's record as the frontend sent it."""
        request = f.GetTaskRequest(id=task_id, with_spec=True)
        return await self._calls.get_task(request)

    async def wait(
        self, tasks: Iterable[str | Handle[Any]], *, timeout: float | None = None, first: bool = False
    ) -> builtins.list[TaskInfo]:
        """Waits until all tasks have finished.

        Args:
            tasks: ids or handles.
            timeout: seconds; None: for ever.
            first: wait for one of them only.

        Returns:
            those that have finished by then; fewer than were asked for if the time ran out.

        Raises:
            TimeoutError: the time ran out while the frontend was away; the cause says why.
        """
        ids = [each if isinstance(each, str) else each.id for each in tasks]
        return [TaskInfo.from_proto(each) for each in await self.wait_tasks(ids, timeout=timeout, first=first)]

    async def wait_tasks(
        self, ids: Sequence[str], *, timeout: float | None, first: bool = False
    ) -> builtins.list[t.Task]:
        """Like `wait`, with the records as the frontend sent them."""
        end = self._end(timeout)
        finished: dict[str, t.Task] = {}
        if first and len(ids) > MAX_BATCH:
            raise InvalidArgument(f"wait for the first of {len(ids)} tasks: at most {MAX_BATCH}")
        while open_ids := [each for each in dict.fromkeys(ids) if each not in finished]:
            over = self._runtime.monotonic() >= end
            try:
                reply = await self._calls.wait_tasks(open_ids[:MAX_BATCH], end, first=first)
            except TimeoutError as error:
                what = f"task {ids[0]} has" if len(ids) == 1 else f"{len(open_ids)} of {len(ids)} tasks have"
                why = error.__cause__
                raise TimeoutError(
                    f"{what} not finished within {timeout:g} s, and the frontend is away: {why}"
                ) from why
            finished |= {each.id: each for each in reply.tasks}
            if (first and finished) or over:
                break
        return list(finished.values())

    async def get_log(self, task_id: str) -> f.GetLogReply:
        """What is kept of what the runs of a task said, as the frontend sent it."""
        return await self._calls.get_log(f.GetLogRequest(id=task_id))

    def watch_log(self, task_id: str) -> AsyncGenerator[f.GetLogReply, None]:
        """What the runs of a task said whenever that has changed, as the frontend sent it; the last once the task has ended."""
        return self._calls.watch_log(f.WatchLogRequest(id=task_id))

    async def cancel(self, task_id: str, *, why: str = "", who: str = "") -> bool:
        """Cancels a task that has not started, or asks one that runs to stop. `why` and `who`: for the audit log.

        Returns:
            whether either was done; False: it has finished before.

        Raises:
            TaskNotFound: there is no such task.
        """
        request = f.CancelTasksRequest(ids=[task_id], **signed(who, why))
        reply = await self._calls.cancel_tasks(request)
        result = reply.results[0]
        if not result.status:
            raise _no_task(task_id)
        return result.cancelled or result.cancel_requested

    async def retry(self, task_id: str, *, why: str = "", who: str = "") -> bool:
        """Starts a failed or cancelled task afresh: its attempts count from 0. `why` and `who`: for the audit log.

        Returns:
            whether it was; False: it has succeeded, or has not finished yet.

        Raises:
            TaskNotFound: there is no such task.
            FailedPrecondition: another task, which has not finished, holds its unique key.
        """
        reply = await self._calls.retry_tasks(f.RetryTasksRequest(ids=[task_id], **signed(who, why)))
        (result,) = reply.results
        if not result.status:
            raise _no_task(task_id)
        if result.held_by:
            raise FailedPrecondition(f"task {task_id} can't run again: {key_held(result.held_by)}")
        return result.retried

    async def explain(self, task_id: str) -> Explanation:
        """Why a task has not started.

        Raises:
            TaskNotFound: there is no such task.
        """
        request = f.ExplainTaskRequest(id=task_id)
        return Explanation.from_proto(await self._calls.explain_task(request))

    def _end(self, timeout: float | None) -> float:
        """When a wait is over, on the monotonic clock."""
        return math.inf if timeout is None else self._runtime.monotonic() + timeout

    def _left(self, until: float) -> float | None:
        return None if until == math.inf else max(0.0, until - self._runtime.monotonic())


def _no_task(task_id: str) -> TaskNotFound:
    return TaskNotFound(f"there is no task {task_id}, or its record has expired")
