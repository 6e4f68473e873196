"""Keeps a client's connections by gRPC's blocking API: one for event loops, one for threads that block.

So calls need no thread of ours, may come from several loops, and go through the gate that makes forking safe (fork.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from atf.errors import Unavailable
from atf.rpc.caller_security import CallerSecurity
from atf.rpc.connection import Connection, blocking_connection, nearly_over
from atf.rpc.failure import to_error
from atf.rpc.several import BlockingOneOfSeveral, OneOfSeveral, to_any
from atf.runtime import end

from .fork import FORK_GUARD

R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)


_READY: Final = 2
"""Requests of a stream that are on their way or wait to be sent: more would only fill memory."""


class ForkSafeChannel(Connection):
    """A rpc.channel.StreamingChannel for any loop of any process that descends from the one that made it."""

    def __init__(
        self, address: str, options: Sequence[tuple[str, Any]] = (), security: CallerSecurity | None = None
    ) -> None:
        super().__init__(address, blocking_connection(address, options), security)
        FORK_GUARD.add(self)

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        heard, until = self._heard, nearly_over(timeout)
        under_way, channel = self._begin(
            path, type(request), lambda call: call.future(request, timeout=timeout, metadata=self._security.metadata())
        )
        try:
            return self._decoded(path, reply, await self._end(under_way, path, timeout, channel))
        except asyncio.CancelledError:
            self._left(channel, heard, until)
            raise
        finally:
            under_way.cancel()  # of use only if whoever called gave up

    async def send(self, path: str, requests: AsyncIterator[S], request: type[S], reply: type[R], timeout: float) -> R:
        loop, room = asyncio.get_running_loop(), asyncio.Semaphore(_READY)
        ready: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

        def each() -> Iterator[Message]:  # on a thread of gRPC's
            while (message := ready.get()) is not None:
                yield message
                _tell(loop, room.release)

        async def pump() -> None:
            async for message in requests:
                await room.acquire()
                ready.put(message)
            ready.put(None)

        under_way, channel = self._begin(
            path,
            request,
            lambda call: call.future(each(), timeout=timeout, metadata=self._security.metadata()),
            "stream_unary",
        )
        ended, pumping = self._end(under_way, path, timeout, channel), asyncio.ensure_future(pump())
        try:
            either: list[asyncio.Future[Any]] = [ended, pumping]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                pumping.result()  # raises what `requests` did
            return self._decoded(path, reply, await ended)
        finally:
            if not ended.cancel() and not ended.cancelled():
                ended.exception()  # seen, though nobody asked
            under_way.cancel()
            ready.put(None)  # lets gRPC's thread go
            await end([pumping])

    async def receive(self, path: str, request: Message, reply: type[R], timeout: float) -> AsyncGenerator[R, None]:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

        def read() -> None:  # on a thread of its own: the blocking API has no other way
            last = None
            try:
                for each in call:
                    _tell(loop, arrived.put_nowait, each)
            except grpc.RpcError:
                last = self._error(call, path, timeout, channel, heard)
            _tell(loop, arrived.put_nowait, last)

        heard = self._heard
        call, channel = self._begin(
            path,
            type(request),
            lambda call: call(request, timeout=timeout, metadata=self._security.metadata()),
            "unary_stream",
        )
        threading.Thread(target=read, name="atf stream", daemon=True).start()
        try:
            while (each := await arrived.get()) is not None:
                if isinstance(each, Exception):
                    raise each
                yield self._decoded(path, reply, each)
        finally:
            call.cancel()

    def _begin(
        self, path: str, request: type[Message], begin: Callable[[Any], Any], kind: str = "unary_unary"
    ) -> tuple[Any, Any]:
        """A call that `begin` makes of a method, and the channel that it is made on."""
        channel: Any = None

        def call() -> Any:
            nonlocal channel
            method, channel = self._method(path, request, kind)
            return begin(method)

        return FORK_GUARD.start(call), channel

    def _end(self, under_way: Any, path: str, timeout: float, channel: Any) -> asyncio.Future[bytes]:
        """How a call on `channel` ends, for this event loop."""
        heard = self._heard
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes] = loop.create_future()

        def finish() -> None:
            if done.done():  # cancelled
                return
            if under_way.code().value[0] == 0:
                done.set_result(under_way.result())
            else:
                done.set_exception(self._error(under_way, path, timeout, channel, heard))

        under_way.add_done_callback(lambda _: _tell(loop, finish))  # on a thread of gRPC's
        return done

    def _error(self, call: Any, path: str, timeout: float, channel: Any, heard: int) -> Exception:
        if call.cancelled():
            return Unavailable(f"{path.rpartition('/')[2]}: the call to {self.address} was cut off")
        self._failed(call, channel, heard)
        return to_error(call, self.address, path, timeout)

    def forked(self) -> list[Any]:
        return _inherited(self)

    async def close(self) -> None:
        """Ends the connection. Calls that wait, and later ones, raise Unavailable."""
        self._closed = True
        for channel in self._channels():
            channel.close()


def _inherited(connection: Connection) -> list[Any]:
    """What a child process must leave untouched; it opens a connection of its own."""
    inherited = [connection._channels(), connection._live]
    connection._live, connection._given_up = None, weakref.WeakSet()
    return inherited


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., object], *args: object) -> None:
    """Has an event loop do something, from another thread."""
    with contextlib.suppress(RuntimeError):  # the loop was closed; nobody waits any more
        loop.call_soon_threadsafe(what, *args)


class ForkSafeBlockingChannel(Connection):
    """A connection for calls that block their thread."""

    def __init__(
        self, address: str, options: Sequence[tuple[str, Any]] = (), security: CallerSecurity | None = None
    ) -> None:
        super().__init__(address, blocking_connection(address, options), security)
        FORK_GUARD.add(self)

    def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        """One unary call; `timeout` in seconds.

        Raises:
            AtfError: what the server raised; Unavailable, DeadlineExceeded: it was not reached, or did not answer.
        """
        with FORK_GUARD.blocking(lambda: self._method(path, type(request)), self.cut) as (method, channel):
            heard = self._heard
            try:
                answer: bytes = method(request, timeout=timeout, metadata=self._security.metadata())
            except grpc.RpcError as error:
                self._failed(error, channel, heard)
                raise to_error(error, self.address, path, timeout) from None
            except ValueError:  # gRPC's word for a channel that was closed just now
                raise Unavailable(f"{path.rpartition('/')[2]}: the call to {self.address} was cut off") from None
        return self._decoded(path, reply, answer)

    def close(self) -> None:
        """Ends the connection for good. Calls that wait, and later ones, raise Unavailable."""
        self._closed = True
        self.cut()

    def cut(self) -> None:
        """Ends the connection, and calls that wait with Unavailable; the next call opens another one."""
        channels = self._channels()
        self._live = None
        for channel in channels:
            channel.close()

    def forked(self) -> list[Any]:
        return _inherited(self)


def open_fork_safe(address: str, security: CallerSecurity | None = None) -> ForkSafeChannel | OneOfSeveral:
    """A connection to the frontend at `address`, or to any one of those with commas between."""
    return to_any(address, lambda each, quick: ForkSafeChannel(each, quick, security), OneOfSeveral)


def open_fork_safe_blocking(
    address: str, security: CallerSecurity | None = None
) -> ForkSafeBlockingChannel | BlockingOneOfSeveral:
    """The same for calls that block their thread."""
    return to_any(address, lambda each, quick: ForkSafeBlockingChannel(each, quick, security), BlockingOneOfSeveral)
