"""A task store and a frontend that let the pipeline run only while the test, or somebody who waits, lets it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

from atf.config.settings import (
    FrontendSettings,
)
from atf.frontend.service import FrontendService
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.store import keys, library
from atf.store.store import Store
from atf.store.values.passes import EnqueuePass

from .runtime import VirtualRuntime


class GatedStore(Store):
    """A task store whose due tasks wait for the test's leave."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._next_us: dict[int, int] = {}
        self._open = asyncio.Event()
        self._holders = 0

    @contextlib.contextmanager
    def open_gate(self) -> Iterator[None]:
        """Within the block due tasks go to their queues."""
        self._holders += 1
        self._open.set()
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self._open.clear()

    async def enqueue(
        self, partition: int, believed_us: int, jobs: int = library.JOBS_PER_PASS, *, step_back: str = ""
    ) -> EnqueuePass:
        await self._open.wait()
        made = await super().enqueue(partition, believed_us, jobs, step_back=step_back)
        self._next_us.pop(partition, None)
        if made.next_in_us is not None:
            self._next_us[partition] = made.now_us + made.next_in_us
        return made

    @property
    def next_us(self) -> int | None:
        """When the store consumer must look again, by the store's clock; None: nothing is scheduled."""
        return min(self._next_us.values(), default=None)

    async def ring_due(self) -> None:
        """Has the store consumer look at once."""
        for partition in range(self.partitions):
            await self._link.command("SPUBLISH", keys.channel(partition, "due"), "")


class PipelineFrontend(FrontendService):
    """A frontend that lets the pipeline run while somebody waits for a task, and asks the executor before it answers."""

    def __init__(self, store: GatedStore, runtime: VirtualRuntime) -> None:
        super().__init__(store=store, settings=FrontendSettings(), runtime=runtime)
        self._gate = store
        self.beat: Callable[[], Awaitable[object]]

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        with self._gate.open_gate():
            return await super().wait_tasks(request, timeout=timeout)

    async def watch_batch(
        self, request: b.WatchBatchRequest, *, timeout: float = 3_600
    ) -> AsyncGenerator[b.Batch, None]:
        with self._gate.open_gate():
            async with contextlib.aclosing(super().watch_batch(request, timeout=timeout)) as seen:
                async for batch in seen:
                    yield batch

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float = 10) -> t.Task:
        await self.beat()
        return await super().get_task(request, timeout=timeout)

    async def list_tasks(self, request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        await self.beat()
        return await super().list_tasks(request, timeout=timeout)

    async def cancel_tasks(self, request: f.CancelTasksRequest, *, timeout: float = 10) -> f.CancelTasksReply:
        reply = await super().cancel_tasks(request, timeout=timeout)
        await self.beat()
        return reply
