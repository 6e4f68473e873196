"""What ATF does with redis-py's connections beneath its pools: how a command is packed, and how one is seen to have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import hiredis
import redis.exceptions as rx
from redis import Redis
from redis.asyncio.connection import AbstractConnection
from redis.backoff import NoBackoff
from redis.retry import Retry as BlockingRetry

Arg = str | bytes | int

BROKEN: Final = (rx.ConnectionError, rx.TimeoutError, OSError)
"""What the library raises when the connection failed, rather than the server refused. Whether it carried the call out is unknown."""

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


def packed(connection: AbstractConnection, command: tuple[Arg, ...]) -> bytes:
    """A command as it goes over the wire. redis-py packs in Python for asyncio, which took a third of a busy role's time."""
    try:
        return cast("bytes", hiredis.pack_command(command))  # type: ignore[arg-type]  # its stub wants a tuple of one value
    except TypeError:  # a subclass of a number or a string
        return b"".join(connection.pack_command(*command))


def blocking_client(options: Mapping[str, Any], timeout: float) -> Redis:
    """A blocking client of the same server."""
    kind = options.get("connection_class")
    own = {name: value for name, value in options.items() if name not in {"connection_class", "path"}}
    if kind is not None and "SSL" in kind.__name__:
        own["ssl"] = True
    if "path" in options:
        own["unix_socket_path"] = options["path"]
    return Redis(**own, socket_timeout=timeout, socket_connect_timeout=timeout, retry=BlockingRetry(NoBackoff(), 0))
