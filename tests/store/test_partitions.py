"""How many partitions a store has where none are set: what is on record; only a new store takes a default."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.errors import ConfigError, FailedPrecondition, Unavailable
from atf.runtime import SystemRuntime
from atf.store import keys
from atf.store.backup import contents
from atf.store.partitions import CLUSTER_PARTITIONS
from atf.store.servers.modes import fake_link
from atf.store.store import Store

from .test_away import has_record, take_away


@pytest.fixture
def server() -> fakeredis.FakeServer:
    return fakeredis.FakeServer(version=(7, 4))


@contextlib.asynccontextmanager
async def role(server: fakeredis.FakeServer, partitions: int = 0, *, cluster: bool = False) -> AsyncIterator[Store]:
    """A role's view of the store on `server` before it is opened."""
    store = Store(fake_link(server), StoreSettings(partitions=partitions), Timing(), SystemRuntime())
    store.link.parted = cluster
    await store.link.load_library()
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize(("cluster", "expected"), [(False, 1), (True, 16)])
async def test_a_new_store_takes_a_default(server: fakeredis.FakeServer, cluster: bool, expected: int) -> None:
    async with role(server, cluster=cluster) as store:
        await store.open_partitions(agree=True)
        assert store.partitions == expected


@pytest.mark.parametrize("cluster", [False, True])
@pytest.mark.parametrize("made", [1, 2, 21])
async def test_what_is_on_record_holds(server: fakeredis.FakeServer, made: int, cluster: bool) -> None:
    async with role(server, made) as first:
        await first.open_partitions(agree=True)
    async with role(server, cluster=cluster) as store:
        await store.open_partitions(agree=True)
        assert store.partitions == made
        assert await has_record(store) == [True] * made


async def test_a_number_that_is_set_must_be_the_one_on_record(server: fakeredis.FakeServer) -> None:
    async with role(server, 2) as first:
        await first.open_partitions(agree=True)
    async with role(server, 3) as other:
        with pytest.raises(FailedPrecondition, match=r"made with 2 partitions.*set to 3\. Leave partitions"):
            await other.open_partitions(agree=True)


async def test_another_role_may_make_the_store_meanwhile(server: fakeredis.FakeServer) -> None:
    async with role(server) as late, role(server, 3) as first:
        direct = late.link.command

        async def command(*words: str, key: str = "") -> object:
            found = await direct(*words, key=key)
            await first.open_partitions(agree=True)
            return found

        late.link.command = command  # type: ignore[method-assign, assignment]
        await late.open_partitions(agree=True)
        assert late.partitions == 3
        assert await has_record(late) == [True] * 3


async def test_a_first_partition_that_is_away_leaves_the_others_to_tell(server: fakeredis.FakeServer) -> None:
    async with role(server, 3) as first:
        await first.open_partitions(agree=True)
    async with role(server, cluster=True) as store:
        take_away(store, 0)
        direct = store.link.command

        async def command(*words: str, key: str = "") -> object:
            if key == keys.record(0):
                raise Unavailable("away")
            return await direct(*words, key=key)

        store.link.command = command  # type: ignore[method-assign, assignment]
        await store.open_partitions(agree=True)
        assert store.partitions == 3


async def test_where_nobody_can_tell_no_store_is_made(server: fakeredis.FakeServer) -> None:
    """The partition that is away may be the only one."""
    async with role(server, cluster=True) as store:
        direct = store.link.command

        async def command(*words: str, key: str = "") -> object:
            if key == keys.record(0):
                raise Unavailable("away")
            return await direct(*words, key=key)

        store.link.command = command  # type: ignore[method-assign, assignment]
        with pytest.raises(Unavailable, match="away"):
            await store.open_partitions(agree=True)
        assert await direct("EXISTS", keys.record(1), key=keys.record(1)) == 0


async def test_the_doctor_says_what_an_unset_number_comes_to(server: fakeredis.FakeServer) -> None:
    async with role(server, cluster=True) as store:
        (new, _) = await contents.partitions(store.link, 0, Timing())
        assert f"makes it one of {CLUSTER_PARTITIONS} partitions" in new.sentence
    async with role(server, 2) as first:
        await first.open_partitions(agree=True)
    async with role(server) as store:
        found = await contents.partitions(store.link, 0, Timing())
        assert (found[0].value, found[0].state.name) == ("2", "OK")
        assert "take what is on record" in found[0].sentence


def test_the_setting_is_bounded() -> None:
    with pytest.raises(ConfigError, match="or 0 for what the store has on record"):
        StoreSettings(partitions=-1)
