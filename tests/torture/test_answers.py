"""Answers that are no message, at every stub: an error of ours that names the call, never None and never gRPC's own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass

from atf.client.transport import ForkSafeChannel
from atf.errors import AtfError, Internal
from atf.rpc.channel import AioChannel, BlockingChannel, Channel
from atf.rpc.failure import DETAILS_KEY
from atf.rpc.stub import snake_case
from atf.rpc.stubs import ControllerStub, FrontendStub, HSCStub, StoreConsumerStub

from .world import METHODS, PATIENCE_S

STUBS: dict[str, Any] = {
    "Frontend": FrontendStub,
    "HSC": HSCStub,
    "Controller": ControllerStub,
    "StoreConsumer": StoreConsumerStub,
}
JUNK = [b"\xff", b"\xff" * 100, b"\x0b" * 200, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x01"]


class Liar(grpc.GenericRpcHandler):  # type: ignore[misc]  # a class of a library without types
    """Answers every method with the same bytes, or with an error whose details are these."""

    answer = b""
    fails = False

    def service(self, _details: Any) -> Any:
        async def handle(_request: bytes, context: Any) -> bytes:
            if self.fails:
                await context.abort(grpc.StatusCode.NOT_FOUND, "\x1b[2J\nno", ((DETAILS_KEY, self.answer),))
            return self.answer

        return grpc.unary_unary_rpc_method_handler(handle)


@contextlib.asynccontextmanager
async def lying() -> AsyncIterator[tuple[Liar, str]]:
    liar, server = Liar(), grpc.aio.server()
    server.add_generic_rpc_handlers((liar,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield liar, f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def call(channel: Channel, method: str) -> Any:
    service, _, name = method.partition(".")
    request = GetMessageClass(METHODS[method].input_type)()
    return await getattr(STUBS[service](channel), snake_case(name))(request, timeout=PATIENCE_S)


@pytest.mark.parametrize("method", [each for each in METHODS if each.partition(".")[0] in STUBS])
async def test_an_answer_that_is_no_message_is_an_error_that_names_the_call(method: str) -> None:
    async with lying() as (liar, address):
        channel = AioChannel(address)
        for liar.answer in JUNK:
            with pytest.raises(Internal, match=f"{METHODS[method].name}: what {address} answered is no"):
                await call(channel, method)
        await channel.close()


@pytest.mark.parametrize("kind", [BlockingChannel, ForkSafeChannel])
async def test_so_it_is_over_every_kind_of_connection(kind: type[Any]) -> None:
    async with lying() as (liar, address):
        liar.answer = JUNK[0]

        async def body() -> None:
            channel = kind(address)
            with pytest.raises(Internal, match=f"Heartbeat: what {address} answered is no HeartbeatReply"):
                await call(channel, "HSC.Heartbeat")
            await channel.close()

        await asyncio.to_thread(asyncio.run, body())


async def test_details_of_an_error_that_are_none_are_passed_over() -> None:
    async with lying() as (liar, address):
        channel, liar.fails = AioChannel(address), True
        for liar.answer in [*JUNK, b""]:
            with pytest.raises(AtfError) as caught:
                await call(channel, "Frontend.GetTask")
            assert caught.value.code == "NOT_FOUND"
        await channel.close()
