"""A link through Sentinels: nobody waits for a master that has been replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from atf.config.settings import StoreSettings
from atf.errors import Unavailable
from atf.store.servers import sentinel
from atf.store.servers.modes import open_link

from .test_slots import Node, bulk


@pytest.fixture
async def silent() -> AsyncIterator[int]:
    """The port of a server that takes connections and says nothing, as one behind a cut."""
    connected = []

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)

    server = await asyncio.start_server(say_nothing, "127.0.0.1")
    yield server.sockets[0].getsockname()[1]
    server.close()
    for each in connected:
        each.close()


async def test_a_call_that_waits_for_a_replaced_master_ends_when_the_sentinels_say_so(
    silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [(1, silent), (1, silent), (2, 1)]  # epoch and port of the master

    def word() -> bytes:
        epoch, port = words.pop(0) if len(words) > 1 else words[0]
        said = ["config-epoch", str(epoch), "ip", "127.0.0.1", "port", str(port)]
        return b"*6\r\n" + b"".join(map(bulk, said))

    monkeypatch.setattr(sentinel, "LOOK_S", 0.01)
    monkeypatch.setattr(sentinel, "SPACED_S", 0.0)
    one = Node()
    one.answers["SENTINEL"] = word
    server = await asyncio.start_server(one.serve, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    link = open_link(StoreSettings(redis_url=f"redis+sentinel://127.0.0.1:{port}/tasks", store_timeout=3600))
    try:
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable, match="failed over from"):
                await link.call("count", "atf:{0}", [""])
    finally:
        await link.close()
        server.close()
        one.close()


async def test_where_no_sentinel_names_a_master_it_is_said_what_to_check() -> None:
    link = open_link(StoreSettings(redis_url="redis+sentinel://127.0.0.1:1,127.0.0.1:2/tasks", store_timeout=1))
    with pytest.raises(Unavailable, match="and that they know a master of the name 'tasks'"):
        await link.call("count", "atf:{0}", [""])
    with pytest.raises(Unavailable, match="'tasks'"):
        link.blocking_client()
    await link.close()
