"""The embedded store on a real server: what is written stays, whatever is killed, and two never share a directory."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio as redis

from atf.embedded import DataDir, EmbeddedStore, find_binary, lock, server
from atf.errors import ConfigError, FailedPrecondition, Unavailable


@pytest.fixture
async def data(tmp_path: Path) -> AsyncIterator[DataDir]:
    data = DataDir(tmp_path / "data")
    data.lock()
    yield data
    data.release()


async def do(store: EmbeddedStore, *command: str) -> object:
    async with redis.Redis.from_url(store.url) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def environ_of(pid: int) -> str:
    """With colons between the variables: some releases of glibc end each tunable with a zero when they have read it."""
    return ":" + Path(f"/proc/{pid}/environ").read_text("utf-8").replace("\0", ":")


async def gone(pid: int) -> None:
    async with asyncio.timeout(20):
        while alive(pid):
            await asyncio.sleep(0.01)


async def test_a_killed_server_starts_again_with_everything_it_accepted(data: DataDir) -> None:
    async with EmbeddedStore(find_binary(), data) as store:
        await do(store, "SET", "task", "kept")
        url, first = store.url, store.pid
        os.kill(first, signal.SIGKILL)
        assert await store.wait() == -signal.SIGKILL
        assert store.pid == 0

        await store.start()

        assert store.url == url
        assert store.pid != first
        assert await do(store, "GET", "task") == b"kept"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("own", ["", "glibc.malloc.tcache_count=7"])
async def test_the_server_keeps_small_strings_at_hand_unless_somebody_has_tuned_its_allocator(
    data: DataDir, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if own:
        monkeypatch.setenv("GLIBC_TUNABLES", own)

    async with EmbeddedStore(find_binary(), data) as store:
        assert f":GLIBC_TUNABLES={own or server.MALLOC}:" in environ_of(store.pid)


async def test_a_server_that_ended_in_order_starts_again_with_everything(data: DataDir) -> None:
    async with EmbeddedStore(find_binary(), data) as store:
        await do(store, "SET", "task", "kept")
        pid = store.pid
    assert not alive(pid)
    assert not (data.path / "store.sock").exists()

    async with EmbeddedStore(find_binary(), data) as store:
        assert await do(store, "GET", "task") == b"kept"


async def test_the_settings_on_which_the_promises_rest(data: DataDir) -> None:
    async with EmbeddedStore(find_binary(), data, maxmemory_mib=100) as store:
        wanted = {
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            "maxmemory": str(100 << 20),
            "save": "",
            "port": "0",
        }
        for name, value in wanted.items():
            assert (
                await do(store, "CONFIG", "GET", name) == [name.encode(), value] or await config(store, name) == value
            )


async def config(store: EmbeddedStore, name: str) -> str:
    async with redis.Redis.from_url(store.url) as client:
        return str((await client.config_get(name))[name])


async def test_relaxed_durability_writes_once_a_second(data: DataDir) -> None:
    async with EmbeddedStore(find_binary(), data, durability="relaxed") as store:
        assert await config(store, "appendfsync") == "everysec"


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use disk or relaxed"):
        EmbeddedStore(find_binary(), DataDir(tmp_path), durability="none")


async def test_a_directory_with_a_long_path_gets_a_socket_elsewhere(tmp_path: Path) -> None:
    data = DataDir(tmp_path / ("long" * 30))
    data.lock()
    async with EmbeddedStore(find_binary(), data) as store:
        assert len(store.url) < 100
        assert await do(store, "PING") is True
    assert not Path(store.url.removeprefix("unix://")).parent.exists()
    data.release()


async def test_a_second_user_of_the_directory_is_refused_and_told_the_pid(data: DataDir) -> None:
    with pytest.raises(FailedPrecondition, match=rf"in use by another `atf up` \(pid {os.getpid()}\)"):
        DataDir(data.path).lock()

    data.release()
    again = DataDir(data.path)
    again.lock()
    again.release()


async def test_a_server_that_cannot_read_its_data_says_why(data: DataDir) -> None:
    async with EmbeddedStore(find_binary(), data) as store:
        await do(store, "SET", "task", "kept")
    for file in (data.store / "appendonlydir").glob("*.manifest"):
        file.write_text("nonsense\n", encoding="utf-8")

    with pytest.raises(Unavailable, match=r"ended while it started: .*store\.log"):
        await EmbeddedStore(find_binary(), data).start()


OWNER = """
import asyncio, sys
from pathlib import Path
from atf.embedded import DataDir, EmbeddedStore, find_binary

async def main():
    data = DataDir(Path(sys.argv[1]))
    data.lock()
    async with EmbeddedStore(find_binary(), data) as store:
        print(store.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def start_owner(path: Path) -> tuple[asyncio.subprocess.Process, int]:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", OWNER, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    return owner, int(await owner.stdout.readline())


async def test_the_server_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    owner, server = await start_owner(tmp_path)

    owner.kill()
    await owner.wait()

    await gone(server)


async def test_a_left_over_server_is_killed_before_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory's owner is dead, and the server does not react."""
    monkeypatch.setattr(lock, "_ORPHAN_GRACE", 0.2)
    owner, orphan = await start_owner(tmp_path)
    os.kill(orphan, signal.SIGSTOP)
    owner.kill()
    await owner.wait()
    assert alive(orphan)  # a stopped process does not act on the signal that the owner's death sends

    data = DataDir(tmp_path)
    data.lock()
    async with EmbeddedStore(find_binary(), data) as store:
        assert not alive(orphan)
        assert await do(store, "PING") is True
    data.release()


async def test_other_commands_learn_where_everything_listens(data: DataDir) -> None:
    assert data.announced() is None
    data.announce({"redis_url": "unix:///x"})

    assert DataDir(data.path).announced() == {"redis_url": "unix:///x"}

    data.release()
    assert DataDir(data.path).announced() is None
