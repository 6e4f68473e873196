"""A frontend without a store, for tests of what a client does with batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from atf.client import AsyncClient
from atf.errors import AlreadyExists, AtfError, FailedPrecondition, NotFound
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.rpc.api import Frontend
from atf.sdk.work_items import digest_of, texts_of
from atf.testing.runtime import VirtualRuntime
from tests.sdk.fakes import ROUND_TRIP

ENDED = {b.ITEM_DONE, b.ITEM_PERMANENTLY_FAILED, b.ITEM_CANCELLED}


@dataclass
class Kept:
    """A batch as the fake keeps it."""

    spec: b.BatchSpec
    items: list[b.Item] = field(default_factory=list)
    sealed: bool = False
    prefix: int = 0
    cancelled: bool = False
    error: str = ""
    extensions: set[str] = field(default_factory=set)

    def shown(self, batch_id: str) -> b.Batch:
        count = {status: sum(each.status == status for each in self.items) for status in b.ItemStatus.values()}
        done, failed, off = (
            count[b.ItemStatus.Value(each)] for each in ("ITEM_DONE", "ITEM_PERMANENTLY_FAILED", "ITEM_CANCELLED")
        )
        ended = self.sealed and done + failed + off == len(self.items)
        status = b.BATCH_IN_PROGRESS
        if ended:
            status = (
                b.BATCH_CANCELLED if self.cancelled else b.BATCH_DONE_WITH_FAILURES if failed + off else b.BATCH_DONE
            )
        shown = b.Batch(
            id=batch_id, status=status, items=len(self.items), created=count[b.ITEM_CREATED], done=done,
            permanently_failed=failed, cancelled=off, sealed=self.sealed, prefix=self.prefix,
            created_at_us=1_000_000, ended_at_us=9_000_000 if ended else 0, round=1, now_us=3_000_000,
        )  # fmt: skip
        shown.error = self.error
        setattr(shown, "lambda", getattr(self.spec, "lambda"))
        return shown


@dataclass
class FakeBatches:
    """Keeps batches as the real one does, with no tasks behind them; and fails as it is told."""

    batches: dict[str, Kept] = field(default_factory=dict)
    headers: list[b.BatchHeader] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Of the messages with items."""
    failures: list[AtfError] = field(default_factory=list)
    """Raised by the next ScheduleBatch, after the first message with items was stored."""
    run: Callable[[b.Item], None] | None = None
    """What becomes of an item when it is stored; None: it waits."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    page: int = 3
    """Items of a page at most, so that paging is seen."""
    asked: list[b.ListBatchItemsRequest] = field(default_factory=list)

    async def schedule_batch(
        self, requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 10
    ) -> b.ScheduleBatchReply:
        header = (await anext(requests)).header
        self.headers.append(header)
        await asyncio.sleep(ROUND_TRIP)
        kept = self.batches.get(header.id)
        if kept is None:
            if not header.HasField("spec"):
                raise NotFound(f"no batch {header.id}")
            kept = self.batches[header.id] = Kept(header.spec)
        elif header.HasField("spec") and header.spec != kept.spec:
            raise AlreadyExists(f"batch {header.id} is described otherwise")
        if kept.cancelled:
            raise FailedPrecondition(f"batch {header.id} was cancelled")
        number = len(kept.items) if header.extend else header.first
        again = header.extend and header.request_id in kept.extensions
        stored = 0
        async for request in requests:
            if request.WhichOneof("part") == "end":
                break
            self.sizes.append(len(request.items.items))
            for each in request.items.items:
                if number == len(kept.items) and not again:
                    kept.items.append(self._item(kept, each, number))
                    stored += 1
                number += 1
            kept.prefix = kept.prefix if header.extend else max(kept.prefix, number)
            if self.failures:
                raise self.failures.pop(0)
        else:
            raise AssertionError("the stream has no end of its own")
        if not header.extend:  # an extension closes no batch, as its maker may still be at work
            kept.sealed = kept.sealed or not header.keep_open
        kept.extensions.add(header.request_id)
        self._ring()
        return b.ScheduleBatchReply(id=header.id, stored=stored, items=len(kept.items))

    def _item(self, kept: Kept, given: b.BatchItem, number: int) -> b.Item:
        texts = list(given.arguments) or texts_of(given.payload)
        work_item_id = digest_of(getattr(kept.spec, "lambda"), texts)
        if any(each.work_item_id == work_item_id for each in kept.items):
            work_item_id += f"-{number}"
        task_id = f"0-x.{work_item_id}"
        item = b.Item(number=number, work_item_id=work_item_id, task_id=task_id, arguments=texts, payload=given.payload)
        item.chunk = given.target
        if self.run is not None:
            self.run(item)
        return item

    def finish(self, batch_id: str, number: int, result: bytes) -> None:
        item = self.batches[batch_id].items[number]
        item.status, item.result = b.ITEM_DONE, result
        self._ring()

    def _ring(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def _kept(self, batch_id: str) -> Kept:
        if batch_id not in self.batches:
            raise NotFound(f"there is no batch {batch_id}")
        return self.batches[batch_id]

    async def get_batch(self, request: b.GetBatchRequest, *, timeout: float = 10) -> b.Batch:
        await asyncio.sleep(ROUND_TRIP)
        return self._kept(request.id).shown(request.id)

    async def list_batches(self, request: b.ListBatchesRequest, *, timeout: float = 10) -> b.ListBatchesReply:
        first = int(request.page_token or 0)
        found = [each.shown(name) for name, each in self.batches.items()]
        token = str(first + 1) if first + 1 < len(found) else ""
        return b.ListBatchesReply(batches=found[first : first + 1], next_page_token=token)

    async def list_batch_items(self, request: b.ListBatchItemsRequest, *, timeout: float = 10) -> b.ListBatchItemsReply:
        self.asked.append(b.ListBatchItemsRequest())
        self.asked[-1].CopyFrom(request)
        items = self._kept(request.id).items
        if request.work_item_id:
            return b.ListBatchItemsReply(items=[each for each in items if each.work_item_id == request.work_item_id])
        first = int(request.page_token or request.first)
        end = first + min(request.page_size, self.page)
        some = [each for each in items[first:end] if not request.statuses or each.status in request.statuses]
        return b.ListBatchItemsReply(items=some, next_page_token=str(end) if end < len(items) else "")

    async def watch_batch(self, request: b.WatchBatchRequest, *, timeout: float = 10) -> AsyncGenerator[b.Batch, None]:
        while True:
            changed = self.changed
            batch = self._kept(request.id).shown(request.id)
            yield batch
            if batch.ended_at_us:
                return
            await changed.wait()

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        items = [each for kept in self.batches.values() for each in kept.items if each.task_id in request.ids]
        try:
            async with asyncio.timeout(request.timeout_us / 1e6):
                while any(each.status not in ENDED for each in items):
                    await self.changed.wait()
        except TimeoutError:
            return f.WaitTasksReply()
        return f.WaitTasksReply(tasks=[t.Task(id=each.task_id, status=t.SUCCESS) for each in items])

    async def cancel_batch(self, request: b.CancelBatchRequest, *, timeout: float = 10) -> b.Batch:
        kept = self._kept(request.id)
        kept.sealed = kept.cancelled = True
        for item in kept.items:
            if item.status not in ENDED:
                item.status = b.ITEM_CANCELLED
        self._ring()
        return kept.shown(request.id)

    async def retry_batch(self, request: b.RetryBatchRequest, *, timeout: float = 10) -> b.Batch:
        for item in self._kept(request.id).items:
            if item.status == b.ITEM_PERMANENTLY_FAILED:
                item.status = b.ITEM_CREATED
        return self._kept(request.id).shown(request.id)

    async def delete_batch(self, request: b.DeleteBatchRequest, *, timeout: float = 10) -> b.DeleteBatchReply:
        return b.DeleteBatchReply(existed=self.batches.pop(request.id, None) is not None)


def faked_batches(frontend: FakeBatches) -> Frontend:
    """For a client that is asked about batches alone."""
    return cast("Frontend", frontend)


@dataclass
class World:
    """A client and the frontend that it talks to, on one virtual clock."""

    client: AsyncClient
    frontend: FakeBatches
    runtime: VirtualRuntime


@asynccontextmanager
async def batch_world(runtime: VirtualRuntime) -> AsyncIterator[World]:
    frontend = FakeBatches()
    async with AsyncClient(timeout=10, frontend=faked_batches(frontend), runtime=runtime) as client:
        yield World(client, frontend, runtime)


def doubled(item: b.Item) -> None:
    """As if a handler had given back its only argument, twice."""
    value: Any = texts_of(item.payload)[0]
    item.status, item.result = b.ITEM_DONE, f"[{value},{value}]".encode()
