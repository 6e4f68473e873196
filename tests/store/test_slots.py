"""The map of a cluster's slots, and what a cluster's refusals make of a call. A small server stands in for each node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from atf.config.settings import StoreSettings
from atf.durability import Durability
from atf.errors import Unavailable
from atf.store.servers import cluster, server_info
from atf.store.servers.cluster import ClusterLink
from atf.store.servers.cluster_slots import read, slot_of
from atf.store.servers.connection import Link
from atf.store.servers.modes import open_link
from atf.store.servers.sockets import Arg

_VIEW = """\
aaa 10.0.0.1:6379@16379,one.example myself,master - 0 0 {one} connected 0-8191 [93->-bbb]
bbb 10.0.0.2:6379@16379,two.example master - 0 0 {two} connected 8192-16382 16383
ccc 10.0.0.3:6379@16379 slave aaa 0 0 1 connected
ddd :0@0 master,noaddr - 0 0 9 disconnected 0-100
"""


def test_slots_and_nodes_are_read() -> None:
    found = read([(("asked", 1), _VIEW.format(one=1, two=2))])
    assert found.all() == [("10.0.0.1", 6379), ("10.0.0.2", 6379)]
    assert found.masters[8191] == ("10.0.0.1", 6379)
    assert found.masters[16383] == ("10.0.0.2", 6379)
    assert ("10.0.0.3", 6379) in found.nodes
    assert found.of("atf:{0}") == found.of("atf:{0}:t:0-x") == found.masters[slot_of("{0}")]


def test_of_two_masters_of_a_slot_the_later_elected_counts_whoever_says_it() -> None:
    """A master that was cut off still believes in itself."""
    old = (("10.0.0.1", 6379), _VIEW.format(one=1, two=2))
    new = "ccc 10.0.0.3:6379@16379 myself,master - 0 0 7 connected 0-9999\n"
    for views in ([old, (("10.0.0.3", 6379), new)], [(("10.0.0.3", 6379), new), old]):
        assert read(views).masters[0] == ("10.0.0.3", 6379)


def test_a_node_that_does_not_know_its_address_is_where_it_was_asked() -> None:
    found = read([(("h", 7), "aaa :6379@1 myself,master - 0 0 1 connected 0-16383\n")])
    assert found.all() == [("h", 7)]


def test_certificates_are_for_names() -> None:
    assert read([(("a", 1), _VIEW.format(one=1, two=2))], hostnames=True).all()[0] == ("one.example", 6379)


# --- calls ------------------------------------------------------------------------------------------------------------


class Node:
    """A server that answers what a test says. `answers`: command word -> reply, as the protocol has it."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[], bytes]] = {}
        self.heard: list[str] = []
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                count = int((await reader.readuntil(b"\r\n"))[1:])
                words = []
                for _ in range(count):
                    size = int((await reader.readuntil(b"\r\n"))[1:])
                    words.append((await reader.readexactly(size + 2))[:-2].decode())
                word = words[0].upper()
                self.heard.append(word)
                writer.write(self.answers.get(word, lambda: b"+OK\r\n")())
                await writer.drain()

    def close(self) -> None:
        for each in self._writers:
            each.close()


def bulk(text: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


INFO = "run_id:abc\r\nrole:master\r\nsecond_repl_offset:-1\r\nredis_version:7.2.4\r\naof_enabled:0\r\nconnected_slaves:0\r\n"


@pytest.fixture
async def nodes() -> AsyncIterator[tuple[Node, Node]]:
    """Two masters with half of the slots each; partition 0 lies on the second one."""
    both = Node(), Node()
    servers = [await asyncio.start_server(each.serve, "127.0.0.1") for each in both]
    for node, server in zip(both, servers, strict=True):
        node.port = server.sockets[0].getsockname()[1]

    def view() -> bytes:
        return bulk(
            f"a 127.0.0.1:{both[0].port}@1 master - 0 0 1 connected 0-9999\n"
            f"b 127.0.0.1:{both[1].port}@1 master - 0 0 2 connected 10000-16383\n"
        )

    for node in both:
        node.answers = {
            "CLUSTER": view,
            "INFO": lambda: bulk(INFO),
            "CONFIG": lambda: b"*0\r\n",
            "FCALL": lambda: b":1\r\n",
        }
    yield both
    for node, server in zip(both, servers, strict=True):
        node.close()
        server.close()


@pytest.fixture
async def link(nodes: tuple[Node, Node]) -> AsyncIterator[ClusterLink]:
    made = open_link(StoreSettings(redis_url=f"redis+cluster://127.0.0.1:{nodes[0].port}", store_timeout=1))
    assert isinstance(made, ClusterLink)
    yield made
    await made.close()


async def test_a_call_goes_to_the_master_of_its_slot(nodes: tuple[Node, Node], link: ClusterLink) -> None:
    assert await link.call("get_tasks", "atf:{0}", [""]) == 1
    assert nodes[0].heard.count("FCALL") == 0
    assert nodes[1].heard.count("FCALL") == 1
    assert link.run_id("atf:{0}") == "abc"


async def test_moved_is_sent_once_more_to_the_node_that_was_named(nodes: tuple[Node, Node], link: ClusterLink) -> None:
    other, wrong = nodes
    wrong.answers["FCALL"] = f"-MOVED {slot_of('atf:{0}')} 127.0.0.1:{other.port}\r\n".encode
    cluster_view = bulk(f"a 127.0.0.1:{other.port}@1 master - 0 0 3 connected 0-16383\n")
    assert await link.call("warm", "atf:{1}", [""]) == 1
    for node in nodes:
        node.answers["CLUSTER"] = lambda: cluster_view
    assert await link.call("next_claims", "atf:{0}", [""]) == 1
    assert wrong.heard.count("FCALL") <= 2  # of partition 1 perhaps, and the one that moved
    before = wrong.heard.count("FCALL")
    assert await link.call("next_claims", "atf:{0}", [""]) == 1
    assert wrong.heard.count("FCALL") == before, "the map was not mended"


async def test_a_master_that_is_a_replica_now_is_not_asked_for_replicas_for_ever(
    nodes: tuple[Node, Node], link: ClusterLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "SPACED_S", 0)
    monkeypatch.setattr(server_info, "FRESH_S", 0)
    heir, replaced = nodes
    for node in nodes:
        node.answers["INFO"] = lambda: bulk(INFO.replace("connected_slaves:0", "connected_slaves:1"))
        node.answers["WAIT"] = lambda: b":1\r\n"
    assert await link.call("schedule", "atf:{0}", [""], demand=Durability.REPLICATED) == 1
    assert heir.heard.count("FCALL") == 0
    replaced.answers["INFO"] = lambda: bulk(INFO.replace("role:master", "role:slave"))
    for node in nodes:
        node.answers["CLUSTER"] = lambda: bulk(f"a 127.0.0.1:{heir.port}@1 master - 0 0 3 connected 0-16383\n")
    with pytest.raises(Unavailable, match=r"has no replica now.*may be repeated"):
        await link.call("schedule", "atf:{0}", [""], demand=Durability.REPLICATED)
    async with asyncio.timeout(30):  # the map is read again meanwhile
        while not heir.heard.count("FCALL"):
            with contextlib.suppress(Unavailable):
                assert await link.call("schedule", "atf:{0}", [""], demand=Durability.REPLICATED) == 1


async def test_a_slot_that_moves_in_a_circle_is_away(nodes: tuple[Node, Node], link: ClusterLink) -> None:
    for node, other in zip(nodes, reversed(nodes), strict=True):
        port = other.port
        node.answers["FCALL"] = lambda port=port: f"-MOVED {slot_of('atf:{0}')} 127.0.0.1:{port}\r\n".encode()  # type: ignore[misc]
    with pytest.raises(Unavailable, match="lies on another node"):
        await link.call("next_claims", "atf:{0}", [""])
    assert [node.heard.count("FCALL") for node in nodes] == [1, 1]


@pytest.mark.parametrize(
    "refusal",
    [
        "ASK 13907 127.0.0.1:1",
        "TRYAGAIN Multiple keys",
        "CLUSTERDOWN The cluster is down",
        "CLUSTERDOWN Hash slot not served",
    ],
)
async def test_what_a_cluster_can_not_do_now_is_never_followed_and_never_repeated(
    nodes: tuple[Node, Node], link: ClusterLink, refusal: str
) -> None:
    nodes[1].answers["FCALL"] = f"-{refusal}\r\n".encode
    with pytest.raises(Unavailable):
        await link.call("next_claims", "atf:{0}", [""])
    assert [node.heard.count("FCALL") for node in nodes] == [0, 1]
    assert await link.call("get_tasks", "atf:{1}", [""]) == 1, "the other partition is there"


@pytest.mark.processes
async def test_a_node_that_answers_nothing_is_waited_for_once(
    nodes: tuple[Node, Node], link: ClusterLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REVIVE_S", (0.001, 0.001))
    silent = nodes[1]
    silent.answers["FCALL"] = silent.answers["PING"] = lambda: b""
    with pytest.raises(Unavailable):
        await link.call("next_claims", "atf:{0}", [""])
    with pytest.raises(Unavailable, match="can't be reached"):
        await link.call("next_claims", "atf:{0}", [""])
    assert silent.heard.count("FCALL") == 1
    silent.answers["FCALL"], silent.answers["PING"] = (lambda: b":1\r\n"), (lambda: b"+PONG\r\n")
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(Unavailable):
                assert await link.call("next_claims", "atf:{0}", [""]) == 1
                break
            await asyncio.sleep(0)


@pytest.mark.processes
async def test_a_node_is_called_again_whatever_ended_the_wait_for_it(
    nodes: tuple[Node, Node], link: ClusterLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is called on a node that is waited for, so nothing would ever begin another wait."""
    silent = nodes[1]
    await link.call("get_tasks", "atf:{0}", [""])
    silent.answers["FCALL"] = lambda: b""
    odd = asyncio.Event()

    async def command(_node: Link, *_command: Arg, **_key: str) -> None:
        odd.set()
        raise RuntimeError("nobody thought of this")

    with monkeypatch.context() as broken:
        broken.setattr(Link, "command", command)
        with pytest.raises(Unavailable):
            await link.call("get_tasks", "atf:{0}", [""])
        async with asyncio.timeout(30):
            await odd.wait()
    silent.answers["FCALL"] = lambda: b":1\r\n"
    assert await link.call("get_tasks", "atf:{0}", [""]) == 1


async def test_nobody_to_ask_is_unavailable() -> None:
    link = open_link(StoreSettings(redis_url="redis+cluster://127.0.0.1:1", store_timeout=1))
    with pytest.raises(Unavailable, match=r"no node.*Check that nodes of a Redis Cluster run at"):
        await link.call("get_tasks", "atf:{0}", [""])
    await link.close()


async def test_a_slot_that_no_master_has_is_unavailable(nodes: tuple[Node, Node], link: ClusterLink) -> None:
    for node in nodes:
        node.answers["CLUSTER"] = lambda: bulk(f"a 127.0.0.1:{nodes[0].port}@1 master - 0 0 3 connected 0-1\n")
    with pytest.raises(Unavailable, match=f"serves slot {slot_of('{0}')}.*CLUSTER ADDSLOTS"):
        await link.call("get_tasks", "atf:{0}", [""])
