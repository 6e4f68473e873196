"""Connections that block the thread which waits for their answers, for a caller that wants no event loop to take part.

They have the methods of the asynchronous connections, so that everything above them is the same code. None of these methods ever suspends: the
coroutine that awaits one goes on in the same step.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis import Redis
from redis.exceptions import ConnectionError as LostConnection, TimeoutError as TooLate

from atf.config.settings import StoreSettings

from .connection import Link
from .sockets import Arg, blocking_client

_LEAST_S: Final = 0.001
"""Seconds that an answer has in any case: a socket takes 0 for: do not wait."""

_SLACK_S: Final = 0.05
"""Seconds by which a socket's timeout may differ from what is left: so it is set once, and not for each call."""


class BlockingLink(Link):
    """A link to one server over connections that block."""

    blocks = True
    pool: BlockingPool  # type: ignore[assignment]  # it has the methods that are called

    @classmethod
    def over(cls, options: Mapping[str, Any], where: str, settings: StoreSettings) -> BlockingLink:
        """As Link.to."""
        return cls.to(options, where, settings, BlockingPool)

    def until(self, instant: float) -> None:
        """Waits for no answer beyond this instant, on the monotonic clock; for each `store_timeout` at most."""
        self.pool.until = instant

    def cut(self) -> None:
        """Ends the call that another thread makes, as if the connection had been lost."""
        self.pool.cut()


class BlockingPool:
    """Makes connections, and has those methods of the library's asynchronous pools that a link calls.

    Attributes:
        until: no answer is waited for beyond this instant, on the monotonic clock.
    """

    def __init__(self, *, timeout: float, **options: Any) -> None:
        self._timeout = timeout
        self.until = math.inf
        self._open: set[BlockingConnection] = set()
        bounds = {"max_connections", "retry", "socket_timeout", "socket_connect_timeout"}  # which it has its own way
        own = {name: each for name, each in options.items() if name not in bounds}
        self._client: Redis = blocking_client(own, timeout)

    def left(self) -> float:
        """Seconds that an answer may take that is waited for now."""
        return max(_LEAST_S, min(self._timeout, self.until - time.monotonic()))

    async def get_connection(self) -> BlockingConnection:
        connection = BlockingConnection(self, self._client.connection_pool.make_connection())
        self._open.add(connection)
        try:
            connection.connect()
        except BaseException:
            self._open.discard(connection)
            raise
        return connection

    async def release(self, connection: BlockingConnection) -> None:
        self._open.discard(connection)
        await connection.disconnect()

    def cut(self) -> None:
        for each in list(self._open):
            each.cut()

    async def disconnect(self, *_: Any) -> None:
        """Nothing is kept here."""


class _Opened:
    """One life of a connection, as the asynchronous ones have a stream reader for each."""

    def __init__(self, file: int) -> None:
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def at_eof(self) -> bool:
        """Whether the server has ended it, or said what nobody asked for."""
        return bool(self._poll.poll(0))


class BlockingConnection:
    """A connection of the library's blocking half."""

    def __init__(self, pool: BlockingPool, connection: Any) -> None:
        self._pool, self._connection = pool, connection
        self._reader: _Opened | None = None
        self._timeout_s = 0.0

    @property
    def is_connected(self) -> bool:
        return self._reader is not None and self._connection._sock is not None

    def connect(self) -> None:
        self._connection.connect()
        self._reader, self._timeout_s = _Opened(self._connection._sock.fileno()), 0.0

    async def send_packed_command(self, command: Sequence[bytes]) -> None:
        if not self.is_connected:
            raise LostConnection("the connection was closed")
        self._bound(self._connection._sock)
        self._connection.send_packed_command(command)

    async def send_command(self, *command: Arg) -> None:
        await self.send_packed_command(self._connection.pack_command(*command))

    def _bound(self, sock: socket.socket) -> None:
        """Has what is sent and read next end in time. The kernel bounds a plain socket: Python would poll it before each send and each read."""
        left = self._pool.left()
        if 0 <= self._timeout_s - left <= min(_SLACK_S, left):
            return
        self._timeout_s = left
        if type(sock) is not socket.socket:  # TLS reads and sends by several steps, which its library bounds
            sock.settimeout(left)
            return
        sock.settimeout(None)
        seconds = struct.pack("@ll", int(left), int(left % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)

    async def read_response(self) -> Any:
        try:
            return self._connection.read_response()
        except LostConnection as error:
            if isinstance(error.__context__, BlockingIOError):  # the kernel's timeout
                raise TooLate("Timeout reading from socket") from error
            raise

    def pack_command(self, *command: Arg) -> Any:
        return self._connection.pack_command(*command)

    def pack_commands(self, commands: Sequence[Sequence[Arg]]) -> Any:
        return self._connection.pack_commands(commands)

    def cut(self) -> None:
        """Ends it from another thread."""
        sock = self._connection._sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    async def disconnect(self, **_how: Any) -> None:
        self._reader = None
        self._connection.disconnect()
