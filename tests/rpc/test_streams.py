"""Streams over a real loopback connection: what arrives, how errors come back, and what becomes of a caller that is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_status import rpc_status

from atf.client.transport import ForkSafeChannel
from atf.errors import DeadlineExceeded, InvalidArgument, Unavailable
from atf.rpc import dapr_scheduler_pb2 as d, frontend_pb2 as f, task_pb2 as t
from atf.rpc.channel import AioChannel
from atf.rpc.server import Service, serve

SCHEDULER = d.DESCRIPTOR.services_by_name["Scheduler"]
NAME = "dapr.proto.scheduler.v1.Scheduler"


class Echo:
    """Answers each request of WatchJobs with its number; refuses 7, stumbles over 8, and ends at 9."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def watch_jobs(
        self, requests: AsyncIterator[d.WatchJobsRequest]
    ) -> AsyncGenerator[d.WatchJobsResponse, None]:
        try:
            async for request in requests:
                match request.result.id:
                    case 7:
                        raise Unavailable("seven, with ünïcode")
                    case 8:
                        raise RuntimeError("eight")
                    case 9:
                        return
                yield d.WatchJobsResponse(id=request.result.id)
        finally:
            self.ended.set()

    async def watch_hosts(self, request: d.WatchHostsRequest) -> AsyncGenerator[d.WatchHostsResponse, None]:
        for number in range(3):
            yield d.WatchHostsResponse(hosts=[d.Host(address=str(number))])

    async def _unused(self, request: object) -> object:
        raise AssertionError(request)

    schedule_job = get_job = delete_job = list_jobs = delete_by_metadata = delete_by_name_prefix = _unused


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Echo, grpc.aio.Channel]]:
    echo = Echo()
    server = await serve("127.0.0.1:0", [Service(SCHEDULER, echo, NAME)])
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield echo, channel
    await server.stop(0)


def stream(channel: grpc.aio.Channel) -> Any:
    return channel.stream_stream(f"/{NAME}/WatchJobs", None, d.WatchJobsResponse.FromString)()


def number(value: int) -> bytes:
    return d.WatchJobsRequest(result=d.WatchJobsRequestResult(id=value)).SerializeToString()


async def test_each_side_says_what_it_has_to_say_when_it_has_it() -> None:
    async with connected() as (echo, channel):
        call = stream(channel)
        for each in (1, 2, 3):
            await call.write(number(each))
            assert (await call.read()).id == each
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        assert echo.ended.is_set()


async def test_the_end_of_the_method_is_that_of_the_stream() -> None:
    async with connected() as (_, channel):
        call = stream(channel)
        await call.write(number(9))
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("sent", "code", "reason", "says"),
    [
        (number(7), grpc.StatusCode.UNAVAILABLE, "Unavailable", "seven, with ünïcode"),
        (number(8), grpc.StatusCode.INTERNAL, "Internal", "its log has the details"),
        (b"\xff", grpc.StatusCode.INVALID_ARGUMENT, "InvalidArgument", "no WatchJobsRequest"),
    ],
)
async def test_an_error_in_the_middle_ends_the_stream_and_says_why(
    sent: bytes, code: grpc.StatusCode, reason: str, says: str
) -> None:
    async with connected() as (echo, channel):
        call = stream(channel)
        await call.write(number(1))
        assert (await call.read()).id == 1
        await call.write(sent)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is code
        assert says in (caught.value.details() or "")
        status = rpc_status.from_call(caught.value)
        assert status is not None
        assert reason.encode() in status.details[0].value
        assert echo.ended.is_set()


async def test_a_caller_that_is_gone_ends_the_method() -> None:
    async with connected() as (echo, channel):
        call = stream(channel)
        await call.write(number(1))
        await call.read()
        assert not echo.ended.is_set()
        call.cancel()
        async with asyncio.timeout(30):
            await echo.ended.wait()


async def test_one_request_may_have_many_answers() -> None:
    async with connected() as (_, channel):
        hosts = channel.unary_stream(f"/{NAME}/WatchHosts", None, d.WatchHostsResponse.FromString)
        assert [each.hosts[0].address async for each in hosts(b"")] == ["0", "1", "2"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [each async for each in hosts(b"\xff")]
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


# --- our own channels -------------------------------------------------------------------------------------------------


def _service() -> Any:
    """A service that only streams: Count gathers requests, Tell answers with many."""
    pool = descriptor_pool.Default()
    made = descriptor_pb2.FileDescriptorProto(name="tests/streams.proto", package="tests", syntax="proto3")
    made.dependency.append("atf/rpc/frontend.proto")
    methods = made.service.add(name="Streams").method
    request, reply = ".atf.v1.GetTaskRequest", ".atf.v1.Task"
    methods.add(name="Count", input_type=request, output_type=reply, client_streaming=True)
    methods.add(name="Tell", input_type=request, output_type=reply, server_streaming=True)
    return pool.AddSerializedFile(made.SerializeToString()).services_by_name["Streams"]


STREAMS = _service()
MANY = 2_000
"""Requests of some size: together more than a connection takes at once."""


class Counter:
    """Counts what it is sent; refuses "bad" at once. Tells the letters of an id, fails at "!", and never ends after "…"."""

    def __init__(self) -> None:
        self.seen = 0
        self.let_in = asyncio.Event()
        self.let_in.set()
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def count(self, requests: AsyncIterator[f.GetTaskRequest]) -> t.Task:
        try:
            async for request in requests:
                self.began.set()
                await self.let_in.wait()
                if request.id == "bad":
                    raise InvalidArgument("bad, with ünïcode")
                self.seen += 1
            return t.Task(attempts=self.seen)
        finally:
            self.ended.set()

    async def tell(self, request: f.GetTaskRequest) -> AsyncGenerator[t.Task, None]:
        try:
            for each in request.id:
                if each == "!":
                    raise InvalidArgument("!, with ünïcode")
                if each == "…":
                    await asyncio.Event().wait()
                yield t.Task(id=each)
        finally:
            self.ended.set()


@contextlib.asynccontextmanager
async def linked(kind: Callable[[str], Any]) -> AsyncIterator[tuple[Counter, Any]]:
    counter = Counter()
    server = await serve("127.0.0.1:0", [Service(STREAMS, counter)])
    channel = kind(server.address)
    yield counter, channel
    await channel.close()
    await server.stop(0)


async def ids(*some: str) -> AsyncIterator[f.GetTaskRequest]:
    for each in some:
        yield f.GetTaskRequest(id=each)


async def count(channel: Any, requests: AsyncIterator[f.GetTaskRequest], timeout: float = 50) -> int:
    reply = await channel.send("/tests.Streams/Count", requests, f.GetTaskRequest, t.Task, timeout)
    return int(reply.attempts)


def tell(channel: Any, letters: str, timeout: float = 50) -> AsyncGenerator[t.Task, None]:
    told: AsyncGenerator[t.Task, None]
    told = channel.receive("/tests.Streams/Tell", f.GetTaskRequest(id=letters), t.Task, timeout)
    return told


both = pytest.mark.parametrize("kind", [AioChannel, ForkSafeChannel])


@both
async def test_many_requests_have_one_reply(kind: Callable[[str], Any]) -> None:
    async with linked(kind) as (_, channel):
        assert await count(channel, ids("a", "b", "c")) == 3
        assert await count(channel, ids()) == 3


@both
async def test_requests_are_asked_for_as_the_server_takes_them(kind: Callable[[str], Any]) -> None:
    made = 0

    async def large() -> AsyncIterator[f.GetTaskRequest]:
        nonlocal made
        for _ in range(MANY):
            made += 1
            yield f.GetTaskRequest(id="a" * 10_000)

    async with linked(kind) as (counter, channel):
        counter.let_in.clear()
        counting = asyncio.ensure_future(count(channel, large()))
        before = -1
        while made != before:
            before = made
            await asyncio.wait({counting}, timeout=0.2)
        assert made < MANY, "all of them lie in memory"
        counter.let_in.set()
        assert await counting == MANY


@both
async def test_a_refusal_in_the_middle_is_what_the_sender_gets(kind: Callable[[str], Any]) -> None:
    async def for_ever() -> AsyncIterator[f.GetTaskRequest]:
        yield f.GetTaskRequest(id="bad")
        while True:
            yield f.GetTaskRequest(id="a" * 10_000)

    async def one_and_no_more() -> AsyncIterator[f.GetTaskRequest]:
        yield f.GetTaskRequest(id="bad")
        await asyncio.Event().wait()

    async with linked(kind) as (_, channel):
        for requests in (ids("a", "bad"), one_and_no_more()):
            with pytest.raises(InvalidArgument, match="bad, with ünïcode"):
                await count(channel, requests)
        with pytest.raises((InvalidArgument, Unavailable)):  # the second, where a message was just being sent
            await count(channel, for_ever())


@both
async def test_where_the_requests_break_off_the_call_is_given_up(kind: Callable[[str], Any]) -> None:
    async with linked(kind) as (counter, channel):

        async def breaks_off() -> AsyncIterator[f.GetTaskRequest]:
            yield f.GetTaskRequest(id="a")
            await asyncio.wait_for(counter.began.wait(), 50)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await count(channel, breaks_off())
        await asyncio.wait_for(counter.ended.wait(), 50)


@both
async def test_a_sender_that_gives_up_ends_the_method(kind: Callable[[str], Any]) -> None:
    async with linked(kind) as (counter, channel):

        async def endless() -> AsyncIterator[f.GetTaskRequest]:
            yield f.GetTaskRequest(id="a")
            await asyncio.Event().wait()

        counting = asyncio.ensure_future(count(channel, endless()))
        await asyncio.wait_for(counter.began.wait(), 50)
        counting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await counting
        await asyncio.wait_for(counter.ended.wait(), 50)


@both
async def test_replies_come_one_by_one(kind: Callable[[str], Any]) -> None:
    async with linked(kind) as (_, channel):
        assert [each.id async for each in tell(channel, "abc")] == ["a", "b", "c"]
        assert [each.id async for each in tell(channel, "")] == []


@both
async def test_an_error_ends_the_replies(kind: Callable[[str], Any]) -> None:
    async with linked(kind) as (_, channel):
        replies = tell(channel, "ab!")
        assert [(await anext(replies)).id, (await anext(replies)).id] == ["a", "b"]
        with pytest.raises(InvalidArgument, match="!, with ünïcode"):
            await anext(replies)


@both
async def test_who_has_heard_enough_ends_the_method(kind: Callable[[str], Any]) -> None:
    async with linked(kind) as (counter, channel):
        async with contextlib.aclosing(tell(channel, "a…")) as replies:
            assert (await anext(replies)).id == "a"
        await asyncio.wait_for(counter.ended.wait(), 50)


@both
async def test_streams_have_deadlines_and_end_with_their_connection(kind: Callable[[str], Any]) -> None:
    async def silent() -> AsyncIterator[f.GetTaskRequest]:
        await asyncio.Event().wait()
        yield f.GetTaskRequest()

    async with linked(kind) as (_, channel):
        with pytest.raises(DeadlineExceeded):
            await count(channel, silent(), 0.05)
        with pytest.raises(DeadlineExceeded):
            await anext(tell(channel, "…", 0.05))
        waiting = [asyncio.ensure_future(count(channel, silent())), asyncio.ensure_future(anext(tell(channel, "…")))]
        await asyncio.wait(waiting, timeout=0.1)
        await channel.close()
        for each in waiting:
            with pytest.raises(Unavailable):
                await each
        with pytest.raises(Unavailable):
            await count(channel, ids("a"))
