"""A task store by TLS that asks for certificates: whom it refuses, and that all of them can be replaced. It needs a redis-server that has TLS."""

from __future__ import annotations

import asyncio
import functools
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from atf.auth.dev_certificates import DevAuthority, Pair
from atf.config.settings import StoreSettings, Timing
from atf.errors import Unavailable
from atf.rpc import tls_files
from atf.runtime import SystemRuntime
from atf.store.servers.address import parse
from atf.store.servers.sockets import blocking_client
from atf.store.store import Store
from tests.store.modes import TcpServer
from tests.store.servers import WHO
from tests.store.world import Clock, World

pytestmark = pytest.mark.timeout(60)
NOW: Final = datetime.now(UTC)
CA, OTHER = DevAuthority(NOW), DevAuthority(NOW)
BOTH: Final = CA.pair.certificate + OTHER.pair.certificate


@functools.cache
def server_with_tls() -> str | None:
    """A server that has TLS: one that has it says what these settings lack."""
    for binary in filter(None, map(shutil.which, ("redis-server", "valkey-server"))):
        words = [binary, "--port", "0", "--tls-port", "1", "--tls-cert-file", "/none", "--tls-key-file", "/none"]
        if b"configure TLS" in subprocess.run(words, capture_output=True, timeout=10, check=False).stdout:
            return binary
    return None


class TlsServer(TcpServer):
    """A store server with TLS on a port beside its own."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._certificates = folder
        super().__init__(binary, folder, [])
        self.tls_port = self.port + 10_000
        self.put(CA.server(), CA.pair.certificate)
        settings = {"tls-port": self.tls_port, "tls-auth-clients": "yes", **self._files()}
        with self.config.open("a") as config:
            config.writelines(f"{name} {value}\n" for name, value in settings.items())

    def put(self, pair: Pair, ca: bytes) -> None:
        """Writes what it goes by, under names of their own: it reads a file again only under another name."""
        self._number = getattr(self, "_number", 0) + 1
        for name, content in zip(("cert", "key", "ca-cert"), (*pair, ca), strict=True):
            (self._certificates / f"server-{name}-{self._number}.pem").write_bytes(content)

    def _files(self) -> dict[str, Path]:
        return {
            f"tls-{name}-file": self._certificates / f"server-{name}-{self._number}.pem"
            for name in ("cert", "key", "ca-cert")
        }

    def replace(self, pair: Pair, ca: bytes) -> None:
        """Has connections from now on go by these."""
        self.put(pair, ca)
        words = [str(word) for setting in self._files().items() for word in setting]
        self.ask("CONFIG", "SET", *words)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TlsServer]:
    binary = server_with_tls()
    if binary is None:
        pytest.skip("no redis-server or valkey-server on the PATH has TLS (Debian's redis-server has)")
    monkeypatch.setattr(tls_files, "LOOK_EVERY_S", 0.0)
    made = TlsServer(binary, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def give(folder: Path, pair: Pair, ca: bytes) -> None:
    """Replaces the files of those who call the store."""
    for name, content in zip(("client.pem", "client-key.pem", "ca.pem"), (*pair, ca), strict=True):
        (folder / name).write_bytes(content)


def url(server: TlsServer, folder: Path, *, host: str = "localhost", certificate: bool = True) -> str:
    own = f"&ssl_certfile={folder}/client.pem&ssl_keyfile={folder}/client-key.pem" if certificate else ""
    return f"rediss://{WHO}{host}:{server.tls_port}?ssl_ca_certs={folder}/ca.pem{own}"


async def opened(at: str) -> Store:
    return await Store.open(StoreSettings(redis_url=at, partitions=1), Timing(), SystemRuntime())


async def test_certificates_are_replaced_and_no_call_fails(server: TlsServer, tmp_path: Path) -> None:
    give(tmp_path, CA.client(), CA.pair.certificate)
    store = await opened(url(server, tmp_path))
    world, blocking = World(store, Clock()), blocking_client(parse(url(server, tmp_path)).options, 5)

    async def steps_over(step: str) -> None:
        """Connections from before hold; then they are cut, and others come in their place."""
        for when in ("before", "after"):
            tasks = [world.task(f"{step}-{when}-{number}") for number in range(10)]
            await asyncio.gather(*(store.schedule([each]) for each in tasks))
            if when == "before":
                server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                await asyncio.sleep(0.1)  # they hear of it
        assert blocking.ping()
        blocking.connection_pool.disconnect()

    await steps_over("first")
    give(tmp_path, CA.client(), BOTH)
    server.replace(CA.server(), BOTH)
    await steps_over("both")
    give(tmp_path, OTHER.client(), BOTH)
    server.replace(OTHER.server(), BOTH)
    await steps_over("new")
    give(tmp_path, OTHER.client(), OTHER.pair.certificate)
    server.replace(OTHER.server(), OTHER.pair.certificate)
    await steps_over("new alone")
    give(tmp_path, CA.client(), OTHER.pair.certificate)  # by which nobody is let in: so the new ones did count
    server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with pytest.raises(Unavailable):
        await store.schedule([world.task("last")])
    blocking.close()
    await store.close()


async def test_others_are_refused(server: TlsServer, tmp_path: Path) -> None:
    give(tmp_path, CA.client(), CA.pair.certificate)
    with pytest.raises(Unavailable):
        await opened(url(server, tmp_path, certificate=False))
    server.ask("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.3")
    with pytest.raises(Unavailable, match=r"(?i)certificate"):  # it has not that name
        await opened(url(server, tmp_path, host="127.0.0.3"))
    give(tmp_path, OTHER.client(), CA.pair.certificate)
    with pytest.raises(Unavailable):
        await opened(url(server, tmp_path))
    give(tmp_path, CA.client(), OTHER.pair.certificate)
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        await opened(url(server, tmp_path))
