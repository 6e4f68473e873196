"""A store consumer that somebody else polls: one bounded pass per call, nothing in between, and nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from atf.errors import InvalidArgument, Unavailable
from atf.rpc import store_consumer_pb2 as s
from atf.store_consumer.service import PollService
from atf.task import MAX_BATCH, US
from tests.virtual import virtual

from .test_consumer import World, world
from .test_jobs import make


def polled(w: World) -> PollService:
    return PollService(w.consumer())


@virtual(world(partitions=2))
async def test_what_is_due_is_pushed_by_a_poll_and_by_nothing_else(w: World) -> None:
    service = polled(w)
    (one,) = await w.schedule(partition=0)
    (two,) = await w.schedule(partition=1)
    await w.schedule(delay=30)
    await asyncio.sleep(10)
    assert await w.pop(0) + await w.pop(1) == []
    reply = await service.poll(s.PollRequest())
    assert (reply.enqueued, reply.more, reply.next_in_us) == (2, False, 10 * US)
    assert await w.pop(0) + await w.pop(1) == [one, two]


@virtual(world())
async def test_polls_at_once_push_nothing_twice(w: World) -> None:
    ids = await w.schedule(50)
    services = [polled(w) for _ in range(3)]
    replies = await asyncio.gather(*(each.poll(s.PollRequest()) for each in services * 4))
    assert sum(each.enqueued for each in replies) == 50
    assert sorted(await w.pop()) == sorted(ids)


@virtual(world())
async def test_a_poll_is_bounded_and_says_that_there_is_more(w: World) -> None:
    await w.schedule(MAX_BATCH + 5)
    service = polled(w)
    first = await service.poll(s.PollRequest())
    assert (first.enqueued, first.more) == (MAX_BATCH, True)
    second = await service.poll(s.PollRequest())
    assert (second.enqueued, second.more) == (5, False)


@virtual(world())
async def test_a_tick_is_made_and_pushed_by_one_poll_and_once_by_many(w: World) -> None:
    await make(w, overlap="allow")
    await asyncio.sleep(1.5)
    replies = await asyncio.gather(*(polled(w).poll(s.PollRequest()) for _ in range(4)))
    assert sum(each.enqueued for each in replies) == 1
    assert len(await w.pop()) == 1


@virtual(world(partitions=3))
async def test_a_partition_that_is_away_fails_the_call_and_no_other_partition(w: World) -> None:
    service = polled(w)
    (kept,) = await w.schedule(partition=2)
    w.broken.add(1)
    with pytest.raises(Unavailable):
        await service.poll(s.PollRequest())
    assert await w.pop(2) == [kept]


@virtual(world(partitions=2))
async def test_a_poll_may_name_partitions(w: World) -> None:
    await w.schedule(partition=0)
    (two,) = await w.schedule(partition=1)
    assert (await polled(w).poll(s.PollRequest(partitions=[1]))).enqueued == 1
    assert await w.pop(0) + await w.pop(1) == [two]
    with pytest.raises(InvalidArgument, match="0 to 1"):
        await polled(w).poll(s.PollRequest(partitions=[2]))
