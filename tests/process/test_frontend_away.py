"""Clients whose frontend is killed, or frozen as by a host that stands still: waits go on, and no call fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import atf
from atf.client import calls
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub

from .roles import end
from .test_services import register, running, start

TIMEOUT = 3.0
"""Seconds for which the clients here repeat a call."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    data = DataDir(tmp_path / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data) as running_store:
        yield running_store
    data.release()


async def _register(address: str) -> None:
    stub = FrontendStub(open_channel(address))
    await register(stub)
    await stub.channel.close()


async def test_waits_go_on_when_the_frontend_is_killed_and_another_takes_its_place(store: EmbeddedStore) -> None:
    async with running("frontend", store.url) as (process, address):
        await _register(address)
        async with atf.AsyncClient(address, timeout=0.5) as client:
            handle = await client.schedule("photos/thumbnail", {}, delay=600)
            waits = [asyncio.create_task(handle.result_async(timeout=60)), asyncio.create_task(client.wait([handle]))]
            command = [
                sys.executable,
                "-P",
                "-m",
                "atf.cli",
                "wait",
                handle.id,
                "--timeout",
                "60",
                "--frontend",
                address,
            ]
            waiting = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
            await asyncio.sleep(2)  # longer than the client repeats a call
            process.kill()
            await process.wait()
            await asyncio.sleep(1)
            assert not any(each.done() for each in waits)
            assert waiting.returncode is None
            another = await start("frontend", address, store.url)
            async with asyncio.timeout(30):
                while True:
                    try:
                        await client.cancel(handle.id)
                        break
                    except atf.Unavailable:
                        await asyncio.sleep(0.1)
                with pytest.raises(atf.TaskCancelled):
                    await waits[0]
                assert [each.status for each in await waits[1]] == [atf.Status.CANCELLED]
                assert await end(waiting) == 1
            another.terminate()
            await end(another)


async def test_no_call_fails_when_a_frontend_freezes_and_its_name_has_another_address(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LONG_POLL", 1.0)
    async with running("frontend", store.url) as (frozen, first), running("frontend", store.url) as (_, second):
        await _register(first)
        both = f"ipv4:{first},{second}"
        blocking = atf.Client(both, timeout=TIMEOUT)
        async with atf.AsyncClient(both, timeout=TIMEOUT) as client:
            handle = await client.schedule("photos/thumbnail", {}, delay=600)
            await asyncio.to_thread(blocking.schedule, "photos/thumbnail", {}, delay=600)
            waiting = asyncio.create_task(handle.result_async(timeout=60))
            await asyncio.sleep(0.5)
            os.kill(frozen.pid, signal.SIGSTOP)
            try:
                async with asyncio.timeout(30):
                    made = await asyncio.gather(
                        client.schedule("photos/thumbnail", {}, delay=600),
                        asyncio.to_thread(blocking.schedule, "photos/thumbnail", {}, delay=600),
                    )
                    assert await client.cancel(handle.id)
                    with pytest.raises(atf.TaskCancelled):
                        await waiting
                assert all(each.id for each in made)
            finally:
                os.kill(frozen.pid, signal.SIGCONT)
                await asyncio.to_thread(blocking.close)
