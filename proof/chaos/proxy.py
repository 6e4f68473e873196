"""A TCP proxy in front of a role, that can be cut: for a link between two processes of one host."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

_CHUNK = 64 << 10


class Proxy:
    """Carries bytes from a port of its own to an address, both ways.

    Args:
        target: host:port.
    """

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._flows = asyncio.Event()
        self._flows.set()
        self._refusing = False
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for each in self._pipes:
            each.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)
        self._drop()

    def hold(self) -> None:
        """Nothing gets through; what is under way is delivered late, once it is healed."""
        self._flows.clear()

    def refuse(self) -> None:
        """Ends every connection, and takes no new one until it is healed."""
        self._refusing = True
        self._drop()

    def heal(self) -> None:
        """Everything gets through again."""
        self._refusing = False
        self._flows.set()

    def _drop(self) -> None:
        for each in self._writers:
            each.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        await self._flows.wait()
        try:
            there, back = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, back), (there, writer)):
            self._writers.add(sink)
            task = asyncio.create_task(self._carry(source, sink))
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(_CHUNK):
                await self._flows.wait()
                sink.write(chunk)
                await sink.drain()
        self._writers.discard(sink)
        sink.close()
