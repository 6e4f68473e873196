"""What ATF does with redis-py's connections beneath its pools: which are kept at hand, how commands are sent, and how an end is seen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import hiredis
import redis.exceptions as rx
from redis import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool as BlockingPool
from redis.retry import Retry as BlockingRetry

from .store_tls import BlockingTlsConnection, TlsConnection

Arg = str | bytes | int

BROKEN: Final = (rx.ConnectionError, rx.TimeoutError, OSError)
"""What the library raises when the connection failed, rather than the server refused. Whether it carried the call out is unknown."""

_MUCH_UNSENT: Final = 64 << 10
"""Bytes that wait to be sent, at which no more are added: about as many as the buffer of asyncio's own streams holds before they wait."""

_CLOSED: Final = "the handler is closed"
"""How uvloop ends its RuntimeError of a transport that has been closed."""


def lost(error: RuntimeError) -> rx.ConnectionError:
    """The library's own error of a connection that was lost, for uvloop's, which the library lets pass. Raises any other."""
    if not str(error).endswith(_CLOSED):
        raise error
    return rx.ConnectionError("the connection was closed")


def is_closed(connection: AbstractConnection) -> bool:
    """Whether a connection that nobody used has ended, as far as that was heard of."""
    reader = connection._reader
    if reader is None or reader.at_eof():
        return True
    return isinstance(reader, asyncio.StreamReader) and reader.exception() is not None  # not a fake's


class KeptConnections:
    """A pool's connections, some of which are kept at hand between calls.

    The pool's own way takes a third of a call's time: a lock, a timeout and a look into the socket, each time. So connections that
    work stay out of it between calls, unless somebody waits for one; one is left to tools, which know the pool alone.
    """

    def __init__(self, pool: ConnectionPool, keep: int) -> None:
        self._pool = pool
        self._keep = keep
        self._at_hand: list[AbstractConnection] = []
        self._waiting = 0

    async def take(self) -> AbstractConnection:
        """A connection, for one who gives it back."""
        while self._at_hand:
            connection = self._at_hand.pop()
            if not is_closed(connection):
                return connection
            await self._drop(connection)
        self._waiting += 1
        try:
            taken: AbstractConnection = await self._pool.get_connection()
            return taken
        except RuntimeError as error:
            raise lost(error) from error
        finally:
            self._waiting -= 1

    async def give(self, connection: AbstractConnection) -> None:
        """Takes a connection back."""
        if self._waiting or len(self._at_hand) >= self._keep or not connection.is_connected:
            await self._pool.release(connection)
        else:
            self._at_hand.append(connection)

    async def _drop(self, connection: AbstractConnection) -> None:
        await connection.disconnect(nowait=True)
        await self._pool.release(connection)

    async def drop_idle(self) -> None:
        """Closes those that nobody uses now."""
        while self._at_hand:
            await self._drop(self._at_hand.pop())
        for connection in list(getattr(self._pool, "_available_connections", ())):
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Closes all, and keeps none that is given back later."""
        self._keep = 0
        while self._at_hand:
            await self._drop(self._at_hand.pop())
        await self._pool.disconnect()


async def send(connection: AbstractConnection, *command: Arg) -> Any:
    """Sends one command, and reads its answer."""
    try:
        await _write(connection, _packed(connection, command))
        return await connection.read_response()
    except rx.ResponseError:
        raise
    except BaseException:
        # given up in the middle: the answer may still come, and must not be taken for the next command's
        await connection.disconnect(nowait=True)
        raise


async def send_all(connection: AbstractConnection, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
    """Sends some commands at once, and reads their answers; a refusal is one."""
    answers: list[Any] = []
    try:
        await _write(connection, b"".join([_packed(connection, each) for each in commands]))
        for _ in commands:
            try:
                answers.append(await connection.read_response())
            except rx.ResponseError as error:
                answers.append(error)
    except BaseException:
        await connection.disconnect(nowait=True)  # as in `send`
        raise
    return answers


async def _write(connection: AbstractConnection, data: bytes) -> None:
    """Sends bytes. redis-py starts an asyncio task for each write, to bound its time; but a write takes time only where much waits to be sent."""
    real = isinstance(getattr(connection, "_reader", None), asyncio.StreamReader)
    writer = getattr(connection, "_writer", None) if real else None
    if writer is None:  # it is not open yet; or a fake's, or one that blocks
        await connection.send_packed_command([data])
        return
    writer.write(data)
    if writer.transport.get_write_buffer_size() > _MUCH_UNSENT:
        await connection.send_packed_command([])  # waits until there is room, as long as a write may take


def _packed(connection: AbstractConnection, command: tuple[Arg, ...]) -> bytes:
    """A command as it goes over the wire. redis-py packs in Python for asyncio, which took a third of a busy role's time."""
    try:
        return cast("bytes", hiredis.pack_command(command))  # type: ignore[arg-type]  # its stub wants a tuple of one value
    except TypeError:  # a subclass of a number or a string
        return b"".join(connection.pack_command(*command))


def blocking_client(options: Mapping[str, Any], timeout: float) -> Redis:
    """A blocking client of the same server."""
    own = {name: value for name, value in options.items() if name not in {"connection_class", "path"}}
    own |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": BlockingRetry(NoBackoff(), 0)}
    if options.get("connection_class") is TlsConnection:
        return Redis.from_pool(BlockingPool(BlockingTlsConnection, **own))
    if "path" in options:
        own["unix_socket_path"] = options["path"]
    return Redis(**own)
