"""Speaks HTTP/2 by hand, as far as callers need it who do what no library of gRPC's does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Self

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    data: bytes

    def packed(self) -> bytes:
        return (
            len(self.data).to_bytes(3, "big")
            + bytes((self.kind, self.flags))
            + self.stream.to_bytes(4, "big")
            + self.data
        )


def call(path: str, stream: int, more: Sequence[tuple[str, str | bytes]] = ()) -> bytes:
    """The headers of a call, each spelled out."""
    said: tuple[tuple[str, str | bytes], ...] = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *more,
    )
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in said)
    return Frame(HEADERS, END_HEADERS, stream, block).packed()


def _text(text: str | bytes) -> bytes:
    data = text if isinstance(text, bytes) else text.encode()
    length, left = bytes((min(len(data), 127),)), len(data) - 127
    while left >= 0:
        length += bytes(((left & 127) | (128 if left > 127 else 0),))
        left = (left >> 7) if left > 127 else -1
    return length + data


def message(data: bytes) -> bytes:
    """A request, as gRPC frames it."""
    return b"\0" + len(data).to_bytes(4, "big") + data


class RawConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: str) -> Self:
        host, _, port = address.rpartition(":")
        made = cls(*await asyncio.open_connection(host, int(port)))
        made.send(_PREFACE + Frame(SETTINGS, 0, 0, b"").packed())
        return made

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def frame(self, *kinds: int) -> Frame:
        """The next frame of these kinds. Pings and settings are acknowledged, as a well-behaved client does."""
        while True:
            head = await asyncio.wait_for(self._reader.readexactly(9), 5)
            data = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
            found = Frame(head[3], head[4], int.from_bytes(head[5:9], "big"), data)
            if found.kind in {PING, SETTINGS} and not found.flags & ACK:
                self.send(Frame(found.kind, ACK, 0, data if found.kind == PING else b"").packed())
            if found.kind in kinds and not (found.kind == SETTINGS and found.flags & ACK):
                return found

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):  # the server was first
            await self._writer.wait_closed()
