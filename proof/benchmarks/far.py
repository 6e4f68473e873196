"""Connections between hosts that are some time apart: a process that carries bytes to an address, each after half of the round trip.

    python -P -m proof.benchmarks.far ROUND_TRIP_MS      a line of input "LISTEN TARGET" is answered with where it listens; ends with its input

LISTEN is the path of a Unix socket, or "-" for a free TCP port; TARGET the path of one, or host:port.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from typing import ClassVar, Final, cast

from .known import ROOT

ROUND_TRIP_MS: Final = 1.0
"""Between two hosts of the questions about hosts that are apart."""


class FarHosts:
    """Makes hosts far. Made by `running`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._asking = asyncio.Lock()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, round_trip_ms: float = ROUND_TRIP_MS) -> AsyncIterator[FarHosts]:
        """Within the block there are some."""
        command = [sys.executable, "-P", "-m", __name__, str(round_trip_ms)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=env)
        try:
            yield cls(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def link(self, target: str, listen: str = "-") -> str:
        """Where `target`, an address or the path of a socket, is reached from afar."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._asking:
            self._process.stdin.write(f"{listen} {target}\n".encode())
            return (await self._process.stdout.readline()).decode().strip()


class _Pipe(asyncio.Protocol):
    """One end of a connection: what it receives is written at the other end, later."""

    def __init__(self, one_way_s: float) -> None:
        self.one_way_s = one_way_s
        self.other: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._later(lambda other: other.write(data))

    def connection_lost(self, _error: Exception | None) -> None:
        self._later(lambda other: other.close())

    def _later(self, what: Callable[[asyncio.Transport], object]) -> None:
        def now() -> None:
            if self.other.done():
                what(self.other.result())
            else:
                self.other.add_done_callback(lambda _: what(self.other.result()))

        asyncio.get_running_loop().call_later(self.one_way_s, now)


class _Accepting(_Pipe):
    """The end at which a connection was accepted."""

    under_way: ClassVar[set[asyncio.Task[None]]] = set()

    def __init__(self, one_way_s: float, target: str) -> None:
        super().__init__(one_way_s)
        self._target = target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connecting = asyncio.ensure_future(self._connect())
        self.under_way.add(connecting)
        connecting.add_done_callback(self.under_way.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        host, _, port = self._target.rpartition(":")
        there = _Pipe(self.one_way_s)
        assert self._transport is not None
        there.other.set_result(self._transport)
        try:
            if host:
                transport, _ = await loop.create_connection(lambda: there, host, int(port))
            else:
                transport, _ = await loop.create_unix_connection(lambda: there, self._target)
        except OSError:
            self._transport.abort()
        else:
            self.other.set_result(transport)


async def _serve(one_way_s: float) -> None:
    loop = asyncio.get_running_loop()
    servers = []
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        listen, target = line
        make = lambda target=target: _Accepting(one_way_s, target)  # noqa: E731
        if listen == "-":
            server = await loop.create_server(make, "127.0.0.1", 0)
            listen = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        else:
            server = await loop.create_unix_server(make, listen)
        servers.append(server)
        print(listen, flush=True)


if __name__ == "__main__":
    # By select(): with epoll, and on uvloop, timers are whole milliseconds.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_serve(float(sys.argv[1]) / 2_000))
