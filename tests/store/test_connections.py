"""The connections that a link keeps at hand between calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import ConnectionError

from atf.errors import Unavailable
from atf.store.servers.connection import Link
from atf.store.servers.sockets import lost


class Connection:
    """One that answers what it was sent."""

    def __init__(self) -> None:
        self.is_connected = True
        self._reader = asyncio.StreamReader()
        self.sent = 0
        self.broken: Exception | None = None

    def end(self, reset: Exception | None = None) -> None:
        """The server closes it."""
        self._reader.feed_eof() if reset is None else self._reader.set_exception(reset)

    async def send_packed_command(self, _words: Any) -> None:
        self.sent += 1
        if self.broken is not None:
            raise self.broken

    async def read_response(self) -> bytes:
        await asyncio.sleep(0)
        return b"PONG"

    async def disconnect(self, *, nowait: bool) -> None:
        assert nowait
        self.is_connected = False


class Pool(ConnectionPool):
    """A pool of at most so many connections that knows how often it was asked."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.made: list[Connection] = []
        self.taken = 0
        self.refusal: Exception | None = None
        self._free: asyncio.Queue[Connection] = asyncio.Queue()
        self._most = most

    async def get_connection(self, *_: Any, **__: Any) -> Any:
        self.taken += 1
        if self.refusal is not None:
            raise self.refusal
        while not self._free.empty() or len(self.made) == self._most:
            found = await self._free.get()
            if found.is_connected:
                return found
            self.made.remove(found)
        self.made.append(Connection())
        return self.made[-1]

    async def release(self, connection: Any) -> None:
        self._free.put_nowait(connection)


def _no_tool() -> Any:
    raise AssertionError("no tool here")


def link(pool: Pool, keep: int) -> Link:
    return Link(pool, "here", _no_tool, keep=keep)


async def test_a_connection_that_works_is_kept_at_hand() -> None:
    pool = Pool(2)
    linked = link(pool, keep=1)
    for _ in range(3):
        assert await linked.command("PING") == b"PONG"
    assert (pool.taken, pool.made[0].sent) == (1, 3)


@pytest.mark.parametrize("reset", [None, ConnectionResetError()])
async def test_one_that_the_server_has_closed_is_not_used_again(reset: Exception | None) -> None:
    pool = Pool(2)
    linked = link(pool, keep=1)
    await linked.command("PING")
    (first,) = pool.made
    first.end(reset)
    await linked.command("PING")
    assert first not in pool.made
    assert first.sent == 1


async def test_no_more_are_kept_than_leave_some_to_tools() -> None:
    pool = Pool(3)
    linked = link(pool, keep=2)
    await asyncio.gather(*(linked.command("PING") for _ in range(3)))
    assert len(pool.made) == 3
    async with asyncio.timeout(30):
        await pool.get_connection()


async def test_whoever_waits_for_a_connection_gets_the_next_one() -> None:
    pool = Pool(1)
    linked = link(pool, keep=1)
    async with asyncio.timeout(30):
        assert await asyncio.gather(*(linked.command("PING") for _ in range(5))) == [b"PONG"] * 5
    assert len(pool.made) == 1


async def test_dropped_and_closed_none_is_at_hand() -> None:
    pool = Pool(2)
    linked = link(pool, keep=1)
    await linked.command("PING")
    (first,) = pool.made
    await linked.drop_idle()
    assert not first.is_connected
    await linked.command("PING")
    assert first not in pool.made


async def _write_to_what_is_closed() -> None:
    async def end(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(end, "127.0.0.1")
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.close()
    await writer.wait_closed()
    server.close()
    writer.write(b"PING")


def test_a_closed_connection_is_lost_by_uvloops_words_too() -> None:
    with pytest.raises(RuntimeError) as found:
        uvloop.run(_write_to_what_is_closed())
    assert isinstance(lost(found.value), ConnectionError)


@pytest.mark.parametrize("opening", [False, True])
async def test_a_connection_that_is_closed_while_it_is_used_is_unavailable(opening: bool) -> None:
    pool = Pool(2)
    linked = link(pool, keep=1)
    await linked.command("PING")
    closed = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    (first,) = pool.made
    if opening:
        first.end()
        pool.refusal = closed
    else:
        first.broken = closed
    with pytest.raises(Unavailable, match="closed"):
        await linked.command("PING")
    pool.refusal = None
    assert await linked.command("PING") == b"PONG"
    pool.made[-1].broken = RuntimeError("nobody thought of this")
    with pytest.raises(RuntimeError, match="nobody"):
        await linked.command("PING")


class Writer:
    """A stream's writer, of which so many bytes wait to be sent."""

    def __init__(self, unsent: int) -> None:
        self.written: list[bytes] = []
        self.transport = self
        self._unsent = unsent

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self._unsent


@pytest.mark.parametrize(("unsent", "waits"), [(0, 0), (1 << 20, 1)])
async def test_a_write_waits_only_where_much_waits_to_be_sent(unsent: int, waits: int) -> None:
    pool = Pool(1)
    linked = link(pool, keep=1)
    await linked.command("PING")  # opens it
    (connection,) = pool.made
    setattr(connection, "_writer", writer := Writer(unsent))  # noqa: B010  as the library names it
    assert await linked.command("PING") == b"PONG"
    assert writer.written == [b"*1\r\n$4\r\nPING\r\n"]
    assert connection.sent == 1 + waits
