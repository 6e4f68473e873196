"""Power losses that are played: what was not synced is really gone, what was is there, and a server starts on what is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import redis

from atf.embedded import DataDir, EmbeddedStore, find_binary
from proof.chaos.power import NotRun, Power, rewind


def _power(folder: Path, data: DataDir) -> Power:
    try:
        return Power(find_binary().path, data.store, folder / "power")
    except NotRun as why:
        pytest.skip(f"not run: {why}")


@contextlib.asynccontextmanager
async def _store(folder: Path, durability: str) -> AsyncIterator[tuple[EmbeddedStore, Power]]:
    data = DataDir(folder / "data")
    power = _power(folder, data)
    store = EmbeddedStore(find_binary(str(power.launcher)), data, durability=durability)
    data.lock()
    try:
        async with store:
            yield store, power
    finally:
        data.release()


def _client(store: EmbeddedStore) -> redis.Redis:
    return redis.Redis.from_url(store.url)


async def _lose_power(store: EmbeddedStore, power: Power) -> None:
    power.lose_power()
    store.kill()
    await store.wait()
    await store.start()


async def _synced(power: Power, write: Callable[[], object]) -> None:
    """Writes until that is on the disk."""
    journal = power.state / "journal"
    before = journal.stat().st_size
    while journal.stat().st_size == before:
        write()
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("durability", ["disk", "relaxed"])
async def test_what_was_answered_last_is_gone_unless_it_was_synced(tmp_path: Path, durability: str) -> None:
    async with _store(tmp_path, durability) as (store, power):
        with _client(store) as client:
            await _synced(power, lambda: client.set("early", 1))  # the next one, with everysec, is a second away
            for number in range(100):
                client.set(f"late-{number}", number)

        await _lose_power(store, power)

        with _client(store) as client:
            assert client.get("early") == b"1"
            there = len(client.keys("late-*"))
        assert there == 100 if durability == "disk" else there < 100
        assert len(power.said) == 1


async def test_a_server_that_is_only_killed_has_everything(tmp_path: Path) -> None:
    async with _store(tmp_path, "relaxed") as (store, _):
        with _client(store) as client:
            client.set("late", 1)
        store.kill()
        await store.wait()
        await store.start()

        with _client(store) as client:
            assert client.get("late") == b"1"


async def test_it_can_happen_again_and_again(tmp_path: Path) -> None:
    async with _store(tmp_path, "disk") as (store, power):
        for number in range(3):
            with _client(store) as client:
                client.set(f"round-{number}", number)
                if number == 1:
                    client.execute_command("BGREWRITEAOF")
                    while client.info("persistence")["aof_rewrite_in_progress"]:
                        await asyncio.sleep(0.005)
            await _lose_power(store, power)
        with _client(store) as client:
            assert sorted(client.keys()) == [b"round-0", b"round-1", b"round-2"]
        assert len(power.said) == 3


def test_names_and_bytes_that_were_not_synced_are_undone(tmp_path: Path) -> None:
    """A file that was replaced by an unsynced rename is back, with what was synced of it."""
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    (state / "inodes").mkdir(parents=True)
    old = files / "manifest"
    old.write_text("old, and more")
    inode = old.stat().st_ino
    (state / "inodes" / str(inode)).hardlink_to(old)
    (state / "journal").write_text(f"S {inode} 3\nD {files}\nE {inode} manifest\n")
    (files / "new").write_text("new")
    (files / "new").replace(old)
    (files / "made").write_text("made since")

    cut = rewind(files, state)

    assert {each.name: each.read_text() for each in files.iterdir()} == {"manifest": "old"}
    assert (cut.lost_bytes, cut.names) == (10, 2)
    assert rewind(files, state).lost_bytes == 0
