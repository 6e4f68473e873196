"""Runs one gRPC server for any of our services, with health, reflection and rich errors.

A service is an object with one method per RPC, named in snake_case. Most are an `async def` that takes the request and returns
the reply. Where callers stream, it takes an async iterator of requests; it may answer before their end, and gRPC has them end as well
where the caller is gone: a stream that must be whole says so itself. Where it streams, it is an async generator of replies, and its
end is that of the stream. All of them raise AtfError. This module is the thin adapter around them; a role's logic never sees a
gRPC type. When a caller gives up, or is gone, the method is cancelled.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2

from atf.auth.caller import caller
from atf.config.settings import SecuritySettings
from atf.errors import AtfError, ConfigError, Internal, InvalidArgument, TooManyPending
from atf.log import get_logger
from atf.metrics.metrics import Counter, Histogram, Metrics
from atf.metrics.table import RPC_REQUESTS, RPC_SECONDS
from atf.task import clip

from .caller_limits import CallerLimits, most_connections
from .failure import DETAILS_KEY, MAX_MESSAGE_BYTES
from .health import Detail, Health
from .listen_address import free_address
from .open_services import open_services
from .server_security import OPEN_TO_ALL, ServerSecurity
from .stub import snake_case

SERVER_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # Off: with it two processes share a port in silence, and half of the calls go to the one that was forgotten.
    ("grpc.so_reuseport", 0),
    # Calls that have come while the event loop was busy. From 1,000 on (3,000) gRPC refuses them at random, as after a pause of one second under
    # load. Each takes 13 KB, with a large request 64 KB.
    ("grpc.server.max_pending_requests", 5_000),
    ("grpc.server.max_pending_requests_hard_limit", 10_000),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # How much of a message is taken before anybody reads it. gRPC would let it grow to megabytes for each stream, after the speed of the
    # connection: then whoever shows nothing valid fills the memory. What is being read gets the room that it needs, after one round trip more.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 262_144),
    # Allows the callers' keepalive (channel.py), also on a connection where nothing is asked; otherwise a quiet long poll, or a quiet caller, is
    # answered with "too many pings".
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
    # Notices a caller whose host is gone: a stream to it would stay open for ever, with all that was given to it.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # its default of a minute would count instead
    ("grpc.http2.max_pings_without_data", 0),
    # A caller looks its servers up again then, and so finds those that have been added. What is under way goes on where it is.
    ("grpc.max_connection_age_ms", 600_000),
    # A connection that says nothing, or its handshake byte by byte. After it, one that answers no ping ends within 30 s.
    ("grpc.server_handshake_timeout_ms", 20_000),
    # One that answers pings and calls nothing. A client that is quiet for so long connects again with its next call.
    ("grpc.max_connection_idle_ms", 1_800_000),
)
_BEYOND: Final = 64
"""Streams of a connection beyond a caller's calls under way: these are told why they are refused, and further ones wait in the client."""

MAX_SENTENCE_BYTES: Final = 1_000
"""Of an error's sentence: it travels twice in HTTP/2 headers, which hold 8 KiB, and once of these with three bytes for one."""

_log = get_logger()


@dataclass(frozen=True)
class Service:
    """A service of ours and the object that answers its calls."""

    descriptor: ServiceDescriptor
    logic: object
    name: str = ""
    """What callers call it, "package.Service"; empty: as the descriptor does. Reflection tells only of those."""
    metadata: bool = False
    """Whether its unary methods also take what came along with the request, as a second argument: a Mapping of texts."""


class Server:
    """A listening server."""

    def __init__(self, server: Any, health_service: Any, names: Sequence[str], address: str, port: int) -> None:
        self.address = address
        """host:port to call it at."""
        self.port = port
        self._server = server
        self._health = health_service
        self._names = names

    async def set_serving(self, serving: bool) -> None:
        """What the health service says from now on, of every service and of the server as a whole ("")."""
        answer = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._health.set(name, answer.SERVING if serving else answer.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """Says NOT_SERVING, takes no more calls, and gives those that run `grace` seconds until they are cancelled."""
        await self.set_serving(False)
        await self._server.stop(grace)


async def serve(
    listen: str,
    services: Sequence[Service],
    *,
    serving: bool = True,
    details: Mapping[str, Detail] | None = None,
    metrics: Metrics | None = None,
    security: ServerSecurity = OPEN_TO_ALL,
) -> Server:
    """Starts a server.

    Args:
        listen: host:port; port 0 takes a free one.
        services: what it answers, beside health and reflection.
        serving: whether health says SERVING at once, or only after `set_serving(True)`.
        details: what health says beside that, by name.
        metrics: where calls are counted and timed.
        security: whom it answers, and how it is encrypted.

    Raises:
        ConfigError: it can't listen there; the message says why and what to change.
    """
    host, _ = await free_address(listen)
    counted = metrics or Metrics()
    limits = security.limits or CallerLimits(SecuritySettings(), counted)
    server = grpc.aio.server(options=[*SERVER_OPTIONS, *_bounds(limits)])
    for service in services:
        name = service.name or service.descriptor.full_name
        methods = {
            each.name: _handler(each, f"/{name}/{each.name}", service, counted, security, limits)
            for each in service.descriptor.methods
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    health_service = Health(details or {})
    names = [service.name or service.descriptor.full_name for service in services]
    described = [service.descriptor.full_name for service in services if not service.name]
    server.add_generic_rpc_handlers(open_services(health_service, described, limits))
    try:
        if security.credentials is None:
            bound = server.add_insecure_port(listen)
        else:
            bound = server.add_secure_port(listen, security.credentials)
    except RuntimeError as error:
        raise ConfigError(f"can't listen on {listen}: {error}") from None
    await server.start()
    built = Server(server, health_service, ["", *names], f"{host}:{bound}", bound)
    await built.set_serving(serving)
    return built


def _bounds(limits: CallerLimits) -> list[tuple[str, int]]:
    """Options by which gRPC bounds what comes before a call is ours."""
    return [
        ("grpc.max_concurrent_streams", limits.calls + _BEYOND),
        ("grpc.max_allowed_incoming_connections", most_connections()),
    ]


# --- calls ------------------------------------------------------------------------------------------------------------


def _handler(
    method: MethodDescriptor,
    path: str,
    service: Service,
    metrics: Metrics,
    security: ServerSecurity,
    limits: CallerLimits,
) -> Any:
    check = security.checks(path)
    answer = getattr(service.logic, snake_case(method.name))
    encode = GetMessageClass(method.output_type).SerializeToString
    # For gRPC each method is one of many requests: of others it receives the whole request before it asks us.
    kind = grpc.stream_stream_rpc_method_handler if method.server_streaming else grpc.stream_unary_rpc_method_handler
    if method.server_streaming:
        handle = _streaming(method, answer)
    elif method.client_streaming:
        handle = _gathering(method, answer)
    else:
        handle = _unary(method, answer, service.metadata)

    streams, streamed = method.server_streaming or method.client_streaming, security.while_let_in
    sends = method.client_streaming and not method.server_streaming
    one_request, counts = not method.client_streaming, _Counts(metrics, method.name)

    async def guarded(asked: Any, context: Any) -> Any:
        began, code = time.perf_counter(), "CANCELLED"  # what ends otherwise has no caller any more
        usage, size = None, 0
        try:
            if check is not None:
                await check(context)
            usage = limits.begin(caller().account or context.peer(), began, stream=streams, sends=sends)
            if one_request:
                asked = await limits.read(usage, context.read, began)
                if asked is grpc.aio.EOF:
                    raise InvalidArgument(f"{method.name}: no request was sent")
                size = len(asked)
                usage.bytes += size
            handling = handle(asked, context)
            answered = await (streamed(handling, check, context) if streams and check is not None else handling)
            code = "OK"
            return answered
        except Exception as error:  # noqa: BLE001  a bug in one call is its caller's INTERNAL, not the server's end
            # Not the error itself: its traceback holds this call, which would hold the error, and with it what was sent.
            failure = _failure(method, error)
            code = failure[0].name
        finally:
            if usage is not None:
                limits.end(usage, size, stream=streams, sends=sends)
            counts.note(code, time.perf_counter() - began)
        await context.abort(*failure)
        raise AssertionError("abort raises")

    return kind(guarded, response_serializer=encode)


class _Counts:
    """Counts and times the calls of one method; each number is looked up once."""

    def __init__(self, metrics: Metrics, method: str) -> None:
        self._metrics, self._method = metrics, method
        self._codes: dict[str, Counter] = {}
        self._seconds: Histogram | None = None

    def note(self, code: str, seconds: float) -> None:
        found = self._codes.get(code)
        if found is None:
            found = self._codes[code] = self._metrics.counter(RPC_REQUESTS, self._method, code)
        found.value += 1
        if self._seconds is None:
            self._seconds = self._metrics.histogram(RPC_SECONDS, self._method)
        self._seconds.observe(seconds)


_Handle = Callable[[Any, Any], Awaitable[Message | None]]
_Decode = Callable[[bytes], Message]


def _unary(method: MethodDescriptor, answer: Callable[..., Awaitable[Message]], metadata: bool) -> _Handle:
    decoded = _decoding(method)

    async def handle(data: bytes, context: Any) -> Message:
        more = (_texts(context.invocation_metadata()),) if metadata else ()
        return await answer(decoded(data), *more)

    return handle


def _gathering(method: MethodDescriptor, answer: Callable[[AsyncIterator[Message]], Awaitable[Message]]) -> _Handle:
    decoded = _decoding(method)

    async def handle(asked: AsyncIterator[bytes], context: Any) -> Message:  # noqa: ARG001
        return await answer(_each_decoded(decoded, asked))

    return handle


def _streaming(method: MethodDescriptor, answer: Callable[[Any], AsyncGenerator[Message, None]]) -> _Handle:
    decoded = _decoding(method)

    async def handle(asked: Any, context: Any) -> None:
        request = _each_decoded(decoded, asked) if method.client_streaming else decoded(asked)
        async with aclosing(answer(request)) as replies:
            async for reply in replies:
                await context.write(reply)

    return handle


async def _each_decoded(decoded: _Decode, requests: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    async for data in requests:
        yield decoded(data)


def _decoding(method: MethodDescriptor) -> _Decode:
    """Reads a request. Not by gRPC: it would call bytes that can't be read INTERNAL, and log a traceback for each."""
    read, name = GetMessageClass(method.input_type).FromString, method.name

    def decoded(data: bytes) -> Message:
        try:
            return read(data)
        except DecodeError as error:
            raise InvalidArgument(f"{name}: what was sent is no {method.input_type.name}: {error}") from None

    return decoded


def _texts(metadata: Sequence[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """What came along with a request, without what is no text."""
    return {key: value for key, value in metadata or () if isinstance(value, str)}


def _failure(method: MethodDescriptor, error: Exception) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """What a call is aborted with. Call inside the `except` block."""
    if not isinstance(error, AtfError):
        _log.exception("call failed", method=method.full_name, error=type(error).__name__)
        error = Internal(f"{method.name} failed inside the server; its log has the details")
    return grpc.StatusCode[error.code], _sentence(error), ((DETAILS_KEY, _details(error)),)


def _details(error: AtfError) -> bytes:
    detail = AnyMessage()
    detail.Pack(ErrorInfo(reason=error.reason, domain=error.domain))
    number: int = grpc.StatusCode[error.code].value[0]
    details = [detail]
    if isinstance(error, TooManyPending):
        when = RetryInfo()
        when.retry_delay.FromNanoseconds(round(error.retry_after_s * 1e9))
        details.append(AnyMessage())
        details[1].Pack(when)
    status = Status(code=number, message=_sentence(error), details=details)
    return bytes(status.SerializeToString())


def _sentence(error: AtfError) -> str:
    text = clip(str(error), MAX_SENTENCE_BYTES + 1)
    return text if len(text.encode()) <= MAX_SENTENCE_BYTES else clip(text, MAX_SENTENCE_BYTES) + "…"
