"""Bounds what an HTTP port of aiohttp's takes: connections, and the time that a request may need to come.

    connections    CONNECTIONS at the same time, MAX_OF_ADDRESS of them from one address; further ones are closed
    silent ones    closed IDLE_S after their last answer, or after they began: also where a request comes byte by byte
    bodies         within BODY_S, not compressed: a small one could become a huge one

How large a body may be is the application's to say. Whoever has let in a caller counts its requests by CallerLimits, as a gRPC server does.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from atf.config.web import is_loopback

IDLE_S: Final = 75.0
"""Longer than proxies keep a connection for its next request (60 s), which would otherwise be sent on one that is just being closed."""
BODY_S: Final = 30.0
CONNECTIONS: Final = 512
MAX_OF_ADDRESS: Final = 256
"""Of them from one address, so that it leaves some to others; this machine may have all, where a proxy brings everybody's."""
HANDSHAKE_S: Final = 20.0
LINGER_S: Final = 2.0
"""Seconds for which the rest of a request that was refused is read, so that its sender gets to see the answer."""


class Arrived(asyncio.Protocol):
    """A connection of which nobody knows yet whether it may be."""

    def __init__(self, answering: web.Server) -> None:
        self._answering = answering

    def connection_made(self, transport: Any) -> None:  # uvloop's is no asyncio.Transport
        if not _has_room(self._answering, _host_of(transport)):
            transport.close()
            return
        protocol = self._answering()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def _has_room(answering: web.Server, host: str) -> bool:
    """Whether an address may have one more connection."""
    found = answering.connections
    if len(found) >= CONNECTIONS:
        return False
    if len(found) < MAX_OF_ADDRESS or is_loopback(host):
        return True
    return sum(_host_of(each.transport) == host for each in found) < MAX_OF_ADDRESS


def _host_of(transport: asyncio.BaseTransport | None) -> str:
    found = transport.get_extra_info("peername") if transport is not None else None
    return str(found[0]) if found else ""


def bounded_runner(app: web.Application, drain_s: float) -> web.AppRunner:
    """What runs an application.

    Args:
        app: what answers.
        drain_s: seconds that requests under way have when the port ends.
    """
    return web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=drain_s,
        keepalive_timeout=IDLE_S,
        auto_decompress=False,
        lingering_time=LINGER_S,
        logger=_log,
    )


class _Readable(logging.Filter):
    """Leaves out what aiohttp says of requests that it can't read: it shows what stood in their headers, which may be a token. Whoever likes could
    fill the log with it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        # UnicodeEncodeError: of a header Expect that is no text, which it repeats; what handlers raise does not come here.
        return kind is None or not issubclass(kind, HttpProcessingError | UnicodeEncodeError)


_log: Final = logging.getLogger("atf.http")
_log.addFilter(_Readable())


async def listen(runner: web.AppRunner, listening: socket.socket, tls: ssl.SSLContext | None = None) -> asyncio.Server:
    """Takes connections of a socket; close what this gives before the runner is cleaned up.

    Args:
        runner: which was set up.
        listening: the socket; its owner binds it.
        tls: what connections are wrapped with; None: they are plain.
    """
    answering = runner.server
    assert answering is not None

    return await asyncio.get_running_loop().create_server(
        lambda: Arrived(answering), sock=listening, ssl=tls, ssl_handshake_timeout=HANDSHAKE_S if tls else None
    )


async def receive_body(request: web.Request) -> None:
    """Has the body come, which `request.read()` gives from then on.

    Raises:
        HTTPException: it is compressed, too large, or has not come in time.
    """
    coding = request.headers.get("Content-Encoding", "identity")
    if coding.lower() != "identity":
        raise web.HTTPUnsupportedMediaType(reason=f"the body has the coding {coding[:20]!r}: send it as it is")
    try:
        async with asyncio.timeout(BODY_S):
            await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(reason=f"the body has not come within {BODY_S:g} s") from None


def peer_of(request: web.Request) -> str:
    """Where a request comes from, as gRPC says it: ipv4:10.0.0.1:4711. What its headers say of that anybody could say."""
    found = request.transport.get_extra_info("peername") if request.transport is not None else None
    if not found:
        return "unix:"
    host, port = str(found[0]), found[1]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def address_of(request: web.Request) -> str:
    """The same without the port: whose requests count together where nobody says who calls."""
    return peer_of(request).rpartition(":")[0]
