"""Submits chains, follows them from link to link and cancels them, as a part of AsyncClient."""

from __future__ import annotations

import builtins
from contextlib import aclosing
from typing import Any, Final

from atf.calls.retry import RetryPolicy, retry
from atf.errors import NotFound, TaskCancelled, TaskFailed
from atf.rpc import batch_pb2 as b
from atf.sdk.batch import ItemStatus, link_id
from atf.sdk.batch_handle import R
from atf.sdk.batch_info import error_of
from atf.sdk.chain_handle import ChainHandle
from atf.sdk.chains import Chain
from atf.sdk.tracing import making

from .batch_upload import BatchPlan, BatchUploads

_FAILED: Final = (ItemStatus.PERMANENTLY_FAILED, ItemStatus.CANCELLED)
_OF_LINK: Final = "callback 0, "
"""What a batch's error begins with that is about the next link of its chain; with another number it is about another callback."""
_UNTIL_THERE: Final = RetryPolicy(first=0.01, most=1.0, errors=(NotFound,))


class ChainCalls(BatchUploads):
    """The calls of AsyncClient about chains."""

    async def chain(self, chain: Chain[R], *, batch_id: str | None = None) -> ChainHandle[R]:
        """See Chain.submit."""
        plan = self.chain_plan(chain, batch_id)
        with making(plan.header):
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
        return ChainHandle(self, self._loop_bridge, plan.header.id, len(chain.links), last.decode, single=chain.single)

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


def _not_made(why: str) -> TaskFailed:
    return TaskFailed(f"the chain can't go on: its next step can't be made: {why}")
