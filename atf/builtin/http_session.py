"""One HTTP session per event loop, and one exchange over it: the only module here that speaks HTTP, with aiohttp, and more leniently than aiohttp does (http_reader.py). No cookie, no proxy of the
environment and no redirect has a part in it.

The session ends with its loop: it lives in an asynchronous generator, which whoever ends the loop closes (shutdown_asyncgens).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage

from atf.config.allowed_hosts import AllowedHosts, split_authority
from atf.task import clip
from atf.visible import one_line

from .http_answer import MAX_BODY_BYTES, HttpAnswer
from .http_reader import AnswerReader, NotHttp
from .http_request import Request, TargetAddress, without_sent

CONNECT_S: Final = 10.0
"""Seconds until a connection that has not come about is given up, so that another address has its turn; half of a request's
timeout where that is shorter, since of one that ends with the timeout nobody could say whether anything was sent."""
READ_BYTES: Final = MAX_BODY_BYTES
"""Of a body that are read: characters take no less as JSON than they do here."""


_kept: dict[tuple[asyncio.AbstractEventLoop, AllowedHosts], AsyncGenerator[aiohttp.ClientSession]] = {}
"""The open sessions, each until its loop ends."""


class AddressRefused(Exception):
    """A name leads to an address that may not be called."""


class NotSent(Exception):
    """There was no connection: nothing can have been done with the request."""


class Unanswered(Exception):
    """The request went out, and no whole answer came back: whether it was done is unknown."""


async def send(
    request: Request, address: TargetAddress, headers: dict[str, str], timeout_s: float, allowed: AllowedHosts
) -> HttpAnswer:
    """Sends a request to one address, over the session of the running loop.

    Raises:
        NotSent, Unanswered, AddressRefused: see there.
    """
    session = await _session(allowed)
    try:
        async with session.request(
            request.method,
            address.url,
            data=request.body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s, connect=min(CONNECT_S, timeout_s / 2)),
        ) as response:
            body = await _beginning(response.content)
            truncated = len(body) > READ_BYTES
            if truncated:
                response.close()  # it may have no end
            return HttpAnswer(response.status, response.headers, body[:READ_BYTES], truncated, response.charset or "")
    except aiohttp.ConnectionTimeoutError:
        raise NotSent(f"{address.origin}: no connection in time") from None
    except aiohttp.ClientSSLError as error:
        raise NotSent(f"{address.origin}: no connection: {why_no_tls(error)}") from None
    except aiohttp.ClientConnectorError as error:
        raise NotSent(f"{address.origin}: no connection: {error.os_error.strerror or error.os_error}") from None
    except TimeoutError:
        raise Unanswered(f"{address.origin}: no answer within {timeout_s:g} s") from None
    except aiohttp.ClientResponseError as error:
        raise Unanswered(
            f"{address.origin}: the answer is no HTTP: {one_line(without_sent(error.message, request))}"
        ) from None
    except aiohttp.ServerDisconnectedError:
        raise Unanswered(f"{address.origin}: the connection was closed before an answer came") from None
    except aiohttp.ClientPayloadError as error:
        why = getattr(error.__cause__, "message", None) or str(error)
        raise Unanswered(
            f"{address.origin}: the answer broke off: {one_line(without_sent(clip(why, 256), request))}"
        ) from None
    except (aiohttp.ClientError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unanswered(f"{address.origin}: the connection was lost: {one_line(clip(why, 256))}") from None


def why_no_tls(error: aiohttp.ClientSSLError) -> str:
    """What the TLS library said, as in "its certificate is not trusted: self-signed certificate"."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        found = error.certificate_error
        return f"its certificate is not trusted: {one_line(getattr(found, 'verify_message', '') or str(found))}"
    reason = getattr(error.os_error, "reason", None) or error.os_error.strerror or str(error.os_error)
    return f"TLS failed: {one_line(reason).replace('_', ' ').lower()}"


class _LenientConnection(ResponseHandler):
    """One connection, whose answers aiohttp's parser gets as AnswerReader writes them again."""

    _reader: AnswerReader | None = None

    def set_response_params(self, *, skip_payload: bool = False, **params: Any) -> None:
        """A request goes out; its answer comes next."""
        self._reader = AnswerReader(body=not skip_payload)
        super().set_response_params(skip_payload=skip_payload, **params)

    def data_received(self, data: bytes) -> None:
        if self._reader is None or not data:
            super().data_received(data)
            return
        self._pass_on(self._reader, lambda reader: reader.feed(data))
        if self._reader.surplus:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._reader is not None:
            self._pass_on(self._reader, AnswerReader.end)
        super().connection_lost(exc)

    def _pass_on(self, reader: AnswerReader, read: Callable[[AnswerReader], bytes]) -> None:
        try:
            if plain := read(reader):
                super().data_received(plain)
        except NotHttp as error:
            if self._payload is not None:  # the body of an answer whose head was passed on
                self._payload.set_exception(aiohttp.ClientPayloadError(str(error)))
            self.set_exception(BadHttpMessage(str(error)))
            if self.transport is not None:
                self.transport.close()


class _AllowedResolver(aiohttp.ThreadedResolver):
    """Looks names up, and passes on the addresses that may be called: what is connected to is what was looked at."""

    def __init__(self, allowed: AllowedHosts) -> None:
        super().__init__()
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        found = await super().resolve(host, port, family)
        name = split_authority(host)[0]
        may = [each for each in found if self._allowed.allows_address(name, port, each["host"])]
        if found and not may:
            raise AddressRefused(f"url: {name} leads to {found[0]['host']}, which is not allowed here")
        return may


async def _session(allowed: AllowedHosts) -> aiohttp.ClientSession:
    loop = asyncio.get_running_loop()
    kept = _kept.get((loop, allowed))
    if kept is None:
        kept = _kept[loop, allowed] = _open(loop, allowed)
    return await anext(kept)


async def _open(loop: asyncio.AbstractEventLoop, allowed: AllowedHosts) -> AsyncGenerator[aiohttp.ClientSession]:
    # How many run at once is bounded by the executor; a slow host must not keep connections from the others.
    connector = aiohttp.TCPConnector(limit=0, resolver=_AllowedResolver(allowed))
    connector._factory = partial(_LenientConnection, loop=loop)  # type: ignore[assignment]  # there is no public place for it
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "ATF", "Accept-Encoding": "identity"},
        auto_decompress=False,
        trust_env=False,
    )
    try:
        while True:
            yield session
    finally:
        del _kept[loop, allowed]
        await session.close()


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    """The first bytes of a body: READ_BYTES, and more if there are more."""
    body = bytearray()
    while len(body) <= READ_BYTES and (chunk := await content.read(READ_BYTES + 1 - len(body))):
        body += chunk
    return bytes(body)
