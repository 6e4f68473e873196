"""Makes and extends batches, as a part of AsyncClient: sends their items in chunks, and goes on where a call broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Unpack, cast, overload

from atf.durability import durability_of
from atf.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from atf.rpc import batch_pb2 as b, task_pb2 as t
from atf.runtime import new_id
from atf.sdk.batch_handle import Batch, R
from atf.sdk.items import Elements, Target, check_target, elements_of
from atf.sdk.option_kinds import BatchOptions
from atf.sdk.payload import short
from atf.sdk.schedulable import Schedulable
from atf.sdk.tracing import making
from atf.sdk.work_items import check_batch_id
from atf.task import check_lambda

from .batch_spec import MESSAGE_ITEMS, batch_spec
from .batches import BatchCalls
from .chunks import chunks_of, skip
from .submit import Chunk, Chunker, check_batch_size, check_count, count_async, count_of


@dataclass(frozen=True)
class BatchPlan:
    """A batch that is about to be made, or gone on with."""

    header: b.BatchHeader
    elements: Elements
    batch_size: int
    resumes: bool
    """Whether its maker gave it an id, so that it may be there already."""


class BatchUploads(BatchCalls):
    """The calls of AsyncClient that send items of batches."""

    @overload
    async def batch(
        self, of: Schedulable[..., R], items: Iterable[Any] | AsyncIterable[Any], **options: Unpack[BatchOptions]
    ) -> Batch[R]: ...
    @overload
    async def batch(
        self, of: str, items: Iterable[Any] | AsyncIterable[Any], **options: Unpack[BatchOptions]
    ) -> Batch[Any]: ...
    async def batch(
        self,
        of: Schedulable[..., Any] | str,
        items: Iterable[Any] | AsyncIterable[Any],
        **options: Unpack[BatchOptions],
    ) -> Batch[Any]:
        """Makes a task for each of many lists of arguments; returns when all of them are stored.

        The iterable may be a generator of millions: memory holds some thousands of elements. A tuple is arguments by position, a
        mapping arguments by name, anything else the only argument; of "atf/command" an element is a command line, a list of texts.
        An async generator is read and closed in one asyncio task, and may hold a timeout or a TaskGroup across its yields.

        With a `batch_id` the same call may be made again after it broke off, by another process, too: it passes over the items
        that are stored, and nothing is doubled.

        Args:
            of: the lambda, perhaps with options, or its full name.
            items: the elements.
            batch_id: 1 to 20 of A-Z a-z 0-9 _ -; default a new one.
            batch_size: items of one message, at most 1000; default that.
            max_attempts, max_losses, timeout, backoff, priority: of every item, as for `options`. The frontends bound max_attempts
                (default 10).
            retention: seconds, a timedelta or text such as "5m" that the batch is kept after its end, with its items.
            labels: of every item. Never encrypted.
            max_in_flight: items in queues and at work at once.
            pause: seconds, a timedelta or text such as "5m" between the end of an item and the start of the next one with the same target.
            target: what the pause is kept between: the name of an argument, or what makes a text of an element.
            workers: items are dealt round-robin into so many chunks, of each of which one runs at a time.
            affinity_key: as for `options`.
            on_success, on_failure, on_complete: what runs when all items have succeeded; when an item failed for good or was
                cancelled; in any case. A lambda, its name, `lambda.s(...)`, or a list; it is given the batch's summary as `batch`.
            durability: "relaxed", "disk" or "replicated", of every item.
            keep_open: more items come later, by `extend` or by the same call with more of them; the batch does not end before
                `close`.

        Raises:
            InvalidArgument: an option breaks its rule; or an item does not fit: the message says which. The batch stays open with
                the items before it, and the same call with its id goes on.
            AlreadyExists: the id is another batch's.
            FailedPrecondition: the batch was cancelled, or was made of more items or fewer.
            UnknownLambda: no such lambda is registered.
            Unavailable, DeadlineExceeded, ResourceExhausted: not all could be stored within the timeout; go on likewise.
        """
        plan = self.batch_plan(of, options)
        with making(plan.header):
            await self._make(plan, items)
        return self.handle_of(plan)

    async def _make(self, plan: BatchPlan, items: Iterable[Any] | AsyncIterable[Any]) -> None:
        chunker: Chunker | None = None
        try:
            chunker = await self.begin_batch(plan)
            if chunker.closed:
                most = chunker.taken + 1
                count = await count_async(items, most) if isinstance(items, AsyncIterable) else count_of(items, most)
                check_count(plan.header.id, chunker.taken, count)
            else:
                await self.feed(chunker, skip(items, chunker.taken) if chunker.taken else items)
        except Exception as error:
            add_note(error, plan, chunker)
            raise

    def batch_plan(self, of: Schedulable[..., Any] | str, options: BatchOptions) -> BatchPlan:
        """What the options say.

        Raises:
            InvalidArgument, TypeError: as for `batch`.
        """
        target = options.get("target")
        check_target(target)
        if isinstance(of, Schedulable):
            elements: Elements = of.elements(target)
            spec = batch_spec(of.name, options, of.batch_template())
        else:
            name = check_lambda(of)
            elements, spec = elements_of(name, target), batch_spec(name, options)
        batch_id = check_batch_id(options["batch_id"]) if "batch_id" in options else new_id(self._runtime.random, 80)
        header = b.BatchHeader(id=batch_id, spec=spec, keep_open=bool(options.get("keep_open")))
        if "durability" in options:
            header.durability = cast("t.Durability", int(durability_of(options["durability"])))
        batch_size = check_batch_size(options.get("batch_size", MESSAGE_ITEMS))
        return BatchPlan(header, elements, batch_size, "batch_id" in options)

    def batch_handle(
        self, batch_id: str, of: Schedulable[..., R] | str | None = None, *, target: Target | None = None
    ) -> Batch[R]:
        """The handle of a batch that was made elsewhere; asks nobody.

        Args:
            batch_id: its id.
            of: its lambda, or the lambda's name: what finds items by their arguments, extends it, and types its results.
            target: of the items that `extend` adds to a batch with a pause, as for `batch`.
        """
        check_target(target)
        if target is not None and of is None:
            raise TypeError(
                f"batch_handle(): target={short(target)} of which lambda's items? Write client.batch_handle(id, of=thumbnail, target=…)"
            )
        elements: Elements | None = None
        if isinstance(of, Schedulable):
            elements = of.elements(target)
        elif of is not None:
            elements = elements_of(check_lambda(of), target)
        return Batch(self, self._loop_bridge, check_batch_id(batch_id), elements)

    def handle_of(self, plan: BatchPlan) -> Batch[Any]:
        """The handle of a batch that was made."""
        return Batch(self, self._loop_bridge, plan.header.id, plan.elements)

    async def begin_batch(self, plan: BatchPlan) -> Chunker:
        """What cuts the items that are not stored yet. Of a batch that is `closed`, the caller holds the number of its items against
        `taken`: what has extended it since is none of this call's.

        Raises:
            AlreadyExists: a batch of this id is closed, and described otherwise.
        """
        there: b.Batch | None = None
        if plan.resumes:
            with suppress(NotFound):
                there = await self.get_batch(plan.header.id)
        first = there.prefix if there is not None else 0
        chunker = Chunker(plan.header, plan.elements, first, plan.batch_size, self._runtime.monotonic)
        if there is not None:
            chunker.begun, chunker.closed = True, there.sealed
        if chunker.closed:
            await self.send_chunk(chunker, chunker.rest(last=True))  # refused where the description is another
        return chunker

    async def feed(self, chunker: Chunker, items: Iterable[Any] | AsyncIterable[Any]) -> None:
        """Sends all items, while the next ones are taken in, and closes the batch. Where one does not fit, those before it are sent."""
        failed: Exception | None = None
        sending: asyncio.Task[None] | None = None
        chunks = chunks_of(chunker, items)
        try:
            while failed is None:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
                except Exception as error:  # noqa: BLE001  it is raised below
                    failed = error
                    break
                if sending is not None:
                    await sending
                sending = self._runtime.spawn(self.send_chunk(chunker, chunk), name="batch")
            if sending is not None:
                await sending
        finally:
            await chunks.aclose()
            if sending is not None:
                sending.cancel()
        await self.send_chunk(chunker, chunker.rest(last=failed is None))
        if failed is not None:
            raise failed

    async def send_chunk(self, chunker: Chunker, chunk: Chunk) -> None:
        """Has a chunk stored."""
        if self._cipher is not None:
            from atf.codec.requests import seal_chunk

            chunk = seal_chunk(self._cipher, chunker.lambda_name, chunk)
        await self._calls.schedule_batch(chunk)
        chunker.stored()

    async def extend_batch(
        self,
        batch_id: str,
        elements: Elements,
        items: Iterable[Any] | AsyncIterable[Any],
        *,
        request_id: str = "",
    ) -> b.Batch:
        """See Batch.extend."""
        header = b.BatchHeader(id=batch_id, extend=True)
        header.request_id = request_id or new_id(self._runtime.random)
        await self.feed(Chunker(header, elements, 0, MESSAGE_ITEMS, self._runtime.monotonic), items)
        return await self.get_batch(batch_id)

    async def close_batch(self, batch_id: str) -> b.Batch:
        """See Batch.close. Nobody can tell a batch that was kept open from one whose maker is between two chunks, or broke off."""
        batch = await self.get_batch(batch_id)
        if not batch.sealed:
            header = b.BatchHeader(id=batch_id, first=batch.prefix)
            await self._calls.schedule_batch([b.ScheduleBatchRequest(header=header)])
            batch = await self.get_batch(batch_id)
        return batch


def add_note(error: BaseException, plan: BatchPlan, chunker: Chunker | None) -> None:
    """Says how whoever made the call goes on, if the same call does."""
    if goes_on(error, begun=chunker is not None and chunker.begun):
        error.add_note(f"to go on where this ended, make the same call with batch_id={plan.header.id!r}")


def goes_on(error: BaseException, *, begun: bool) -> bool:
    """Whether the same call, with the batch's id, goes on where an error ended it.

    Args:
        error: what ended it.
        begun: whether the batch is known to be there.
    """
    if isinstance(error, AlreadyExists | FailedPrecondition | NotFound):
        return False
    # The frontend stores the items before one that it refuses.
    return begun or not isinstance(error, InvalidArgument) or str(error).startswith("item ")
