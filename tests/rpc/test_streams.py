"""Streams over a real loopback connection: what arrives, how errors come back, and what becomes of a caller that is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_status import rpc_status

from atf.errors import Unavailable
from atf.rpc import dapr_scheduler_pb2 as d
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
