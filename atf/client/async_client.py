"""The client: every call as a coroutine. The blocking client and the handles are faces of it.

Turns messages into plain values and back, and gives every task its id; retrying.py has how a call gets through.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Never, Self, TypeVar, Unpack, overload

from atf.config.settings import FRONTEND_PORT
from atf.errors import AtfError, FailedPrecondition, InvalidArgument, TaskNotFound
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.rpc import task_pb2 as t
from atf.runtime import Runtime, SystemRuntime, new_id
from atf.sdk.lambdas import Prepared, Schedulable, named
from atf.sdk.option_kinds import CallOptions
from atf.sdk.option_names import check_names
from atf.sdk.options import Duration
from atf.sdk.payload import short
from atf.task import MAX_BATCH, Status, key_held

from .capacity import CapacityCalls
from .chains import ChainCalls
from .cluster import ClusterCalls
from .gates import GateCalls
from .handle import Handle
from .info import Explanation, TaskInfo
from .jobs import JobCalls
from .lambdas import LambdaCalls
from .loop_bridge import LoopBridge, OwnLoop
from .retrying import Calls, call_timeout

R = TypeVar("R")


class AsyncClient(LambdaCalls, ChainCalls, CapacityCalls, ClusterCalls, GateCalls, JobCalls):
    """Talks to a frontend, on the event loop that uses it: `async with atf.AsyncClient() as client: ...`.

    That may be any event loop of asyncio; on uvloop's (`uvloop.run(main())`, package `uvloop`) calls take a little less CPU.

    Calls that find the frontend unreachable are repeated; that is safe, as each task has its id. Waits (`wait`, `handle.result`,
    `batch.wait`, `batch.results` …) are repeated for as long as they may take themselves.

    Args:
        address: host:port of the frontend; default ATF_FRONTEND, then localhost:7401.
        timeout: how long a call may take, with all its tries, before it fails with Unavailable or DeadlineExceeded: seconds, a timedelta
            or text such as "5s"; default ATF_TIMEOUT, then 10 s.
        frontend: what to call instead of a connection to `address`; for tests.
        runtime: clocks and chance; for tests.
        loop_bridge: how handles get at the loop that the client's work runs on; default: they are on it.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: Duration | None = None,
        frontend: api.Frontend | None = None,
        runtime: Runtime | None = None,
        loop_bridge: LoopBridge | None = None,
    ) -> None:
        self.address = address or os.environ.get("ATF_FRONTEND") or f"localhost:{FRONTEND_PORT}"
        self._runtime: Runtime = runtime or SystemRuntime()
        self._loop_bridge: LoopBridge = loop_bridge or OwnLoop()
        self.timeout = call_timeout(timeout)
        self._calls = Calls(self.address, self.timeout, frontend, self._runtime)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection."""
        await self._calls.close()

    # --- scheduling ---------------------------------------------------------------------------------------------------

    @overload
    async def schedule(self, task: Prepared[R], /) -> Handle[R]: ...
    @overload
    async def schedule(
        self, task: str, payload: Mapping[str, Any] | bytes | None = ..., /, **options: Unpack[CallOptions]
    ) -> Handle[Any]: ...
    async def schedule(
        self,
        task: Prepared[Any] | str,
        payload: Mapping[str, Any] | bytes | None = None,
        /,
        **options: Unpack[CallOptions],
    ) -> Handle[Any]:
        """Stores a task.

        Args:
            task: what `thumbnail.prepare(...)` made, or a lambda's full name.
            payload: with a name: its arguments, or raw bytes.
            options: with a name: as for `thumbnail.options(...)`.

        Raises:
            TypeError: there is no such option; or options, or a payload, stand beside a prepared task, which has its own.
            InvalidArgument, UnknownLambda: the frontend refused it; nothing was stored.
            AlreadyExists: another request has taken the `key`.
            FailedPrecondition: the store can't be as durable as asked for; nothing was stored.
            Unavailable, DeadlineExceeded, ResourceExhausted: it could not be stored within the timeout.
        """
        prepared = self.prepared(task, payload, options)
        return self.stored(prepared, await self._calls.schedule(prepared.request))

    def prepared(
        self, task: Prepared[R] | str, payload: Mapping[str, Any] | bytes | None, options: CallOptions
    ) -> Prepared[R]:
        """What `schedule` was given as a request with an id."""
        if isinstance(task, Prepared):
            if options or payload is not None:
                _refuse_beside(task, options)
            prepared = task
        elif isinstance(task, str):
            prepared = named(task, {} if payload is None else payload, options)
        else:
            raise _not_prepared("schedule()", task)
        self._with_id(prepared.request)
        return prepared

    def stored(self, prepared: Prepared[R], reply: f.ScheduleReply) -> Handle[R]:
        """The handle of a task that was stored."""
        return Handle(self, self._loop_bridge, reply.id, prepared.decode, reply.durability)

    async def schedule_many(self, /, tasks: Iterable[Prepared[R]], **options: Never) -> builtins.list[Handle[R]]:
        """Stores tasks, as few calls as they fit in; each succeeds or fails by itself.

        Calling again with the same list, after an error, stores what is missing and makes no task twice.

        Args:
            tasks: what `thumbnail.prepare(...)` made, each with its own options.
            options: none; they stand before: `thumbnail.options(delay=30).prepare(...)`.

        Raises:
            TypeError: one of them is no prepared task; or there are options.
            AtfError: the first failure, after all were tried; its notes say how many failed.
        """
        check_names("schedule_many()", options, ())
        prepared = list(tasks)
        for each in prepared:
            if not isinstance(each, Prepared):
                raise _not_prepared("schedule_many()", each)
        answers = await self._calls.schedule_all([self._with_id(each.request) for each in prepared])
        failed = [each for each in answers if isinstance(each, AtfError)]
        if failed:
            failed[0].add_note(f"{len(failed)} of {len(prepared)} tasks were not scheduled")
            raise failed[0]
        stored = [each for each in answers if isinstance(each, f.ScheduleReply)]
        return [self.stored(each, reply) for each, reply in zip(prepared, stored, strict=True)]

    def _with_id(self, request: f.ScheduleRequest) -> f.ScheduleRequest:
        if not request.id:
            request.id = new_id(self._runtime.random)
        return request

    # --- tasks --------------------------------------------------------------------------------------------------------

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

    async def list(
        self, lambda_name: str, status: Status | None = None, *, limit: int = 100
    ) -> builtins.list[TaskInfo]:
        """Tasks of one lambda.

        Args:
            lambda_name: "namespace/name".
            status: only those; None: all.
            limit: how many at most.
        """
        found: list[TaskInfo] = []
        token = ""
        while len(found) < limit:
            request = f.ListTasksRequest(
                status=None if status is None else status.name,
                page_size=min(limit - len(found), MAX_BATCH),
                page_token=token,
            )
            setattr(request, "lambda", lambda_name)
            reply = await self._calls.list_tasks(request)
            found += map(TaskInfo.from_proto, reply.tasks)
            token = reply.next_page_token
            if not token:
                break
        return found

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

    async def cancel(self, task_id: str) -> bool:
        """Cancels a task that has not started, or asks one that runs to stop.

        Returns:
            whether either was done; False: it has finished before.

        Raises:
            TaskNotFound: there is no such task.
        """
        request = f.CancelTasksRequest(ids=[task_id])
        reply = await self._calls.cancel_tasks(request)
        result = reply.results[0]
        if not result.status:
            raise _no_task(task_id)
        return result.cancelled or result.cancel_requested

    async def retry(self, task_id: str) -> bool:
        """Starts a failed or cancelled task afresh: its attempts count from 0.

        Returns:
            whether it was; False: it has succeeded, or has not finished yet.

        Raises:
            TaskNotFound: there is no such task.
            FailedPrecondition: another task, which has not finished, holds its unique key.
        """
        reply = await self._calls.retry_tasks(f.RetryTasksRequest(ids=[task_id]))
        (result,) = reply.results
        if not result.status:
            raise _no_task(task_id)
        if result.held_by:
            raise FailedPrecondition(f"task {task_id} can't run again: {key_held(result.held_by)}")
        return result.retried

    async def run_job_now(self, name: str) -> Handle[Any]:
        """Makes a task of a job now, beside its ticks.

        Raises:
            NotFound: there is no such job.
        """
        request = f.RunJobNowRequest(name=name, task_id=new_id(self._runtime.random))
        return self.handle((await self._calls.run_job_now(request)).id)

    async def explain(self, task_id: str) -> Explanation:
        """Why a task has not started.

        Raises:
            TaskNotFound: there is no such task.
        """
        request = f.ExplainTaskRequest(id=task_id)
        return Explanation.from_proto(await self._calls.explain_task(request))


def _line(option: str, of: str = "thumbnail") -> str:
    return f"write {of}.options({option}=…).prepare(…)"


def _refuse_beside(task: Prepared[Any], options: CallOptions) -> None:
    """Raises TypeError for what was given beside a prepared task, and would be dropped."""
    lambda_name: str = getattr(task.request.spec, "lambda")
    of = lambda_name.rpartition("/")[2]
    check_names("schedule()", options, CallOptions.__annotations__)
    for name, value in options.items():
        raise TypeError(
            f"schedule(): {name}={short(value)} beside a prepared task, which has its own options: {_line(name, of)}"
        )
    raise TypeError(f"schedule(): a payload beside a prepared task, which has its own: write {of}.prepare(…) with it")


def _not_prepared(call: str, given: object) -> TypeError:
    of = given.name.rpartition("/")[2] if isinstance(given, Schedulable) else "thumbnail"
    return TypeError(f"{call}: {short(given)} is no prepared task: write {of}.prepare(…) with its arguments")


def _no_task(task_id: str) -> TaskNotFound:
    return TaskNotFound(f"there is no task {task_id}, or its record has expired")
