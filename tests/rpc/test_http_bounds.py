"""What an HTTP port of aiohttp's takes: connections that are silent or slow, bodies that are slow or packed, too many of them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Self
from unittest.mock import Mock

import pytest
from aiohttp import web

from atf.rpc import http_bounds
from atf.rpc.http_bounds import Arrived, address_of, bounded_runner, listen, peer_of, receive_body
from atf.rpc.listen_address import listening_socket

MOST_BYTES = 1_000


async def answer(request: web.Request) -> web.Response:
    await receive_body(request)
    return web.Response(text=f"{len(await request.read())} from {peer_of(request)}, {address_of(request)}")


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setattr(http_bounds, "IDLE_S", 0.2)
    monkeypatch.setattr(http_bounds, "BODY_S", 0.2)
    monkeypatch.setattr(http_bounds, "LINGER_S", 0.05)
    monkeypatch.setattr(http_bounds, "CONNECTIONS", 3)
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_post("/", answer)
    runner = bounded_runner(app, 0)
    await runner.setup()
    host, listening = await listening_socket("127.0.0.1:0")
    taking = await listen(runner, listening)
    yield f"{host}:{listening.getsockname()[1]}"
    taking.close()
    await runner.cleanup()


class RawHttp:
    """Somebody who writes what they like."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, text: str, body: bytes = b"") -> None:
        self._writer.write(text.replace("\n", "\r\n").encode() + body)

    async def answered(self) -> str:
        """What comes until the connection is closed."""
        try:
            return (await asyncio.wait_for(self._reader.read(), 5)).decode()
        except ConnectionError:
            return ""


def head(length: int, more: str = "") -> str:
    return f"POST / HTTP/1.1\nHost: x\nContent-Length: {length}\nConnection: close\n{more}\n"


async def test_a_silent_connection_is_closed(address: str) -> None:
    async with RawHttp(address) as silent:
        assert await silent.answered() == ""


async def test_a_request_that_comes_byte_by_byte_is_closed(address: str) -> None:
    async with RawHttp(address) as slow:
        closed = asyncio.ensure_future(slow.answered())
        for each in "POST / HTTP/1.1\nHost: " + "x" * 1_000:
            slow.send(each)
            await asyncio.sleep(0.02)
            if closed.done():
                break
        assert await closed == ""


async def test_a_body_that_does_not_come_is_given_up(address: str) -> None:
    async with RawHttp(address) as slow:
        slow.send(head(100), b"a" * 50)
        assert (await slow.answered()).startswith("HTTP/1.1 408 the body has not come within 0.2 s")


async def test_a_body_that_is_packed_is_refused(address: str) -> None:
    packed = gzip.compress(bytes(10 << 20))
    async with RawHttp(address) as bomb:
        bomb.send(head(len(packed), "Content-Encoding: gzip\n"), packed)
        assert (await bomb.answered()).startswith("HTTP/1.1 415 the body has the coding 'gzip'")


async def test_a_body_that_is_too_large_is_refused(address: str) -> None:
    async with RawHttp(address) as large:
        large.send(head(MOST_BYTES + 2), b"a" * (MOST_BYTES + 2))
        assert (await large.answered()).startswith("HTTP/1.1 413")


async def test_headers_that_are_no_good_are_refused_and_not_logged(
    address: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for bad in ("a" * 100_000, "atf_secret\x01"):
        async with RawHttp(address) as large:
            large.send(head(0, f"Authorization: {bad}\n"))
            assert (await large.answered()).startswith("HTTP/1.0 400")
    async with RawHttp(address) as strange:
        strange.send("POST / HTTP/1.1\nHost: x\nConnection: close\nExpect: atf_secret", b"\xff\r\n\r\n")
        assert (await strange.answered()).startswith("HTTP/1.1 500")
    assert caplog.text + "".join(capfd.readouterr()) == ""


async def test_so_many_connections_at_most(address: str) -> None:
    async with RawHttp(address), RawHttp(address), RawHttp(address) as third, RawHttp(address) as fourth:
        assert await fourth.answered() == ""
        third.send(head(2, "X-Forwarded-For: 10.0.0.1\n"), b"ab")
        said = (await third.answered()).rpartition("\r\n")[2]
        assert said.startswith("2 from ipv4:127.0.0.1:")
        assert said.endswith(", ipv4:127.0.0.1")


@pytest.mark.parametrize(("host", "open_ones"), [("10.0.0.1", 2), ("127.0.0.1", 3), ("::1", 3)])
async def test_one_address_leaves_some_connections_to_others(
    host: str, open_ones: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_bounds, "CONNECTIONS", 4)
    monkeypatch.setattr(http_bounds, "MAX_OF_ADDRESS", 2)
    runner = bounded_runner(web.Application(), 0)
    await runner.setup()
    assert runner.server is not None

    def connect(address: str) -> bool:
        transport = Mock(asyncio.Transport)
        transport.get_extra_info.side_effect = {"peername": (address, 1)}.get
        Arrived(runner.server).connection_made(transport)  # type: ignore[arg-type]
        return not transport.close.called

    assert sum(connect(host) for _ in range(3)) == open_ones
    assert connect("10.0.0.2"), "another one still comes in"
    while connect("10.0.0.3"):
        pass
    assert len(runner.server.connections) == 4
    await runner.cleanup()


@pytest.mark.parametrize(
    ("name", "peer"),
    [(("::1", 5, 0, 0), "ipv6:[::1]:5"), (("10.0.0.1", 5), "ipv4:10.0.0.1:5"), ("", "unix:")],
)
def test_a_peer_is_named_as_grpc_does(name: object, peer: str) -> None:
    class Request:
        class transport:  # noqa: N801
            @staticmethod
            def get_extra_info(_what: str) -> object:
                return name

    assert peer_of(Request()) == peer  # type: ignore[arg-type]
