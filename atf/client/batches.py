"""Batches: the part of AsyncClient that makes them, looks at them and commands them."""

from __future__ import annotations

import asyncio
import builtins
import math
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack, cast, overload

from atf.calls.retry import RetryPolicy, retry
from atf.durability import durability_of
from atf.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, TaskCancelled, TaskFailed
from atf.rpc import batch_pb2 as b
from atf.rpc import task_pb2 as t
from atf.runtime import Runtime, new_id
from atf.sdk.batch import ItemStatus, link_id
from atf.sdk.chains import Chain
from atf.sdk.items import Elements, Target, check_target, elements_of
from atf.sdk.lambdas import Schedulable
from atf.sdk.option_kinds import BatchOptions
from atf.sdk.payload import short
from atf.sdk.work_items import EXTRA_FIRST, check_batch_id
from atf.task import MAX_BATCH, US, check_lambda

from .batch import PAGE, Batch, BatchProgress, R, error_of
from .batch_spec import MESSAGE_ITEMS, batch_spec
from .chain import ChainHandle
from .chunks import chunks_of, skip
from .loop_bridge import LoopBridge
from .submit import Chunk, Chunker, check_batch_size, check_count, count_async, count_of

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .retrying import Calls

_ENDED: Final = frozenset(int(each) for each in ItemStatus if each.finished)
_FAILED: Final = (ItemStatus.PERMANENTLY_FAILED, ItemStatus.CANCELLED)
_OF_LINK: Final = "callback 0, "
"""What a batch's error begins with that is about the next link of its chain; with another number it is about another callback."""
_UNTIL_THERE: Final = RetryPolicy(first=0.01, most=1.0, errors=(NotFound,))
_PAUSE: Final = 0.25
"""Seconds until a batch that lacks an item is looked at again: nobody tells when its maker sends it."""


@dataclass(frozen=True)
class BatchPlan:
    """A batch that is about to be made, or gone on with."""

    header: b.BatchHeader
    elements: Elements
    batch_size: int
    resumes: bool
    """Whether its maker gave it an id, so that it may be there already."""


class BatchCalls:
    """The calls of AsyncClient about batches."""

    _calls: Calls
    _runtime: Runtime
    _loop_bridge: LoopBridge

    # --- making them --------------------------------------------------------------------------------------------------

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
            labels: of every item.
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
        header = b.BatchHeader(id=self._new_batch_id(options), spec=spec, keep_open=bool(options.get("keep_open")))
        if "durability" in options:
            header.durability = cast("t.Durability", int(durability_of(options["durability"])))
        batch_size = check_batch_size(options.get("batch_size", MESSAGE_ITEMS))
        return BatchPlan(header, elements, batch_size, "batch_id" in options)

    def _new_batch_id(self, options: BatchOptions) -> str:
        return check_batch_id(options["batch_id"]) if "batch_id" in options else new_id(self._runtime.random, 80)

    def handle_of(self, plan: BatchPlan) -> Batch[Any]:
        """The handle of a batch that was made."""
        return Batch(cast("AsyncClient", self), self._loop_bridge, plan.header.id, plan.elements)

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

    # --- looking at them ----------------------------------------------------------------------------------------------

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
        return Batch(cast("AsyncClient", self), self._loop_bridge, check_batch_id(batch_id), elements)

    async def batches(self, lambda_name: str = "", *, limit: int = 100) -> builtins.list[BatchProgress]:
        """Batches.

        Args:
            lambda_name: only those of this lambda; empty: of all.
            limit: how many at most.
        """
        found: builtins.list[BatchProgress] = []
        request = b.ListBatchesRequest()
        setattr(request, "lambda", lambda_name)
        while len(found) < limit:
            request.page_size = min(limit - len(found), MAX_BATCH)
            reply = await self._calls.list_batches(request)
            found += map(BatchProgress.from_proto, reply.batches)
            request.page_token = reply.next_page_token
            if not request.page_token:
                break
        return found

    async def get_batch(self, batch_id: str, until: float | None = None) -> b.Batch:
        """A batch as the frontend sent it; `until`: as of Calls."""
        return await self._calls.get_batch(b.GetBatchRequest(id=batch_id), until)

    def watch_batch(self, batch_id: str, every: float) -> AsyncGenerator[b.Batch, None]:
        """The batch whenever it has changed, as the frontend sent it; the last has ended."""
        return self._calls.watch_batch(b.WatchBatchRequest(id=batch_id, at_most_every_us=round(every * US)))

    async def wait_batch(self, batch_id: str, timeout: float | None) -> b.Batch:
        """The batch once it has ended."""
        batch, why, end = b.Batch(), None, self._end(timeout)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout), aclosing(self.watch_batch(batch_id, 1.0)) as seen:
                async for batch in seen:
                    if batch.ended_at_us:
                        return batch
        try:  # once more: it may have been between two streams when its time was over, or have had no time at all
            batch = await self.get_batch(batch_id, end)
        except TimeoutError as error:
            why = error.__cause__
        if batch.ended_at_us:
            return batch
        left = batch.items - batch.done - batch.permanently_failed - batch.cancelled
        what = f"; {left} of {batch.items} items are left" if batch.items else ""
        gone = f", and the frontend is away: {why}" if why else ""
        raise TimeoutError(f"batch {batch_id} has not ended within {timeout:g} s{what}{gone}") from why

    async def batch_items(
        self, batch_id: str, statuses: Iterable[ItemStatus], *, arguments: bool = False, until: float | None = None
    ) -> AsyncGenerator[builtins.list[b.Item], None]:
        """The items in their order, a page at a time; `until`: as of Calls."""
        request = b.ListBatchItemsRequest(
            id=batch_id, statuses=[each.value for each in statuses], page_size=PAGE, with_arguments=arguments
        )
        while True:
            reply = await self._calls.list_batch_items(request, until)
            yield builtins.list(reply.items)
            request.page_token = reply.next_page_token
            if not request.page_token:
                return

    async def finished_items(self, batch_id: str, timeout: float | None) -> AsyncGenerator[builtins.list[b.Item], None]:
        """All items in their order, a page at a time, each when it has ended."""
        until = self._end(timeout)
        request, seen, ended_before = b.ListBatchItemsRequest(id=batch_id, page_size=PAGE), 0, False
        while True:
            reply = await self._calls.list_batch_items(request, until)
            complete, ended_before = ended_before, False
            ended = _first_ended(reply.items, request.first)
            request.first += len(ended)
            seen += len(ended)
            if ended:
                yield ended
            if len(ended) < len(reply.items):
                item = reply.items[len(ended)]
                if item.number == request.first:
                    await self._wait_for(batch_id, item, until)
                elif complete:
                    request.first = item.number  # those between were announced, and never stored
                else:
                    batch = await self.get_batch(batch_id, until)
                    ended_before = batch.ended_at_us > 0
                    if item.number >= EXTRA_FIRST > request.first >= batch.prefix and batch.sealed:
                        request.first = EXTRA_FIRST
                    elif not ended_before:
                        await self._wait_a_while(batch_id, request.first, until)
            elif not reply.next_page_token:
                batch = await self.get_batch(batch_id, until)
                if batch.sealed and seen >= batch.items:
                    return
                await self._wait_a_while(batch_id, request.first, until)

    async def _wait_for(self, batch_id: str, item: b.Item, until: float) -> None:
        if not await cast("AsyncClient", self).wait_tasks([item.task_id], timeout=self._left(until)):
            raise TimeoutError(f"item {item.number} of batch {batch_id} has not ended in time")

    def _end(self, timeout: float | None) -> float:
        """When a wait is over, on the monotonic clock."""
        return math.inf if timeout is None else self._runtime.monotonic() + timeout

    def _left(self, until: float) -> float | None:
        return None if until == math.inf else max(0.0, until - self._runtime.monotonic())

    async def _wait_a_while(self, batch_id: str, number: int, until: float) -> None:
        if self._runtime.monotonic() >= until:
            raise TimeoutError(f"item {number} of batch {batch_id} was not there in time")
        await asyncio.sleep(_PAUSE)

    async def batch_item(self, batch_id: str, work_item_id: str, until: float | None = None) -> b.Item:
        """The item of a work-item id; `until`: as of Calls.

        Raises:
            NotFound: there is none.
        """
        request = b.ListBatchItemsRequest(id=batch_id, work_item_id=work_item_id, with_arguments=True)
        reply = await self._calls.list_batch_items(request, until)
        if not reply.items:
            raise NotFound(f"batch {batch_id} has no item {work_item_id}")
        return reply.items[0]

    async def finished_item(self, batch_id: str, work_item_id: str) -> b.Item:
        """The same, once it has ended."""
        item = await self.batch_item(batch_id, work_item_id, math.inf)
        while item.status not in _ENDED:
            await cast("AsyncClient", self).wait_tasks([item.task_id], timeout=None)
            item = await self.batch_item(batch_id, work_item_id, math.inf)
        return item

    # --- chains -------------------------------------------------------------------------------------------------------

    async def chain(self, chain: Chain[R], *, batch_id: str | None = None) -> ChainHandle[R]:
        """See Chain.submit."""
        plan = self.chain_plan(chain, batch_id)
        await self._make(plan, chain.items)
        return self.chain_handle_of(chain, plan)

    def chain_plan(self, chain: Chain[Any], batch_id: str | None) -> BatchPlan:
        """What a chain says of the batch that it begins with."""
        options = chain.options.copy()
        if batch_id is not None:
            if "batch_id" in options:
                raise TypeError("batch_id: .map_s(items, batch_id=…) has given it already; leave it out of .submit(…)")
            options["batch_id"] = batch_id
        plan = self.batch_plan(chain.of, options)
        chain.add_links(plan.header.spec)
        return plan

    def chain_handle_of(self, chain: Chain[R], plan: BatchPlan) -> ChainHandle[R]:
        """The handle of a chain that was submitted."""
        last = chain.links[-1].of.elements(None) if chain.links else plan.elements
        client = cast("AsyncClient", self)
        return ChainHandle(
            client, self._loop_bridge, plan.header.id, len(chain.links), last.decode, single=chain.single
        )

    async def wait_chain(self, batch_id: str, links: int, timeout: float | None) -> b.Batch:
        """The batch of a chain's last link once it has ended, or of the first that did not succeed."""
        until = self._end(timeout)
        while True:
            batch = await self.wait_batch(batch_id, self._left(until))
            if links == 0 or batch.status != b.BATCH_DONE:
                return batch
            links -= 1
            batch_id = await self._next_link(batch, until)

    async def _next_link(self, before: b.Batch, until: float | None) -> str:
        """The id of the link behind one that has ended, as soon as it is there.

        Args:
            before: that one.
            until: when the caller's wait is over; None: this belongs to no wait, and the client's `timeout` counts.

        Raises:
            TaskFailed: it can't be made.
            TimeoutError: it was not there in time.
        """
        batch_id = link_id(before.id, 0, before.round)
        end = self._runtime.monotonic() + self._calls.timeout if until is None else until

        async def look() -> str:
            try:
                await self.get_batch(batch_id, until)
            except NotFound:
                why = (await self.get_batch(before.id, until)).error
                if why.startswith(_OF_LINK) or (why and not why.startswith("callback ")):
                    raise _not_made(why.removeprefix(_OF_LINK)) from None
                raise
            return batch_id

        try:
            return await retry(look, _UNTIL_THERE, self._runtime, until=end, to_the_end=True)
        except NotFound:
            raise TimeoutError(f"batch {batch_id}, the next of the chain, was not there in time") from None

    async def chain_results(self, batch_id: str, links: int, timeout: float | None) -> builtins.list[b.Item]:
        """The items of a chain's last link.

        Raises:
            TaskFailed, TaskCancelled: a link did not succeed.
        """
        until = self._end(timeout)
        batch = await self.wait_chain(batch_id, links, timeout)
        if batch.status == b.BATCH_DONE:
            return [item async for page in self.batch_items(batch.id, [], until=until) for item in page]
        async with aclosing(self.batch_items(batch.id, _FAILED, until=until)) as pages:
            async for page in pages:
                if page:
                    raise error_of(batch.id, page[0])
        if batch.status == b.BATCH_CANCELLED:
            raise TaskCancelled(f"batch {batch.id} was cancelled")
        raise _not_made(batch.error or f"batch {batch.id} has no item left that says why it failed")

    async def cancel_chain(self, batch_id: str, links: int) -> b.Batch:
        """Cancels the link that has not ended."""
        batch = await self.get_batch(batch_id)
        while links and batch.status == b.BATCH_DONE:
            links -= 1
            batch = await self.get_batch(await self._next_link(batch, None))
        return await self.cancel_batch(batch.id)

    # --- what can be done to them -------------------------------------------------------------------------------------

    async def cancel_batch(self, batch_id: str) -> b.Batch:
        """See Batch.cancel."""
        return await self._calls.cancel_batch(b.CancelBatchRequest(id=batch_id))

    async def retry_batch(self, batch_id: str) -> b.Batch:
        """See Batch.retry."""
        return await self._calls.retry_batch(b.RetryBatchRequest(id=batch_id))

    async def delete_batch(self, batch_id: str) -> bool:
        """See Batch.delete."""
        return (await self._calls.delete_batch(b.DeleteBatchRequest(id=batch_id))).existed


def _first_ended(items: Iterable[b.Item], number: int) -> builtins.list[b.Item]:
    """The items from a number on, up to the first that is not there or has not ended."""
    ended: builtins.list[b.Item] = []
    for item in items:
        if item.number != number + len(ended) or item.status not in _ENDED:
            break
        ended.append(item)
    return ended


def _not_made(why: str) -> TaskFailed:
    return TaskFailed(f"the chain can't go on: its next step can't be made: {why}")


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
