"""A client's calls where it has codec keys: arguments leave encrypted, and what comes back is decrypted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from atf.codec.cipher import Cipher
from atf.codec.requests import seal_filter, seal_job, seal_task
from atf.codec.results import open_item, open_log, open_task
from atf.errors import AtfError
from atf.rpc import api, batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.rpc.caller_security import CallerSecurity
from atf.runtime import Runtime

from .calls import Calls


class EncryptedCalls(Calls):
    """Every call of a client that encrypts. Items of batches are encrypted where they are gathered (batch_upload.py).

    Args:
        cipher: what encrypts.
        address, timeout, frontend, runtime, security: as of RepeatingCalls.
    """

    def __init__(
        self,
        cipher: Cipher,
        address: str,
        timeout: float,
        frontend: api.Frontend | None,
        runtime: Runtime,
        security: CallerSecurity | None = None,
    ) -> None:
        super().__init__(address, timeout, frontend, runtime, security)
        self._cipher = cipher

    # --- out ----------------------------------------------------------------------------------------------------------

    async def schedule(self, request: f.ScheduleRequest) -> f.ScheduleReply:
        return await super().schedule(seal_task(self._cipher, request))

    async def schedule_all(self, requests: Sequence[f.ScheduleRequest]) -> list[f.ScheduleReply | AtfError]:
        return await super().schedule_all([seal_task(self._cipher, each) for each in requests])

    async def schedule_job(self, request: f.ScheduleJobRequest) -> j.Job:
        return await super().schedule_job(seal_job(self._cipher, request))

    def _hashed(self, request: Any) -> Any:
        """A request whose searched values are hashed."""
        if not request.HasField("filter") or not request.filter.search:
            return request
        hashed: Any = type(request)()
        hashed.CopyFrom(request)
        seal_filter(self._cipher, hashed.filter)
        return hashed

    async def count_tasks(self, request: f.CountTasksRequest, until: float | None = None, /) -> f.CountTasksReply:  # type: ignore[override]  # of a descriptor's kind
        return await super().count_tasks(self._hashed(request), until)

    async def cancel_matching(  # type: ignore[override]  # of a descriptor's kind
        self, request: f.CancelMatchingRequest, until: float | None = None, /
    ) -> f.CancelMatchingReply:
        return await super().cancel_matching(self._hashed(request), until)

    async def redrive(self, request: f.RedriveRequest, until: float | None = None, /) -> f.RedriveReply:  # type: ignore[override]  # of a descriptor's kind
        return await super().redrive(self._hashed(request), until)

    # --- in -----------------------------------------------------------------------------------------------------------

    async def list_tasks(self, request: f.ListTasksRequest, until: float | None = None, /) -> f.ListTasksReply:  # type: ignore[override]  # of a descriptor's kind
        reply = await super().list_tasks(self._hashed(request), until)
        for each in reply.tasks:
            open_task(self._cipher, each)
        return reply

    async def get_task(self, request: f.GetTaskRequest, until: float | None = None, /) -> t.Task:  # type: ignore[override]  # of a descriptor's kind
        return open_task(self._cipher, await super().get_task(request, until))

    async def explain_task(self, request: f.ExplainTaskRequest, until: float | None = None, /) -> f.ExplainTaskReply:  # type: ignore[override]  # of a descriptor's kind
        reply = await super().explain_task(request, until)
        open_task(self._cipher, reply.task)
        return reply

    async def wait_tasks(self, ids: Sequence[str], until: float, *, first: bool) -> f.WaitTasksReply:
        reply = await super().wait_tasks(ids, until, first=first)
        for each in reply.tasks:
            open_task(self._cipher, each)
        return reply

    async def list_batch_items(  # type: ignore[override]  # of a descriptor's kind
        self, request: b.ListBatchItemsRequest, until: float | None = None, /
    ) -> b.ListBatchItemsReply:
        reply = await super().list_batch_items(request, until)
        for each in reply.items:
            open_item(self._cipher, each)
        return reply

    async def get_log(self, request: f.GetLogRequest, until: float | None = None, /) -> f.GetLogReply:  # type: ignore[override]  # of a descriptor's kind
        return open_log(self._cipher, request.id, await super().get_log(request, until))

    async def watch_log(self, request: f.WatchLogRequest) -> AsyncGenerator[f.GetLogReply, None]:
        async with aclosing(super().watch_log(request)) as seen:
            async for log in seen:
                yield open_log(self._cipher, request.id, log)
