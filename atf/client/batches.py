"""Reads, awaits and commands batches that are there, as a part of AsyncClient."""

from __future__ import annotations

import asyncio
import builtins
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Final

from atf.codec.cipher import Cipher
from atf.errors import NotFound
from atf.rpc import batch_pb2 as b
from atf.sdk.batch import ItemStatus
from atf.sdk.batch_info import BatchProgress
from atf.sdk.messages import of_lambda
from atf.sdk.work_items import EXTRA_FIRST
from atf.task import US

from .paging import entries
from .tasks import TaskCalls
from .whoami import signed

_PAGE: Final = 500
"""Items of a page of results; fewer come where they are large."""
_ENDED: Final = frozenset(int(each) for each in ItemStatus if each.finished)
_PAUSE: Final = 0.25
"""Seconds until a batch that lacks an item is looked at again: nobody tells when its maker sends it."""


class BatchCalls(TaskCalls):
    """The calls of AsyncClient about batches that are there."""

    _cipher: Cipher | None

    async def batches(self, lambda_name: str = "", *, limit: int = 100) -> builtins.list[BatchProgress]:
        """Batches.

        Args:
            lambda_name: only those of this lambda; empty: of all.
            limit: how many at most.
        """
        request = b.ListBatchesRequest(**of_lambda(lambda_name))
        found = await entries(self._calls.list_batches, request, lambda page: page.batches, limit)
        return [BatchProgress.from_proto(each) for each in found]

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

    def hide_texts(self, texts: Sequence[str]) -> builtins.list[str]:
        """What the work-item id of an item is made of: the canonical texts of its arguments, or their hash where they are encrypted."""
        if self._cipher is None:
            return builtins.list(texts)
        from atf.codec.values import hashed_texts

        return hashed_texts(self._cipher, texts)

    async def batch_items(
        self, batch_id: str, statuses: Iterable[ItemStatus], *, arguments: bool = False, until: float | None = None
    ) -> AsyncGenerator[builtins.list[b.Item], None]:
        """The items in their order, a page at a time; `until`: as of Calls."""
        request = b.ListBatchItemsRequest(
            id=batch_id, statuses=[each.value for each in statuses], page_size=_PAGE, with_arguments=arguments
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
        request, seen, ended_before = b.ListBatchItemsRequest(id=batch_id, page_size=_PAGE), 0, False
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
        if not await self.wait_tasks([item.task_id], timeout=self._left(until)):
            raise TimeoutError(f"item {item.number} of batch {batch_id} has not ended in time")

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
            await self.wait_tasks([item.task_id], timeout=None)
            item = await self.batch_item(batch_id, work_item_id, math.inf)
        return item

    # --- what can be done to them -------------------------------------------------------------------------------------

    async def cancel_batch(self, batch_id: str, *, why: str = "", who: str = "") -> b.Batch:
        """See Batch.cancel."""
        return await self._calls.cancel_batch(b.CancelBatchRequest(id=batch_id, **signed(who, why)))

    async def retry_batch(self, batch_id: str, *, why: str = "", who: str = "") -> b.Batch:
        """See Batch.retry."""
        return await self._calls.retry_batch(b.RetryBatchRequest(id=batch_id, **signed(who, why)))

    async def delete_batch(self, batch_id: str, *, why: str = "", who: str = "") -> bool:
        """See Batch.delete."""
        return (await self._calls.delete_batch(b.DeleteBatchRequest(id=batch_id, **signed(who, why)))).existed


def _first_ended(items: Iterable[b.Item], number: int) -> builtins.list[b.Item]:
    """The items from a number on, up to the first that is not there or has not ended."""
    ended: builtins.list[b.Item] = []
    for item in items:
        if item.number != number + len(ended) or item.status not in _ENDED:
            break
        ended.append(item)
    return ended
