"""Opens gRPC connections to other roles, and keeps and replaces them.

What a call raises is an AtfError, never a gRPC type. No call is repeated here: the caller knows what may be repeated. Part of the
client, so it needs no library of the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from atf.errors import Unavailable
from atf.runtime import end

from .caller_security import CallerSecurity
from .connection import Connection, addresses_of, aio_connection, blocking_connection, nearly_over
from .failure import to_error
from .several import OneOfSeveral, to_any

R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)

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


class AioChannel(Connection):
    """A connection of the event loop that makes the first call."""

    def __init__(
        self, address: str, options: Sequence[tuple[str, Any]] = (), security: CallerSecurity | None = None
    ) -> None:
        super().__init__(address, aio_connection(address, options), security)

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, type(request))
        with self._errors(path, timeout, channel, self._heard, nearly_over(timeout)):
            answer: bytes = await method(request, timeout=timeout, metadata=self._security.metadata())
        return self._decoded(path, reply, answer)

    async def send(self, path: str, requests: AsyncIterator[S], request: type[S], reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, request, "stream_unary")
        call = method(timeout=timeout, metadata=self._security.metadata())
        heard, until = self._heard, nearly_over(timeout)

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
        call = method(request, timeout=timeout, metadata=self._security.metadata())
        heard, until = self._heard, nearly_over(timeout)
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

    def __init__(self, address: str, security: CallerSecurity | None = None) -> None:
        super().__init__(address, blocking_connection(address), security)

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, type(request))
        heard = self._heard
        try:
            answer: bytes = method(request, timeout=timeout, metadata=self._security.metadata())
        except grpc.RpcError as error:
            self._failed(error, channel, heard)
            raise to_error(error, self.address, path, timeout) from None
        return self._decoded(path, reply, answer)

    async def close(self) -> None:
        self._closed = True
        for channel in self._channels():
            channel.close()


def open_channel(
    address: str, options: Sequence[tuple[str, Any]] = (), security: CallerSecurity | None = None
) -> StreamingChannel:
    """A connection to the role at `address`. Any number of stubs may share it.

    Args:
        address: host:port; of several servers with commas between. Of them a frozen one holds up a call for 2 s at most.
        options: gRPC's, in place of the usual ones.
        security: what calls show, and how the channel is made; None: what this process has.
    """
    return to_any(address, lambda each, quick: AioChannel(each, options or quick, security), OneOfSeveral)


def open_blocking_channel(address: str, security: CallerSecurity | None = None) -> Channel:
    """The same for a thread."""
    channels = [BlockingChannel(each, security) for each in addresses_of(address)]
    return channels[0] if len(channels) == 1 else OneOfSeveral(channels, random.SystemRandom())
