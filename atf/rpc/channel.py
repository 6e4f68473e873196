"""Opens gRPC connections to other roles, and keeps and replaces them.

What a call raises is an AtfError, never a gRPC type. No call is repeated here: the caller knows what may be repeated. Part of the
client, so it needs no library of the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from atf.config.settings import ADDRESS, FRONTEND_PORT
from atf.errors import Internal, InvalidArgument, Unavailable
from atf.runtime import end

from .failure import MAX_MESSAGE_BYTES, ConnectionSign, sign_of, to_error

R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)

_WITH_SCHEME: Final = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):.")
CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Notices within 30 s a peer that is gone, or that takes bytes and never answers: what waits on the connection ends with Unavailable.
    # Also while nothing is asked, so that whatever stands between does not forget an idle connection. A server of ours allows pings
    # this often (server.py).
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # its default of a minute would count instead
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Without its own pool of subchannels a channel would share the connection that others of the process have to this address, and so
    # would get the very one that they have given up.
    ("grpc.use_local_subchannel_pool", 1),
    # A role that restarts is back within a second: gRPC's own backoff of up to two minutes would outlast it by far.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A frontend that is replaced may have another address under the same name: gRPC's own 30 s between two looks would outlast a caller.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    # A proxy of the environment's is for the web; it can't carry calls between roles on one network.
    ("grpc.enable_http_proxy", 0),
)


_NEARLY: Final = 0.95
"""Of a call's time: one that its caller gives up behind that was given up for its time."""
_NOT_SENT: Final = "Internal error from Core"
"""What grpc.aio takes a call to have ended with, where it could not send a message: seldom, when the server has ended it just then, and
its reason is lost. A caller that repeats what is Unavailable learns it."""


class Channel(Protocol):
    """A connection to one server; it connects at the first call and again whenever it broke."""

    address: str

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        """One unary call; `path` is "/package.Service/Method", `timeout` in seconds.

        Raises:
            AtfError: what the server raised; Unavailable, DeadlineExceeded: it was not reached or did not answer.
        """
        ...

    async def close(self) -> None:
        """Ends the connection. Calls that wait, and later ones, raise Unavailable."""
        ...


class StreamingChannel(Channel, Protocol):
    """A channel that also carries streams."""

    async def send(self, path: str, requests: AsyncIterator[S], request: type[S], reply: type[R], timeout: float) -> R:
        """A call of many requests and one reply, each of which is asked for when the one before has been sent. Errors as of `call`.

        Where `requests` raises, so does this, and the call is given up.
        """
        ...

    def receive(self, path: str, request: Message, reply: type[R], timeout: float) -> AsyncGenerator[R, None]:
        """A call of one request and many replies; closing the generator gives the call up. Errors as of `call`."""
        ...


_ANY_ADDRESS: Final = '{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}'
"""gRPC's word for: of the addresses of a name, begin with any. In the place of a peer that went silent, another one is likelier to answer."""


class _Live(NamedTuple):
    """What the next call goes by."""

    channel: Any
    methods: dict[str, Any]
    """By path."""


class Connection:
    """What channels share: a gRPC channel that is made at the first call, and its methods by path.

    A gRPC channel is given up, and the next call opens another, where gRPC calls it broken, or where the time of a call is over and not
    one answer has come on the channel since the call began: a frozen host, or a balancer without a backend, acknowledges whatever
    it is sent, and so does a connection look that a router in between has forgotten. Calls that are under way on a channel which was given
    up end on it, by themselves or by gRPC's keepalive.

    Args:
        address: host:port, or whatever else gRPC takes as a target.
        connect: makes a gRPC channel with these options.
    """

    def __init__(self, address: str, connect: Callable[[Sequence[tuple[str, Any]]], Any]) -> None:
        self.address = address
        self._connect = connect
        self._live: _Live | None = None
        self._given_up: weakref.WeakSet[Any] = weakref.WeakSet()
        """Of which calls are still under way: each holds its channel."""
        self._replaced = False
        self._heard = 0
        """Grows with each answer of the peer. Whether it has grown is all that counts, so threads need no lock for it."""
        self._closed = False

    def _method(self, path: str, request: type[Message], kind: str = "unary_unary") -> tuple[Any, Any]:
        """The method, which answers in bytes (see `_decoded`), and its channel. Its kind is gRPC's word for what streams."""
        if self._closed:
            raise Unavailable(f"the connection to {self.address} is closed")
        # Another thread may give the channel up meanwhile: so each is read once, and a method is never kept beside another channel.
        live = self._live
        if live is None:
            more = [("grpc.service_config", _ANY_ADDRESS)] if self._replaced else []
            live = self._live = _Live(self._connect([*CHANNEL_OPTIONS, *more]), {})
        method = live.methods.get(path)
        if method is None:
            made = getattr(live.channel, kind)
            method = live.methods[path] = made(path, request_serializer=request.SerializeToString)
        return method, live.channel

    def _failed(self, error: Any, channel: Any, heard: int) -> None:
        """Learns from a call that has failed what its connection is worth.

        Args:
            error: what gRPC raised.
            channel: that the call was made on.
            heard: `_heard` as it was when the call began.
        """
        match sign_of(error):
            case ConnectionSign.ALIVE:
                self._heard += 1
            case ConnectionSign.BROKEN:
                self._give_up(channel)
            case ConnectionSign.SILENT if self._heard == heard:
                self._give_up(channel)

    def _left(self, channel: Any, heard: int, until: float) -> None:
        """Learns from a call that its caller has given up, which keeps the time, too, and may be a hair faster than gRPC.

        Args:
            channel, heard: as of `_failed`.
            until: as of `nearly_over`.
        """
        if self._heard == heard and asyncio.get_running_loop().time() >= until:
            self._give_up(channel)

    def _give_up(self, channel: Any) -> None:
        if self._live is not None and self._live.channel is channel:
            self._given_up.add(channel)
            self._live, self._replaced = None, True

    def _channels(self) -> list[Any]:
        """All on which calls may be under way."""
        return [*([self._live.channel] if self._live is not None else []), *self._given_up]

    def _decoded(self, path: str, reply: type[R], data: bytes) -> R:
        self._heard += 1
        # Not by gRPC: its asyncio half answers None where the bytes can't be read.
        try:
            return reply.FromString(data)
        except DecodeError as error:
            method, name = path.rpartition("/")[2], reply.DESCRIPTOR.name
            raise Internal(f"{method}: what {self.address} answered is no {name}: {error}") from None


def nearly_over(timeout: float) -> float:
    """When the time of a call that begins now is nearly over, by the clock of the event loop."""
    return asyncio.get_running_loop().time() + _NEARLY * timeout


def check_address(address: str) -> None:
    """Lets pass what a server can be at: host:port, or what gRPC names with a scheme, such as unix:/path and dns:///name:port.

    Raises:
        InvalidArgument: it is something else, of which gRPC would say that it can't be reached.
    """
    if not (ADDRESS.fullmatch(address) or _WITH_SCHEME.match(address)):
        raise InvalidArgument(
            f"{address[:80]!r} is no address of a server: write HOST:PORT, such as localhost:{FRONTEND_PORT}"
        )


def blocking_connection(address: str) -> Callable[[Sequence[tuple[str, Any]]], Any]:
    """What makes channels of gRPC's blocking API."""
    check_address(address)
    return lambda options: grpc.insecure_channel(address, options=options)


class AioChannel(Connection):
    """A connection of the event loop that makes the first call."""

    def __init__(self, address: str, options: Sequence[tuple[str, Any]] = ()) -> None:
        check_address(address)
        super().__init__(address, lambda given: grpc.aio.insecure_channel(address, options=[*given, *options]))

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, type(request))
        with self._errors(path, timeout, channel, self._heard, nearly_over(timeout)):
            answer: bytes = await method(request, timeout=timeout)
        return self._decoded(path, reply, answer)

    async def send(self, path: str, requests: AsyncIterator[S], request: type[S], reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, request, "stream_unary")
        call, heard, until = method(timeout=timeout), self._heard, nearly_over(timeout)

        async def pump() -> None:
            with contextlib.suppress(asyncio.InvalidStateError, grpc.RpcError):  # it has ended: the answer says why
                async for each in requests:
                    await call.write(each)
                await call.done_writing()

        pumping, ended = map(asyncio.ensure_future, (pump(), call.code()))  # noqa: TID251  they end with this call
        try:
            await asyncio.wait([pumping, ended], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                pumping.result()  # raises what `requests` did
            with self._errors(path, timeout, channel, heard, until):
                answer: bytes = await call
        finally:
            call.cancel()  # of use only where it has not ended
            await end([pumping, ended])
        return self._decoded(path, reply, answer)

    async def receive(self, path: str, request: Message, reply: type[R], timeout: float) -> AsyncGenerator[R, None]:
        method, channel = self._method(path, type(request), "unary_stream")
        call, heard, until = method(request, timeout=timeout), self._heard, nearly_over(timeout)
        answers = aiter(call)
        try:
            while True:
                try:
                    with self._errors(path, timeout, channel, heard, until):
                        answer: bytes = await anext(answers)
                except StopAsyncIteration:
                    return
                yield self._decoded(path, reply, answer)
        finally:
            call.cancel()

    @contextlib.contextmanager
    def _errors(self, path: str, timeout: float, channel: Any, heard: int, until: float) -> Iterator[None]:
        """What gRPC raises within, of a call on `channel`, becomes an AtfError. `heard` and `until`: as of `_left`."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            if error.details() == _NOT_SENT:
                raise Unavailable(f"{path.rpartition('/')[2]}: the stream to {self.address} broke off") from None
            self._failed(error, channel, heard)
            raise to_error(error, self.address, path, timeout) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                # gRPC cancels what waits on a channel that is closed; nobody has cancelled the caller.
                raise Unavailable(f"the connection to {self.address} was closed") from None
            self._left(channel, heard, until)
            raise

    async def close(self) -> None:
        self._closed = True
        for channel in self._channels():
            await channel.close()


class BlockingChannel(Connection):
    """A connection of its own for a thread of its own: a call blocks that thread and needs no event loop to turn.

    Heartbeats go through one: neither a busy event loop nor a connection full of payloads delays them.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address, blocking_connection(address))

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, type(request))
        heard = self._heard
        try:
            answer: bytes = method(request, timeout=timeout)
        except grpc.RpcError as error:
            self._failed(error, channel, heard)
            raise to_error(error, self.address, path, timeout) from None
        return self._decoded(path, reply, answer)

    async def close(self) -> None:
        self._closed = True
        for channel in self._channels():
            channel.close()


def open_channel(address: str) -> StreamingChannel:
    """A connection to the role at `address`, host:port. Any number of stubs may share it."""
    return AioChannel(address)
