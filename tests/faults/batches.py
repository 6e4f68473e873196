"""A batch as the stories of this folder make it, over calls that may go astray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from atf.rpc import batch_pb2 as b

from .world import World, step


def messages_of(count: int = 3, name: str = "f/step", *, keep_open: bool = False) -> list[b.ScheduleBatchRequest]:
    """The messages of a batch "b", whose items differ by a millisecond."""
    spec = b.BatchSpec()
    setattr(spec, "lambda", name)
    made = [step.prepare(0.1 + place / 1_000).request.spec.payload for place in range(count)]
    return [
        b.ScheduleBatchRequest(header=b.BatchHeader(id="b", spec=spec, keep_open=keep_open)),
        b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=each) for each in made])),
        b.ScheduleBatchRequest(end=b.BatchEnd(items=count)),
    ]


async def make_batch(world: World, messages: list[b.ScheduleBatchRequest]) -> b.ScheduleBatchReply:
    """Makes it, or goes on with it."""

    async def each() -> AsyncIterator[b.ScheduleBatchRequest]:
        for message in messages:
            yield message

    reply: b.ScheduleBatchReply = await world.sure(lambda: world.frontend.schedule_batch(each()))
    return reply


async def items_of(world: World, **asked: Any) -> list[b.Item]:
    """Its items."""
    request = b.ListBatchItemsRequest(id="b", page_size=1_000, **asked)
    return list((await world.sure(lambda: world.frontend.list_batch_items(request))).items)


async def batch_ended(world: World, status: b.BatchStatus, within: float = 60) -> b.Batch:
    """The batch, once it has ended, in this way."""
    async with asyncio.timeout(within):
        while True:
            found: b.Batch = await world.sure(lambda: world.frontend.get_batch(b.GetBatchRequest(id="b")))
            if found.ended_at_us:
                assert b.BatchStatus.Name(found.status) == b.BatchStatus.Name(status)
                return found
            await asyncio.sleep(0.2)
