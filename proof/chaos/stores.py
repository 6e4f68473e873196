"""Task stores on the hosts of a lab: one server with an append-only file, a Sentinel trio, a Redis Cluster.

It owns their settings, which docs/how-to/stores.md recommends, their start, and what is asked of them from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from atf.embedded import find_binary
from atf.embedded.child import Child
from atf.errors import Unavailable

from .lab import LabHost

PORT: Final = 6379
SENTINEL_PORT: Final = 26379
MASTER: Final = "atf"
"""The name that the Sentinels know the master by."""
DOWN_AFTER_MS: Final = 2_500
"""Silence after which a Sentinel takes a server for dead."""
FAILOVER_MS: Final = 2_000
"""After twice this time a failover is tried again. Where two of three Sentinels are left, each sometimes votes for itself."""
NODE_TIMEOUT_MS: Final = 1_500
"""The same in a Redis Cluster. Until others believe it and have voted it is twice as long."""
SLOTS: Final = 16_384
_READY_S: Final = 30.0

DURABLE: Final = {
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "maxmemory-policy": "noeviction",
    "auto-aof-rewrite-min-size": "16mb",
}
"""Of every store: what was answered is on this server's disk."""
REPLICATING: Final = {
    "repl-diskless-sync": "yes",
    "repl-diskless-sync-delay": "0",
    "repl-diskless-load": "swapdb",  # by way of a file Valkey 9.1 sees up to a second later that all of it is there
    "repl-ping-replica-period": "1",
    "repl-timeout": "10",
    "repl-backlog-size": "64mb",
}
GUARDED: Final = {"min-replicas-to-write": "1", "min-replicas-max-lag": "2"}
"""Of a master with two replicas: alone on its side of a cut, it refuses every write from 2 s after it on."""


class ChaosServer:
    """One store server, or one Sentinel, on a host. It may be started again after it ended; its data stay.

    Args:
        host: where it runs.
        folder: what it keeps; its log too.
        settings: lines of its configuration, beside the address, the port and the folder.
        binary: a valkey-server or redis-server; empty: the one of ATF_STORE_BIN, or as `atf up` finds one.
        sentinel: whether it is a Sentinel.
    """

    def __init__(
        self, host: LabHost, folder: Path, settings: Sequence[str], *, binary: str = "", sentinel: bool = False
    ) -> None:
        self.host, self.sentinel = host, sentinel
        self.port = SENTINEL_PORT if sentinel else PORT
        self.folder = folder
        self._binary = str(find_binary(binary or os.environ.get("ATF_STORE_BIN", "")).path)
        self._child: Child | None = None
        folder.mkdir(parents=True)
        lines = [f"bind {host.address} 127.0.0.1", f"port {self.port}", f"dir {folder}", f"logfile {folder / 'log'}"]
        self._config = folder / "server.conf"  # the server writes into it what it learns
        self._config.write_text("\n".join([*lines, "protected-mode no", *settings, ""]), "utf-8")

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.port}"

    @property
    def pid(self) -> int:
        """Its process; 0: none runs."""
        return self._child.pid if self._child is not None and self._child.running else 0

    async def start(self) -> None:
        """Returns when it answers."""
        words = [self._binary, str(self._config), *(["--sentinel"] if self.sentinel else [])]
        with self.host.inside():
            self._child = Child(words)
        await until(self.answers, f"{self.address} answers (see {self.folder / 'log'})")

    async def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self._child is not None:
            self._child.kill_group()
            await self._child.wait()

    def ask(self, *command: str | int) -> Any:
        """The answer to one command, asked on its own host: a cut does not matter.

        Raises:
            Unavailable: it refuses, or does not answer within a second.
        """
        try:
            with self.host.inside(), contextlib.closing(self._client()) as client:
                return client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (redis.RedisError, OSError) as error:
            raise Unavailable(f"{' '.join(map(str, command))} to {self.address}: {error}") from error

    def answers(self) -> bool:
        """Whether it answers PING."""
        try:
            return bool(self.ask("PING"))
        except Unavailable:
            return False

    def replication(self) -> dict[str, Any]:
        """Its view of who follows whom; empty while it does not answer."""
        try:
            return dict(self.ask("INFO", "replication"))
        except Unavailable:
            return {}

    def _client(self) -> redis.Redis:
        retry = Retry(NoBackoff(), 0)
        return redis.Redis(
            self.host.address, self.port, socket_timeout=1, socket_connect_timeout=1, retry=retry, decode_responses=True
        )


class Single:
    """One server with an append-only file."""

    def __init__(self, host: LabHost, folder: Path, *, binary: str = "") -> None:
        self.server = ChaosServer(host, folder / "store", _lines(DURABLE), binary=binary)

    @property
    def url(self) -> str:
        return f"redis://{self.server.address}/0"

    async def start(self) -> None:
        await self.server.start()


class SentinelStore:
    """A master, two replicas, and a Sentinel beside each of the three; any two Sentinels agree on a failover."""

    def __init__(self, hosts: Sequence[LabHost], folder: Path, *, binary: str = "", guarded: bool = True) -> None:
        settings = DURABLE | REPLICATING | (GUARDED if guarded else {})
        first, *others = hosts
        follow = [f"replicaof {first.address} {PORT}"]
        self.servers = [
            ChaosServer(
                host,
                folder / f"store-{host.name}",
                _lines(settings) + (follow if host in others else []),
                binary=binary,
            )
            for host in hosts
        ]
        monitor = [
            f"sentinel monitor {MASTER} {first.address} {PORT} {len(hosts) // 2 + 1}",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {MASTER} {FAILOVER_MS}",
            f"sentinel parallel-syncs {MASTER} {len(others)}",
        ]
        self.sentinels = [
            ChaosServer(host, folder / f"sentinel-{host.name}", monitor, binary=binary, sentinel=True) for host in hosts
        ]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(each.address for each in self.sentinels)}/{MASTER}"

    async def start(self) -> None:
        """Returns when both replicas follow and the Sentinels know each other."""
        for each in [*self.servers, *self.sentinels]:
            await each.start()
        await until(lambda: len(followers(self.servers[0])) == len(self.servers) - 1, "the replicas follow")
        await until(lambda: all(_knows(each, len(self.servers)) for each in self.sentinels), "the Sentinels know all")

    def master(self, among: Sequence[LabHost] = ()) -> ChaosServer | None:
        """Who is the master, as the Sentinels of these hosts (default: all) have agreed; None: they have not."""
        votes = {_master_of(each) for each in self.sentinels if not among or each.host in among}
        found = [
            each for each in self.servers if votes == {each.address} and each.replication().get("role") == "master"
        ]
        return found[0] if found else None

    async def whole(self) -> None:
        """Returns when there is one master again, and all others follow it."""

        def is_whole() -> bool:
            master = self.master()
            return master is not None and len(followers(master)) == len(self.servers) - 1

        await until(is_whole, "one master and two replicas in step", 60)


class ClusterStore:
    """A Redis Cluster: the first servers are masters, the others their replicas, as many of each.

    Where a master has two, it takes writes only with one of them in step.

    Args:
        hosts: of the servers.
        folder: what they keep.
        masters: how many are masters; the number of hosts is a multiple of it.
        binary: see Server.
    """

    def __init__(self, hosts: Sequence[LabHost], folder: Path, *, masters: int = 3, binary: str = "") -> None:
        self._masters, self._replicas = masters, len(hosts) // masters - 1
        settings = (
            DURABLE
            | REPLICATING
            | (GUARDED if self._replicas > 1 else {})
            | {
                "cluster-enabled": "yes",
                "cluster-node-timeout": str(NODE_TIMEOUT_MS),
                "cluster-replica-validity-factor": "0",
                "cluster-require-full-coverage": "no",
                "auto-aof-rewrite-min-size": "4mb",  # a master whose only replica was killed waits until that has read its file again
            }
        )
        self.servers = [
            ChaosServer(host, folder / f"store-{host.name}", _lines(settings), binary=binary) for host in hosts
        ]

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(each.address for each in self.servers)}"

    async def start(self) -> None:
        """Returns when every slot is served and every master has its replicas."""
        masters, nodes = self._masters, str(len(self.servers))
        for each in self.servers:
            await each.start()
            each.ask("CLUSTER", "SET-CONFIG-EPOCH", len(self.servers) - self.servers.index(each))
        for each in self.servers[1:]:
            each.ask("CLUSTER", "MEET", self.servers[0].host.address, PORT)
        await until(
            lambda: all(_cluster_info(each).get("cluster_known_nodes") == nodes for each in self.servers),
            "all nodes have met",
        )
        bounds = [SLOTS * number // masters for number in range(masters + 1)]
        for number, each in enumerate(self.servers[:masters]):
            each.ask("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        for number, each in enumerate(self.servers[masters:]):
            each.ask("CLUSTER", "REPLICATE", self.servers[number % masters].ask("CLUSTER", "MYID"))
        await self.whole()

    def masters(self) -> list[ChaosServer]:
        """The servers that are masters now and have answered."""
        return [each for each in self.servers if each.pid and each.replication().get("role") == "master"]

    async def whole(self) -> None:
        """Returns when every server is there, all agree that all slots are served, and every master has its replicas."""

        def is_whole() -> bool:
            masters = self.masters()
            return (
                len(masters) == self._masters
                and all(len(followers(each)) == self._replicas for each in masters)
                and all(_serves(each) for each in self.servers)
            )

        await until(is_whole, "a whole cluster", 60)


def followers(master: ChaosServer) -> list[str]:
    """The replicas that are in step with a server, by its own word."""
    said = master.replication()
    found = [
        said[f"slave{number}"] for number in range(int(said.get("connected_slaves", 0))) if f"slave{number}" in said
    ]
    return [f"{each['ip']}:{each['port']}" for each in found if each["state"] == "online" and each["lag"] <= 1]


async def until(holds: Callable[[], Any], what: str, seconds: float = _READY_S) -> float:
    """Waits until something is so; the seconds that took.

    Raises:
        TimeoutError: it was not; the text says what.
    """
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def _lines(settings: dict[str, str]) -> list[str]:
    return [f"{name} {value}" if value else f'{name} ""' for name, value in settings.items()]


def _knows(sentinel: ChaosServer, servers: int) -> bool:
    (said,) = sentinel.ask("SENTINEL", "MASTERS")
    fields = said if isinstance(said, dict) else dict(zip(said[::2], said[1::2], strict=True))
    return int(fields["num-slaves"]) == servers - 1 == int(fields["num-other-sentinels"])


def _master_of(sentinel: ChaosServer) -> str:
    try:
        host, port = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
    except Unavailable:
        return ""
    return f"{host}:{port}"


def _cluster_info(server: ChaosServer) -> dict[str, str]:
    """What a node says of its cluster; empty while it does not answer."""
    try:
        said = str(server.ask("CLUSTER", "INFO"))
    except Unavailable:
        return {}
    return dict(line.split(":", 1) for line in said.split())


def _serves(server: ChaosServer) -> bool:
    said = _cluster_info(server)
    return said.get("cluster_state") == "ok" and said.get("cluster_slots_ok") == str(SLOTS)
