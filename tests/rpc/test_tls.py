"""TLS of servers and of those that call them: what is refused and how that reads, and certificates that are replaced while calls go on."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from atf.auth.dev_certificates import DevAuthority, Pair
from atf.config.settings import SecuritySettings
from atf.errors import ConfigError, Unavailable
from atf.rpc import hsc_pb2 as h, tls_files
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_blocking_channel, open_channel
from atf.rpc.server import Server, Service, serve
from atf.rpc.server_security import ServerSecurity
from atf.rpc.server_tls import server_credentials
from atf.rpc.stubs import HSCStub

from .test_security import HSC, Says

NOW = datetime.now(UTC)
CA, OTHER = DevAuthority(NOW), DevAuthority(NOW)
EXPIRED = DevAuthority(NOW, days=-1)
SERVER, CLIENT = CA.server(), CA.client("web")
ASK = h.HeartbeatRequest(executor_id="e")


def put(folder: Path, name: str, pair: Pair) -> tuple[str, str]:
    """Writes a certificate and its key, each in one step; returns their paths."""
    paths = folder / f"{name}.pem", folder / f"{name}-key.pem"
    for path, content in zip(paths, pair, strict=True):
        part = path.with_suffix(".part")
        part.write_bytes(content)
        part.replace(path)
    return str(paths[0]), str(paths[1])


def ca_file(folder: Path, authority: DevAuthority, name: str = "ca") -> str:
    return put(folder, name, authority.pair)[0]


def settings_of(folder: Path, pair: Pair, client_ca: DevAuthority | None = None) -> SecuritySettings:
    cert, key = put(folder, "server", pair)
    if client_ca is None:
        return SecuritySettings(tls_cert=cert, tls_key=key)
    return SecuritySettings(
        tls_cert=cert, tls_key=key, auth="mtls", tls_client_ca=ca_file(folder, client_ca, "client-ca")
    )


@asynccontextmanager
async def serving(settings: SecuritySettings | None, listen: str = "127.0.0.1:0") -> AsyncIterator[Server]:
    credentials = server_credentials(settings) if settings else None
    server = await serve(listen, [Service(HSC, Says())], security=ServerSecurity(credentials=credentials))
    try:
        yield server
    finally:
        await server.stop(0)


async def call(address: str, security: Security) -> None:
    channel = open_channel(address, security=security)
    try:
        await HSCStub(channel).heartbeat(ASK, timeout=5)
    finally:
        await channel.close()


async def test_a_call_by_tls_is_answered(tmp_path: Path) -> None:
    async with serving(settings_of(tmp_path, SERVER)) as server:
        security = Security(tls_ca=ca_file(tmp_path, CA))
        await call(server.address, security)
        await call(server.address.replace("127.0.0.1", "localhost"), security)


async def test_a_caller_with_a_certificate_that_the_server_s_authority_signed_is_answered(tmp_path: Path) -> None:
    cert, key = put(tmp_path, "client", CLIENT)
    async with serving(settings_of(tmp_path, SERVER, client_ca=CA)) as server:
        await call(server.address, Security(tls_ca=ca_file(tmp_path, CA), tls_cert=cert, tls_key=key))


@pytest.mark.parametrize(
    ("pair", "ca", "sentence"),
    [
        (SERVER, OTHER, "not signed by those whom tls_ca"),
        (EXPIRED.server(), EXPIRED, "its certificate has expired"),
        (CA.client(), CA, "not one for servers"),
        (SERVER, None, "if it has TLS, set tls_ca"),
        (None, CA, "it speaks without TLS"),
    ],
    ids=["another CA", "expired", "a client's", "called without TLS", "has no TLS"],
)
async def test_why_there_is_no_connection_is_said(
    pair: Pair | None, ca: DevAuthority | None, sentence: str, tmp_path: Path
) -> None:
    async with serving(settings_of(tmp_path, pair) if pair else None) as server:
        with pytest.raises(Unavailable, match=sentence):
            await call(server.address, Security(tls_ca=ca_file(tmp_path, ca) if ca else ""))


async def test_a_name_that_the_certificate_lacks_is_refused(tmp_path: Path) -> None:
    async with serving(settings_of(tmp_path, SERVER), "127.0.0.2:0") as server:
        with pytest.raises(Unavailable, match="not for that name"):
            await call(server.address, Security(tls_ca=ca_file(tmp_path, CA)))


@pytest.mark.parametrize("client", [None, OTHER.client(), EXPIRED.client()], ids=["none", "another CA", "expired"])
async def test_a_server_that_asks_for_certificates_refuses_others(client: Pair | None, tmp_path: Path) -> None:
    cert, key = put(tmp_path, "client", client) if client else ("", "")
    async with serving(settings_of(tmp_path, SERVER, client_ca=CA)) as server:
        with pytest.raises(Unavailable, match="if it asks for certificates, set tls_cert"):
            await call(server.address, Security(tls_ca=ca_file(tmp_path, CA), tls_cert=cert, tls_key=key))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "taken"),
    [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)],
)
async def test_tls_before_1_2_is_refused(version: ssl.TLSVersion, taken: bool, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca_file(tmp_path, CA))
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version

    def shake(port: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port), 5) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            pass

    async with serving(settings_of(tmp_path, SERVER)) as server:
        shaking = asyncio.to_thread(shake, server.port)
        if taken:
            await shaking
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await shaking


async def test_a_handshake_that_takes_more_than_a_second_fails_no_call(tmp_path: Path) -> None:
    async with serving(settings_of(tmp_path, SERVER)) as server, slow_to_begin(server.port, 1.1) as port:
        await call(f"127.0.0.1:{port}", Security(tls_ca=ca_file(tmp_path, CA)))


@asynccontextmanager
async def slow_to_begin(port: int, seconds: float) -> AsyncIterator[int]:
    """A port whose connections reach the server at `port` after some time, as those to a busy one do."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        to_server = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, to_server[1]), carry(to_server[0], writer))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.parametrize("blocking", [False, True])
async def test_certificates_of_another_authority_are_taken_while_both_sides_go_on(
    blocking: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_EVERY_S", 0.0)
    settings, (cert, key) = settings_of(tmp_path, SERVER, client_ca=CA), put(tmp_path, "client", CLIENT)
    security = Security(tls_ca=ca_file(tmp_path, CA), tls_cert=cert, tls_key=key)
    async with serving(settings) as server:
        channel: Any = (open_blocking_channel if blocking else open_channel)(server.address, security=security)

        async def ask() -> None:
            asked = HSCStub(channel).heartbeat(ASK, timeout=5)
            await (asyncio.to_thread(asyncio.run, asked) if blocking else asked)

        async def renewed() -> None:
            for _ in range(5_000):
                await ask()
                if channel._live.version == security.version():  # noqa: SLF001
                    return
            raise AssertionError("no channel with the new files")

        await ask()
        both = Pair(CA.pair.certificate + OTHER.pair.certificate, b"")
        put(tmp_path, "ca", both)
        put(tmp_path, "client-ca", both)
        await renewed()
        put(tmp_path, "server", OTHER.server())
        put(tmp_path, "client", OTHER.client())
        await renewed()
        ca_file(tmp_path, OTHER)
        ca_file(tmp_path, OTHER, "client-ca")
        await renewed()
        ca_file(tmp_path, CA)  # by which nobody can be reached: the connection that there is holds
        await ask()
        await channel.close()


def test_a_certificate_waits_for_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_files, "LOOK_EVERY_S", 0.0)
    cert, key = put(tmp_path, "client", CLIENT)
    security = Security(tls_ca=ca_file(tmp_path, CA), tls_cert=cert, tls_key=key)
    first, version = security.credentials(), security.version()
    new = CA.client()
    Path(cert).write_bytes(new.certificate)
    assert security.version() == version
    assert security.credentials() is first
    Path(key).write_bytes(new.key)
    assert security.version() != version
    assert security.credentials() is not first


def test_a_certificate_whose_key_is_another_s_stops_the_start(tmp_path: Path) -> None:
    cert, _ = put(tmp_path, "one", SERVER)
    _, key = put(tmp_path, "two", CLIENT)
    with pytest.raises(ConfigError, match="is not the key of"):
        server_credentials(SecuritySettings(tls_cert=cert, tls_key=key))
    with pytest.raises(ConfigError, match="is not the key of"):
        Security(tls_ca=ca_file(tmp_path, CA), tls_cert=cert, tls_key=key).credentials()


async def test_the_subject_of_a_caller_is_that_of_its_certificate(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Sees:
        async def caller(self, shown: str, subjects: Any) -> Any:  # noqa: ARG002
            seen.extend(subjects)
            raise Unavailable("seen")

    cert, key = put(tmp_path, "client", CLIENT)
    made = server_credentials(settings_of(tmp_path, SERVER, client_ca=CA))
    server = await serve("127.0.0.1:0", [Service(HSC, Says())], security=ServerSecurity(Sees(), made))
    with pytest.raises(Unavailable, match="seen"):
        await call(server.address, Security(tls_ca=ca_file(tmp_path, CA), tls_cert=cert, tls_key=key))
    await server.stop(0)
    assert seen == ["web"]
