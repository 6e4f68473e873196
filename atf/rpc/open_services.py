"""Answers health and reflection, which everybody may ask: what they take counts by the address of whoever asks.

Both are there for machines and tools: a balancer that asks whether a server serves, grpcurl that asks what there is to call.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2

from atf.errors import AtfError, TooManyCalls

from .caller_limits import CallerLimits, Usage
from .health import Health

READS: Final = 4
"""Requests of one address that are being read at the same time: gRPC takes up to 5 MiB for each before anybody sees how large it is."""
WAITING: Final = 250
"""That wait for their turn; further ones are refused."""
_REFLECTION: Final = "grpc.reflection.v1alpha.ServerReflection"


def open_services(service: Health, described: Sequence[str], limits: CallerLimits) -> tuple[Any, Any]:
    """What answers health and reflection, for gRPC.

    Args:
        service: of health.
        described: the services that reflection tells of, beside these two.
        limits: of the server.
    """

    async def check(_requests: Any, context: Any) -> Any:
        return await _bounded(limits, context, lambda usage: _asked(limits, usage, context, service.Check))

    async def watch(_requests: Any, context: Any) -> None:
        await _bounded(limits, context, lambda usage: _asked(limits, usage, context, service.Watch), stream=True)

    async def info(_requests: Any, context: Any) -> None:
        await _bounded(limits, context, lambda usage: _told(names, _each(limits, usage, context), context), stream=True)

    names = [*described, health.SERVICE_NAME, _REFLECTION]
    of_health = {
        "Check": grpc.stream_unary_rpc_method_handler(check, response_serializer=_encoded),
        "Watch": grpc.stream_stream_rpc_method_handler(watch, response_serializer=_encoded),
    }
    of_reflection = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(info, response_serializer=_encoded)}
    return (
        grpc.method_handlers_generic_handler(health.SERVICE_NAME, of_health),
        grpc.method_handlers_generic_handler(_REFLECTION, of_reflection),
    )


async def _bounded(
    limits: CallerLimits, context: Any, answer: Callable[[Usage], Awaitable[Any]], *, stream: bool = False
) -> Any:
    try:
        with limits.during(context.peer().rpartition(":")[0], stream=stream) as usage:
            usage.reads = READS
            return await answer(usage)
    except AtfError as error:
        code, sentence = grpc.StatusCode[error.code], str(error)
    except DecodeError as error:
        code, sentence = grpc.StatusCode.INVALID_ARGUMENT, f"what was sent can't be read: {error}"
    await context.abort(code, sentence)
    raise AssertionError("abort raises")


async def _asked(
    limits: CallerLimits, usage: Usage, context: Any, answer: Callable[[Message, Any], Awaitable[Any]]
) -> Any:
    """What health answers to the one request of a call."""
    sent = await _read(limits, usage, context)
    return await answer(health_pb2.HealthCheckRequest.FromString(sent or b""), context)


async def _each(limits: CallerLimits, usage: Usage, context: Any) -> AsyncIterator[bytes]:
    """The requests of a stream. Each must come in the time of a call's: else streams that never end one would take all the turns."""
    while (sent := await _read(limits, usage, context)) is not grpc.aio.EOF:
        yield sent


async def _read(limits: CallerLimits, usage: Usage, context: Any) -> Any:
    if len(usage.waiting) >= WAITING:
        raise TooManyCalls(
            f"{WAITING} requests from this address wait for others of it, which have not come: ask later"
        )
    return await limits.read(usage, context.read, time.perf_counter())


async def _told(names: Sequence[str], requests: AsyncIterator[bytes], context: Any) -> None:
    """Says what services there are and what their messages look like. Loaded when somebody asks: few do."""
    from grpc_reflection.v1alpha import reflection, reflection_pb2

    asked = (reflection_pb2.ServerReflectionRequest.FromString(each) async for each in requests)
    async for reply in reflection.aio.ReflectionServicer(names).ServerReflectionInfo(asked, context):
        await context.write(reply)


def _encoded(reply: Message) -> bytes:
    return reply.SerializeToString()
