"""The client's connections, by gRPC's blocking API: one for event loops, to which its futures are bridged, one for threads that block.

So calls need no thread of ours, may come from several loops, and go through the gate that makes forking safe (fork.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from atf.errors import Unavailable
from atf.rpc.channel import Connection, connect_apart
from atf.rpc.failure import to_error

from .fork import GATE

R = TypeVar("R", bound=Message)


class ForkSafeChannel(Connection):
    """A rpc.channel.Channel for any loop of any process that descends from the one that made it."""

    def __init__(self, address: str) -> None:
        super().__init__(address, lambda: connect_apart(address))
        GATE.add(self)

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes] = loop.create_future()

        def ended(call: Any) -> None:  # on a thread of gRPC's
            with contextlib.suppress(RuntimeError):  # the loop was closed; nobody waits any more
                loop.call_soon_threadsafe(settle, call)

        def settle(call: Any) -> None:
            if done.cancelled():
                return
            if call.code().value[0] == 0:
                done.set_result(call.result())
            else:
                done.set_exception(self._error(call, path, timeout))

        under_way = GATE.start(lambda: self._method(path, type(request)).future(request, timeout=timeout))
        under_way.add_done_callback(ended)
        try:
            return self._decoded(path, reply, await done)
        finally:
            under_way.cancel()  # of use only if whoever called gave up

    def _error(self, call: Any, path: str, timeout: float) -> Exception:
        if call.cancelled():
            return Unavailable(f"{path.rpartition('/')[2]}: the call to {self.address} was cut off")
        return to_error(call, self.address, path, timeout)

    def forked(self) -> list[Any]:
        inherited = [self._channel, self._methods]
        self._channel, self._methods = None, {}
        return inherited

    async def close(self) -> None:
        """Ends the connection. Calls that wait, and later ones, raise Unavailable."""
        self._closed = True
        if self._channel is not None:
            self._channel.close()


class BlockingChannel(Connection):
    """A connection for calls that block their thread."""

    def __init__(self, address: str) -> None:
        super().__init__(address, lambda: connect_apart(address))
        GATE.add(self)

    def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        """One unary call; `timeout` in seconds.

        Raises:
            AtfError: what the server raised; Unavailable, DeadlineExceeded: it was not reached, or did not answer.
        """
        with GATE.blocking(lambda: self._method(path, type(request)), self.cut) as method:
            try:
                answer: bytes = method(request, timeout=timeout)
            except grpc.RpcError as error:
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
        channel, self._channel, self._methods = self._channel, None, {}
        if channel is not None:
            channel.close()

    def forked(self) -> list[Any]:
        inherited = [self._channel, self._methods]
        self._channel, self._methods = None, {}
        return inherited
