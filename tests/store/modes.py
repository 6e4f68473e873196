"""Sentinels with their servers, and a Redis Cluster, on the loopback of this machine: for tests of the store's modes.

Ports are taken in pairs, since a node of a cluster has a second one; every process is ended by its id. With ATF_TEST_ACL=1 their addresses
name the user that ships, see servers.py.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import redis

from atf.embedded.binary import find_binary

from .servers import RESTRICTED, WHO, user

HOST: Final = "127.0.0.1"
MASTER: Final = "tasks"
_READY_S: Final = 20.0
_BUS: Final = 4_000
"""Between a cluster node's two ports."""


def wait_for(holds: Callable[[], Any], what: str, seconds: float = _READY_S) -> None:
    """Looks until something is so.

    Raises:
        TimeoutError: it was not.
    """
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if holds():
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


class TcpServer:
    """A store server, or a Sentinel, on a port of its own. `settings` are pairs of its configuration."""

    def __init__(
        self, binary: str, folder: Path, settings: Sequence[tuple[str, object]], *, sentinel: bool = False
    ) -> None:
        self.binary = binary
        self.port = _own_port(self)
        self.folder = folder / str(self.port)
        self.folder.mkdir(parents=True)
        own = [
            ("bind", HOST),
            ("port", self.port),
            ("dir", self.folder),
            ("logfile", self.folder / "log"),
            ("save", '""'),
        ]
        own = [each for each in own if not (sentinel and each[0] == "save")]
        own += [("user", " ".join(user()[1:]))] if RESTRICTED and not sentinel else []
        self.config = self.folder / "conf"
        self.config.write_text("".join(f"{name} {value}\n" for name, value in [*own, *settings]))
        self._mode = ["--sentinel"] if sentinel else []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started, and not killed since."""
        return self._process is not None

    def start(self) -> None:
        self._process = subprocess.Popen([self.binary, str(self.config), *self._mode], stdout=subprocess.DEVNULL)
        wait_for(lambda: self.ask("PING"), f"{self.port} answers, see {self.folder / 'log'}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        """Its process; 0: none runs."""
        return self._process.pid if self._process is not None else 0

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def ask(self, *command: str | int) -> Any:
        """The answer to one command."""
        with contextlib.closing(self.client()) as client:
            return client.execute_command(*command)  # type: ignore[no-untyped-call]

    def client(self) -> redis.Redis:
        return redis.Redis(HOST, self.port, socket_timeout=2, decode_responses=True)

    def info(self, section: str) -> dict[str, Any]:
        with contextlib.closing(self.client()) as client:
            found: dict[str, Any] = client.info(section)
            return found

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The address for redis_url."""
        return f"redis://{WHO}{self.address}"


class Trio:
    """A master, two replicas, three Sentinels."""

    def __init__(self, binary: str, folder: Path, *, down_after_ms: int = 1_500) -> None:
        safe = [("min-replicas-to-write", 1), ("min-replicas-max-lag", 2), ("repl-diskless-sync-delay", 0)]
        safe += [("repl-ping-replica-period", 1)]
        self.servers = [TcpServer(binary, folder, [*safe, ("appendonly", "yes")])]
        follow = ("replicaof", f"{HOST} {self.servers[0].port}")
        self.servers += [TcpServer(binary, folder, [*safe, ("appendonly", "yes"), follow]) for _ in range(2)]
        monitor = [
            ("sentinel", f"monitor {MASTER} {HOST} {self.servers[0].port} 2"),
            ("sentinel", f"down-after-milliseconds {MASTER} {down_after_ms}"),
            ("sentinel", f"failover-timeout {MASTER} 6000"),
        ]
        self.sentinels = [TcpServer(binary, folder, monitor, sentinel=True) for _ in range(3)]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{WHO}{','.join(each.address for each in self.sentinels)}/{MASTER}"

    def start(self) -> None:
        for each in [*self.servers, *self.sentinels]:
            each.start()
        wait_for(lambda: in_step(self.servers[0]) == 2, "two replicas in step")
        wait_for(lambda: all(_sees(each) for each in self.sentinels), "the Sentinels know each other and the replicas")

    def master(self) -> TcpServer:
        """The master, by the first Sentinel's word."""
        _, port = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
        return next(each for each in self.servers if each.port == int(port))

    def client(self) -> _All:
        return _All(self.servers)

    def kill(self) -> None:
        for each in [*self.sentinels, *self.servers]:
            each.kill()


class Nodes:
    """A Redis Cluster of three masters, with a replica each or without."""

    def __init__(
        self, binary: str, folder: Path, *, replicas: bool, settings: Sequence[tuple[str, object]] = ()
    ) -> None:
        own = [("cluster-enabled", "yes"), ("cluster-node-timeout", 2000), ("cluster-replica-validity-factor", 0)]
        own += [("cluster-require-full-coverage", "no"), ("repl-diskless-sync-delay", 0), *settings]
        self.servers = [
            server
            for _ in range(6 if replicas else 3)
            for server in [TcpServer(binary, folder, [])]
            if _append(server, [*own, ("cluster-port", server.port + _BUS)])
        ]

    @property
    def url(self) -> str:
        return f"redis+cluster://{WHO}{','.join(each.address for each in self.servers[:3])}/"

    def start(self) -> None:
        masters, replicas = self.servers[:3], self.servers[3:]
        for number, each in enumerate(self.servers):
            each.start()
            each.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for each in self.servers[1:]:
            each.ask("CLUSTER", "MEET", HOST, self.servers[0].port, self.servers[0].port + _BUS)
        for number, each in enumerate(masters):
            each.ask("CLUSTER", "ADDSLOTSRANGE", 16384 * number // 3, 16384 * (number + 1) // 3 - 1)
        wait_for(lambda: all(self._knows_all(each) for each in self.servers), "all nodes know each other")
        for master, replica in zip(masters, replicas, strict=False):
            replica.ask("CLUSTER", "REPLICATE", str(master.ask("CLUSTER", "MYID")))
        if replicas:
            wait_for(lambda: all(in_step(each) == 1 for each in masters), "every master has its replica")
        wait_for(lambda: all(_serves(each) for each in self.servers), "every slot is served")

    def _knows_all(self, server: TcpServer) -> bool:
        return f"cluster_known_nodes:{len(self.servers)}" in _words(server.ask("CLUSTER", "INFO"))

    def master_of(self, key: str) -> TcpServer:
        """The server that has a key's slot, as the others see it."""
        slot = next(each for each in self.servers if each.runs).ask("CLUSTER", "KEYSLOT", key)
        for each in self.servers:
            with contextlib.suppress(redis.RedisError, OSError):
                own = next(line for line in _lines(each.ask("CLUSTER", "NODES")) if "myself" in line).split()
                for first, _, last in (part.partition("-") for part in own[8:] if part[0] != "["):
                    if int(first) <= int(slot) <= int(last or first) and "master" in own[2]:
                        return each
        raise LookupError(f"nobody serves {key}")

    def client(self) -> _All:
        return _All(self.servers)

    def kill(self) -> None:
        for each in self.servers:
            each.kill()


class _All:
    """Looks like a client; does to all masters what tests do before they begin."""

    def __init__(self, servers: Sequence[TcpServer]) -> None:
        masters = [each for each in servers if each.info("replication")["role"] == "master"]
        self._clients = [redis.Redis(HOST, each.port, socket_timeout=2) for each in masters]

    def flushall(self) -> None:
        for each in self._clients:
            each.flushall()

    def function_list(self, *, withcode: bool) -> list[Any]:
        return [library for each in self._clients for library in each.function_list(withcode=withcode)]

    def function_flush(self) -> None:
        for each in self._clients:
            each.function_flush()

    def close(self) -> None:
        for each in self._clients:
            each.close()


MODES: Final = ("cluster", "sentinel")


@contextlib.contextmanager
def running_mode(mode: str) -> Iterator[Nodes | Trio]:
    """A cluster without replicas, or a master behind Sentinels, for the length of a with block."""
    binary = str(find_binary().path)
    with folder_of() as folder:
        made = Nodes(binary, folder, replicas=False) if mode == "cluster" else Trio(binary, folder, down_after_ms=5_000)
        try:
            made.start()
            yield made
        finally:
            made.kill()


@contextlib.contextmanager
def folder_of() -> Iterator[Path]:
    """A folder for servers' files."""
    folder = Path(tempfile.mkdtemp(prefix="atf-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def in_step(master: TcpServer) -> int:
    """How many replicas follow a server closely, by its own word."""
    said = master.info("replication")
    slaves = [said.get(f"slave{number}", {}) for number in range(int(said["connected_slaves"]))]
    return sum(each.get("state") == "online" and each["lag"] <= 1 for each in slaves)


def _sees(sentinel: TcpServer) -> bool:
    found = sentinel.ask("SENTINEL", "MASTER", MASTER)
    return int(found["num-slaves"]) == 2 == int(found["num-other-sentinels"]) and found["flags"] == "master"


def _serves(server: TcpServer) -> bool:
    said = _words(server.ask("CLUSTER", "INFO"))
    return "cluster_state:ok" in said and "cluster_slots_ok:16384" in said


def _words(answer: Any) -> list[str]:
    """Some clients of the library parse an answer: back to its lines."""
    return [f"{name}:{value}" for name, value in answer.items()] if isinstance(answer, dict) else str(answer).split()


def _lines(answer: Any) -> list[str]:
    if not isinstance(answer, dict):
        return str(answer).splitlines()
    return [
        " ".join([each["node_id"], address, each["flags"], *["-"] * 5, *("-".join(slots) for slots in each["slots"])])
        for address, each in answer.items()
    ]


def _append(server: TcpServer, settings: Sequence[tuple[str, object]]) -> bool:
    with server.config.open("a") as file:
        file.writelines(f"{name} {value}\n" for name, value in settings)
    return True


def _own_port(owner: TcpServer) -> int:
    """A port, and the one of its bus, that nobody else is given here while the owner is there, whether its server runs or not.

    Both stay bound without an ear. They were free when they were bound; a server still comes to hear on them, since it allows that an
    address is used again and the held ones, from now on, do too. Whoever looks for a port in this way does not, and is refused.
    """
    while True:
        port = random.randrange(20_000, 20_000 + _BUS)
        with contextlib.ExitStack() as held:
            try:
                for each in (port, port + _BUS):
                    one = held.enter_context(socket.socket())
                    one.bind((HOST, each))
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            except OSError:
                continue
            weakref.finalize(owner, held.pop_all().close)
            return port
