"""The store's modes with real servers and real roles: a master behind Sentinels that is killed, a cluster that loses a node, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from atf.auth.dev_certificates import dev_certificates
from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient, Handle
from atf.config.settings import StoreSettings, Timing
from atf.demo.record import DIRECTORY, DemoRecord, concurrent
from atf.durability import Durability
from atf.embedded.binary import find_binary
from atf.errors import AtfError, FailedPrecondition, Unavailable
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import Status
from tests.known import know
from tests.store.modes import Nodes, TcpServer, Trio, folder_of, in_step, wait_for
from tests.store.servers import WHO
from tests.store.world import LAMBDA, Clock, World

from . import quick

pytestmark = [pytest.mark.timeout(120)]

HERE: Final = Path(__file__).parent
LONG_S: Final = 60.0
QUICK: Final = {
    "ATF_HEARTBEAT_INTERVAL": "0.3",
    "ATF_RPC_DEADLINE": "0.4",
    "ATF_KILL_TIME": "0.3",
    "ATF_PAUSE": "0.4",
    "ATF_DRIFT": "0.05",
    "ATF_HEARTBEAT_TIMEOUT": "3.0",
    "ATF_STORE_TIMEOUT": "2.0",
}


@pytest.fixture(scope="module")
def trio() -> Iterator[Trio]:
    with folder_of() as folder:
        made = Trio(str(find_binary().path), folder)
        try:
            made.start()
            yield made
        finally:
            made.kill()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with folder_of() as folder:
        made = Nodes(str(find_binary().path), folder, replicas=True)
        try:
            made.start()
            yield made
        finally:
            made.kill()


@asynccontextmanager
async def roles(url: str, folder: Path, durability: str) -> AsyncIterator[AsyncClient]:
    """Every role on a store of somebody else's, with leases of three seconds."""
    (folder / "record").mkdir()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [ours.get("PYTHONPATH"), str(HERE.parents[1])]))
    ours |= {"PYTHONPATH": path, "ATF_CONFIG": str(folder / "none.toml"), DIRECTORY: str(folder / "record")}
    said: list[str] = []
    settings = ClusterSettings(redis_url=url, partitions=4, durability=durability, free_ports=True)
    cluster = Cluster(
        settings,
        ["tests.process.quick:app"],
        env={**ours, **QUICK},
        say=lambda name, line: said.append(f"{name} | {line}"),
    )
    try:
        async with cluster, AsyncClient(cluster.frontend_address, timeout=LONG_S) as client:
            yield client
    finally:
        print("\n".join(said))


async def schedule_until(client: AsyncClient, holds: asyncio.Event) -> list[Handle[None]]:
    """Small tasks, one batch after the other, for as long as something is not so."""
    handles: list[Handle[None]] = []
    while not holds.is_set():
        handles += await client.schedule_many([quick.short.prepare() for _ in range(20)])
        await asyncio.sleep(0.02)
    return handles


async def all_succeed(client: AsyncClient, handles: list[Handle[None]], folder: Path) -> None:
    async with asyncio.timeout(LONG_S):
        tasks = await client.wait(handles)
    assert {each.status for each in tasks} == {Status.SUCCESS}
    assert len(tasks) == len(handles)
    record = DemoRecord(folder / "record")
    record.poll()
    assert concurrent(record.runs) == []


async def opened(url: str, **settings: object) -> Store:
    timing = Timing(
        heartbeat_interval=0.3, rpc_deadline=0.4, kill_time=0.3, pause=0.4, drift=0.05, heartbeat_timeout=3.0
    )
    return await Store.open(StoreSettings(redis_url=url, partitions=4, **settings), timing, SystemRuntime())  # type: ignore[arg-type]


# --- Sentinels --------------------------------------------------------------------------------------------------------


async def test_replicated_is_what_was_met_and_fails_clearly_where_it_is_not(trio: Trio) -> None:
    """Also for a task that is there already: what was stored before may not have reached a replica."""
    store = await opened(trio.url)
    world = World(store, Clock())
    safe = world.task("safe")._replace(durability=Durability.REPLICATED)
    (met,) = await store.schedule([safe])
    assert (met.existed, met.durability) == (False, Durability.REPLICATED)
    (met,) = await store.schedule([world.task("fast")])
    assert met.durability == Durability.RELAXED
    replicas = [each for each in trio.servers if each is not trio.master()]
    try:
        for each in replicas:
            each.signal(signal.SIGSTOP)
        with pytest.raises(Unavailable, match="may be stored all the same; the same request with the same id"):
            await store.schedule([safe])
    finally:
        for each in replicas:
            each.signal(signal.SIGCONT)
    wait_for(lambda: in_step(trio.master()) == 2, "the replicas are back")
    (met,) = await store.schedule([safe])
    assert (met.existed, met.durability) == (True, Durability.REPLICATED)
    await store.close()

    store = await opened(
        trio.url, durability="disk"
    )  # the least that every task gets, one that has to be replicated, too
    before = _calls(trio.master(), "waitaof"), _calls(trio.master(), "wait")
    (met,) = await store.schedule([world.task("both")._replace(durability=Durability.REPLICATED)])
    assert met.durability == Durability.REPLICATED
    assert _calls(trio.master(), "waitaof") > before[0]
    assert _calls(trio.master(), "wait") > before[1]
    await store.close()


async def test_a_claim_is_answered_when_it_is_replicated_and_not_before(trio: Trio) -> None:
    """A master that dies with it would give the task to another executor. The same call again finds what the first one did."""
    wait_for(lambda: in_step(trio.master()) == 2, "both replicas follow")
    store = await opened(trio.url, durability="replicated")
    await know(store, LAMBDA)
    world = World(store, Clock())
    (claimed,) = await world.schedule("claimed")
    await world.passes()
    assert claimed in await world.pop()
    replicas = [each for each in trio.servers if each is not trio.master()]
    before = _calls(trio.master(), "wait")
    try:
        for each in replicas:
            each.signal(signal.SIGSTOP)
        with pytest.raises(Unavailable, match="durability replicated"):
            await world.claim(claimed, nonce="once")
    finally:
        for each in replicas:
            each.signal(signal.SIGCONT)
    assert _calls(trio.master(), "wait") > before
    wait_for(lambda: in_step(trio.master()) == 2, "the replicas are back")
    (again,) = await world.claim(claimed, nonce="once")
    assert again.task_id == claimed
    assert _calls(trio.master(), "wait") > before + 1
    await store.close()


@pytest.mark.long
async def test_nothing_replicated_is_lost_and_all_go_on_when_the_master_is_killed(trio: Trio, tmp_path: Path) -> None:
    async with roles(trio.url, tmp_path, "replicated") as client:
        enough = asyncio.Event()
        scheduling = asyncio.create_task(schedule_until(client, enough))
        await asyncio.sleep(0.5)
        before = trio.master()
        before.kill()
        async with asyncio.timeout(LONG_S):
            while await asyncio.to_thread(trio.master) is before:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        enough.set()
        async with asyncio.timeout(LONG_S):
            handles = await scheduling
        assert {each.durability for each in handles} == {"replicated"}
        await all_succeed(client, handles, tmp_path)
    before.start()
    wait_for(lambda: in_step(trio.master()) == 2, "the old master follows the new one")


# --- a cluster --------------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_cluster_runs_tasks_while_a_master_is_killed(nodes: Nodes, tmp_path: Path) -> None:
    async with roles(nodes.url, tmp_path, "") as client:
        enough = asyncio.Event()
        scheduling = asyncio.create_task(schedule_until(client, enough))
        await asyncio.sleep(0.5)
        before = nodes.master_of("atf:{1}")
        before.kill()
        async with asyncio.timeout(LONG_S):
            while not await asyncio.to_thread(_another, nodes, before):
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        enough.set()
        async with asyncio.timeout(LONG_S):
            handles = await scheduling
        assert {each.id.partition("-")[0] for each in handles} == {"0", "1", "2", "3"}
        await all_succeed(client, handles, tmp_path)
        assert sum((await client.lambdas())[0].counts.values()) >= 0
    before.start()


def _another(nodes: Nodes, before: TcpServer) -> bool:
    try:
        return nodes.master_of("atf:{1}") is not before
    except LookupError:
        return False


async def test_a_node_that_is_away_takes_no_other_along(nodes: Nodes) -> None:
    """A batch over all partitions: those of the others are stored, and answered at once."""
    wait_for(lambda: sum(in_step(each) for each in nodes.servers) == 3, "every master has its replica")
    store = await opened(nodes.url, store_timeout=1.0)
    world = World(store, Clock())
    away = nodes.master_of("atf:{0}")
    gone = {partition for partition in range(4) if nodes.master_of(f"atf:{{{partition}}}") is away}
    away.signal(signal.SIGSTOP)
    try:
        tasks = [world.task(f"t{partition}", partition=partition) for partition in range(4)]
        answers = await store.schedule_each(tasks)
        assert {
            task.partition for task, each in zip(tasks, answers, strict=True) if isinstance(each, Unavailable)
        } == gone
        began = time.monotonic()
        await store.schedule_each(tasks)
        assert time.monotonic() - began < 0.9, "a node that does not answer is not waited for twice"
    finally:
        away.signal(signal.SIGCONT)
    async with asyncio.timeout(LONG_S):
        while any(isinstance(each, AtfError) for each in await store.schedule_each(tasks)):
            await asyncio.sleep(0.05)
    await store.close()


# --- one server -------------------------------------------------------------------------------------------------------


def test_no_two_servers_are_given_one_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the first runs or not: tests run side by side, and a server that was killed comes back on its port."""
    binary = str(find_binary().path)
    first = TcpServer(binary, tmp_path, [])
    anywhere, again = random.randrange, iter([first.port] * 6)
    monkeypatch.setattr(random, "randrange", lambda *between: next(again, None) or anywhere(*between))
    try:
        assert TcpServer(binary, tmp_path / "second", []).port != first.port
        for _ in range(2):
            first.start()
            first.kill()
    finally:
        first.kill()
    assert not list(again)  # each time it was refused


async def test_what_one_server_can_be_asked_for(tmp_path: Path) -> None:
    server = TcpServer(str(find_binary().path), tmp_path, [("appendonly", "no")])
    try:
        server.start()
        store = await opened(server.url)
        world = World(store, Clock())
        disk, replicated = (world.task(each.word)._replace(durability=each) for each in list(Durability)[1:])
        with pytest.raises(FailedPrecondition, match=r"has no replica.*Nothing was stored"):
            await store.schedule([replicated])
        with pytest.raises(FailedPrecondition, match=r"CONFIG SET appendonly yes.*Nothing was stored"):
            await store.schedule([disk])
        assert await store.get_tasks([f"{disk.partition}-disk", f"{replicated.partition}-replicated"]) == [None, None]

        server.ask("CONFIG", "SET", "appendonly", "yes")  # everysec: it can say when a write is on its disk
        assert [each.durability for each in await store.schedule([disk, world.task("a")])] == [
            Durability.DISK,
            Durability.RELAXED,
        ]
        await store.close()

        server.ask("CONFIG", "SET", "appendfsync", "always")
        store = await opened(server.url)
        assert [each.durability for each in await store.schedule([world.task("b")])] == [Durability.DISK]
        server.ask("CONFIG", "SET", "appendfsync", "everysec")  # while the connection stands
        before = _calls(server, "waitaof")
        sure = world.task("c")._replace(durability=Durability.DISK)
        assert [each.durability for each in await store.schedule([sure])] == [Durability.DISK]
        assert _calls(server, "waitaof") > before
        await store.close()
    finally:
        server.kill()


def _calls(server: TcpServer, command: str) -> int:
    stats = server.ask("INFO", "commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def test_tls_with_a_certificate_that_is_checked(tmp_path: Path) -> None:
    """The server of the tests has no TLS: a proxy has it in its place."""
    for name, text in dev_certificates([], datetime.now(UTC)).items():
        (tmp_path / name).write_bytes(text)
    server = TcpServer(str(find_binary().path), tmp_path, [])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server-key.pem")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(_copy(reader, outer), _copy(inner, writer))

    try:
        server.start()
        proxy = await asyncio.start_server(forward, "127.0.0.1", ssl=context)
        port = proxy.sockets[0].getsockname()[1]
        store = await opened(f"rediss://{WHO}localhost:{port}?ssl_ca_certs={tmp_path}/ca.pem")
        world = World(store, Clock())
        assert (await store.schedule([world.task("a")]))[0].id.endswith("-a")
        assert await store.queues() == []
        await store.close()
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            await opened(f"rediss://localhost:{port}")
        proxy.close()
    finally:
        server.kill()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
