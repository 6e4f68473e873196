"""Answers that curl and urllib take and strict parsers refuse: each is one call, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from atf.builtin.http_reader import MAX_HEAD_BYTES, AnswerReader, NotHttp
from atf.errors import Retry
from tests.builtin.test_http import call
from tests.schedule.test_fuzz import fuzz

LENGTH = b"Content-Length: 5\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def answer(headers: bytes = LENGTH, body: bytes = b"hello", status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return status + b"\r\n" + headers + b"\r\n" + body


TAKEN = {
    "a header of 9 KB": answer(LENGTH + b"X: " + b"a" * 9_000 + b"\r\n"),
    "a header of 64 KiB": answer(LENGTH + b"X: " + b"a" * (64 << 10) + b"\r\n"),
    "500 headers": answer(LENGTH + b"".join(b"X-%d: a\r\n" % each for each in range(500))),
    "a reason of 9 KB": answer(status=b"HTTP/1.1 200 " + b"a" * 9_000),
    "bytes after the body": answer(body=b"hello, and more"),
    "equal lengths": answer(LENGTH + LENGTH),
    "equal lengths in one header": answer(b"Content-Length: 5, 5\r\n"),
    "lengths that differ": answer(LENGTH + b"Content-Length: 7\r\n", b"hello!!"),
    "a length with a sign": answer(b"Content-Length: +5\r\n"),
    "a length that is none": answer(b"Content-Length: five\r\n"),
    "an empty length": answer(b"Content-Length:\r\n"),
    "100": b"HTTP/1.1 100 Continue\r\n\r\n" + answer(),
    "102 twenty times": b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\n" * 20 + answer(),
    "103": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + answer(),
    "no reason": answer(status=b"HTTP/1.1 200"),
    "a reason in Latin-1": answer(status=b"HTTP/1.1 200 D\xe9j\xe0"),
    "two blanks": answer(status=b"HTTP/1.1  200 OK"),
    "HTTP/1.0": answer(b"", status=b"HTTP/1.0 200 OK"),
    "small letters": answer(status=b"http/1.0 200 ok"),
    "HTTP/1.2": answer(status=b"HTTP/1.2 200 OK"),
    "HTTP/2": answer(status=b"HTTP/2 200"),
    "LF alone": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "LF at times": b"HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello",
    "line ends in front": b"\r\n\r\n" + answer(),
    "folded": answer(b"X: a\r\n  b\r\n" + LENGTH),
    "folded at once": answer(b"Content-Length:\r\n 5\r\n"),
    "a fold of nothing": answer(b" X: a\r\n" + LENGTH),
    "extensions of chunks": answer(CHUNKED, b'2;a=b;c="d"\r\nhe\r\n3 \r\nllo\r\n0;x\r\n\r\n'),
    "trailers": answer(CHUNKED, b"5\r\nhello\r\n0\r\nX: y\r\nContent-Length: 9\r\n\r\n"),
    "chunks and LF alone": answer(CHUNKED, b"5\nhello\n0\n\n"),
    "chunks without their last line": answer(CHUNKED, b"5\r\nhello\r\n0\r\n"),
    "chunks and a length": answer(CHUNKED + b"Content-Length: 99\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
    "chunks named twice": answer(CHUNKED + CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"),
    "capitals": answer(b"TRANSFER-ENCODING: Chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
    "a coding that is unknown": answer(b"Transfer-Encoding: zip\r\n" + LENGTH),
    "a coding that is none": answer(b"Transfer-Encoding: identity\r\n" + LENGTH),
    "closed at the end": answer(b"Connection: close\r\n"),
    "closed at the end, unsaid": answer(b""),
    "letters of Latin-1": answer(LENGTH + b"X: caf\xe9\r\nY\xe9: a\r\n"),
    "control characters": answer(LENGTH + b"X: a\x00\x01\rb\r\n"),
    "names that are none": answer(b"X : a\r\nY z: a\r\n: a\r\nX(y): a\r\nnothing\r\n" + LENGTH),
    "a blank before the colon": answer(b"Content-Length : 5\r\n"),
    "odd cookies": answer(LENGTH + b'Set-Cookie: a=b; expires=never; \xff\r\nSet-Cookie: =;;;\r\nSet-Cookie: "x\r\n'),
    "a Location with blanks": answer(
        LENGTH + b"Location: /a b c\r\nLocation: http://[::1\r\n", status=b"HTTP/1.1 201 x"
    ),
    "an odd type": answer(LENGTH + b'Content-Type: ;;;charset="\r\nContent-Type: a/b\r\n'),
    "an encoding that is unknown": answer(LENGTH + b"Content-Encoding: zip\r\n"),
    "an offer to upgrade": answer(LENGTH + b"Upgrade: h2c\r\nConnection: Upgrade\r\n"),
}
WITHOUT_BODY = {
    "bytes after 204": answer(b"", status=b"HTTP/1.1 204 No Content"),
    "204 with a length": answer(status=b"HTTP/1.1 204 No Content"),
    "204 in chunks": answer(CHUNKED, b"5\r\nhello\r\n0\r\n\r\n", b"HTTP/1.1 204 No Content"),
    "headers that end with the connection": b"HTTP/1.1 200 OK\r\nX: y\r\n",
    "headers that are cut off": b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Le",
    "a head that is its first line": b"HTTP/1.1 200 OK\r\n",
}


@asynccontextmanager
async def saying(*answers: bytes, keep: bool = False) -> AsyncIterator[tuple[str, Callable[[], tuple[int, int]]]]:
    """A server that says these; its URL, and a function that counts its connections and requests."""
    left, connections, requests = list(answers), 0, 0
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, requests
        connections += 1
        writers.append(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                requests += 1
                writer.write(left.pop(0) if len(left) > 1 else left[0])
                await writer.drain()
                if not keep:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", lambda: (connections, requests)
        for each in writers:
            each.close()


@pytest.mark.parametrize("case", TAKEN)
async def test_an_answer_that_curl_or_urllib_takes_is_taken(case: str) -> None:
    async with saying(TAKEN[case]) as (url, counted):
        result = await call(url)
        assert (result["status"] // 100, result["body"], counted()) == (2, "hello", (1, 1))


@pytest.mark.parametrize("case", WITHOUT_BODY)
async def test_an_answer_without_a_body(case: str) -> None:
    async with saying(WITHOUT_BODY[case]) as (url, counted):
        result = await call(url)
        assert (result["status"] // 100, result["body"], counted()) == (2, "", (1, 1))


async def test_an_answer_to_head_has_no_body_though_one_comes() -> None:
    async with saying(answer()) as (url, _):
        assert (await call(url, method="HEAD"))["body"] == ""


async def test_the_type_is_kept_and_shown_in_any_letters() -> None:
    async with saying(answer(LENGTH + b"Content-Type: text/plain; charset=latin-1; x=caf\xe9\r\n", b"h\xe4llo")) as (
        url,
        _,
    ):
        result = await call(url)
        assert (result["content_type"], result["body"]) == ("text/plain; charset=latin-1; x=café", "hällo")


async def test_a_connection_is_used_again_only_where_nothing_came_behind_the_answer() -> None:
    async with saying(answer(), keep=True) as (url, counted):
        assert [(await call(url, method="GET"))["body"] for _ in range(3)] == ["hello"] * 3
        assert counted() == (1, 3)
    more = answer(b"", b"HTTP/1.1 500 Not yours\r\n\r\n", b"HTTP/1.1 204 No Content")
    async with saying(more, answer(), keep=True) as (url, counted):
        assert (await call(url, method="GET"))["status"] == 204
        assert (await call(url, method="GET"))["body"] == "hello"
        assert counted() == (2, 2)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "the answer is no HTTP: its first line is 'SSH-2.0-OpenSSH', which is no status line"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "which is no status line"),
        (b"HTTP/1.1 2", "it ends within its first line, 'HTTP/1.1 2'"),
        (b"hello", "it ends within its first line, 'hello'"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "its first line is 'HTTP/1.1 099 OK', which is no status line"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000, "its headers take more than 256 KiB"),
        (answer(CHUNKED, b"five\r\nhello\r\n"), "a chunk of its body has the size 'five'"),
        (answer(CHUNKED, b"5\r\nhello, world\r\n"), "a chunk of its body is longer than it says"),
        (answer(CHUNKED, b"5\r\nhello\r\n"), "the answer broke off: Not enough data"),
        (answer(b"Content-Length: 50\r\n"), "the answer broke off: Not enough data"),
        (b"", "the connection was closed before an answer came"),
    ],
)
async def test_what_is_refused_is_refused_with_the_reason(said: bytes, why: str) -> None:
    async with saying(said) as (url, _):
        with pytest.raises(Retry) as caught:
            await call(url, timeout=5)
        assert why in str(caught.value)
        assert "\n" not in str(caught.value)


PIECES = st.one_of(
    st.sampled_from([*TAKEN.values(), *WITHOUT_BODY.values()]),
    st.binary(max_size=40),
    st.sampled_from(
        [b"HTTP/1.1 200 OK\r\n", b"\r\n", b"\n", LENGTH, CHUNKED, b"5\r\nhello\r\n", b"0\r\n\r\n", b"\r", b":"]
    ),
)


@fuzz
@given(
    said=st.lists(PIECES, max_size=6).map(b"".join), cuts=st.lists(st.integers(0, 200), max_size=8), body=st.booleans()
)
@example(said=answer(CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"), cuts=list(range(60)), body=True)
def test_in_whatever_pieces_bytes_come_they_are_read_in_the_same_way(said: bytes, cuts: list[int], body: bool) -> None:
    def read(pieces: list[bytes]) -> Any:
        reader = AnswerReader(body=body)
        try:
            given = [reader.feed(each) for each in pieces] + [reader.end()]
        except NotHttp as error:
            return str(error)
        return _chunks(b"".join(given))

    places = [0, *sorted(min(each, len(said)) for each in cuts), len(said)]
    whole = read([said])
    in_pieces = read([said[start:end] for start, end in pairwise(places)])
    if len(said) < MAX_HEAD_BYTES and not isinstance(whole, str) and not isinstance(in_pieces, str):
        assert in_pieces == whole


def _chunks(plain: bytes) -> tuple[bytes, bytes]:
    """An answer's head, and its body however it was cut into chunks."""
    head, _, rest = plain.partition(b"\r\n\r\n")
    if CHUNKED.strip() not in head:
        return head, rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size, 16)
        body, rest = body + rest[:count], rest[count + 2 :]
    return head, body
