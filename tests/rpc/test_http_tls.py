"""TLS of what processes serve by HTTP, over the wire: whom callers refuse, whom the ports refuse, and who is known by a certificate."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from atf.auth.caller import Caller, CallerKind, caller
from atf.auth.dev_certificates import DevAuthority, Pair
from atf.auth.grants import TokenGrant, Verb
from atf.config.settings import SecuritySettings
from atf.errors import Unauthenticated
from atf.frontend.dapr.http import HttpPort
from atf.metrics.metrics import Metrics
from atf.metrics.server import MetricsServer
from atf.rpc import dapr_runtime_pb2 as d, tls_files
from atf.rpc.http_tls import http_context, names_in
from atf.rpc.server_security import ServerSecurity

from .test_tls import CA, CLIENT, EXPIRED, OTHER, SERVER, ca_file, put, settings_of

GRANT = TokenGrant(frozenset({Verb.READ_PAYLOAD}), frozenset({"*"}))


class Door:
    """Knows the subject `web` alone."""

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:
        if shown or "web" not in subjects:
            raise Unauthenticated(f"{shown or subjects}: who is that?")
        return Caller(CallerKind.CERTIFICATE, "web", GRANT)


class Jobs:
    """Dapr's API, as far as it is asked here: a job's data says who has asked."""

    async def get_job(self, _request: object, _metadata: object) -> d.GetJobResponse:
        return d.GetJobResponse(job=d.Job(name=caller().name, schedule="@daily"))


class Scraped:
    metrics = Metrics()
    serves = True

    async def read_gauges(self) -> None:
        """There is nothing to read."""

    async def may_read(self, _shown: str, _peer: str) -> str:
        return ""


@asynccontextmanager
async def dapr(settings: SecuritySettings, listen: str = "127.0.0.1:0") -> AsyncIterator[str]:
    secured = ServerSecurity(
        Door() if settings.auth == "mtls" else None, http_of_callers=http_context(settings, of_callers=True)
    )
    port = HttpPort(Jobs(), 0, secured)  # type: ignore[arg-type]
    try:
        yield await port.open(listen)
    finally:
        await port.stop()


@asynccontextmanager
async def metrics(settings: SecuritySettings, listen: str = "127.0.0.1:0") -> AsyncIterator[str]:
    server = MetricsServer(Scraped(), asyncio.get_running_loop(), http_context(settings))
    await server.start(listen)
    try:
        yield server.address
    finally:
        server.close()


Ports = Callable[..., Any]
PORTS = pytest.mark.parametrize(
    ("served", "path"), [(dapr, "/v1.0/healthz"), (metrics, "/readyz")], ids=["dapr", "metrics"]
)


def trusts(folder: Path, authority: DevAuthority = CA, client: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    if client is not None:
        context.load_cert_chain(*put(folder, "client", client))
    return context


def ask(address: str, path: str, context: ssl.SSLContext) -> Awaitable[tuple[int, bytes]]:
    def get() -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(address, timeout=10, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    return asyncio.to_thread(get)


@PORTS
async def test_what_callers_refuse(served: Ports, path: str, tmp_path: Path) -> None:
    async with served(settings_of(tmp_path, SERVER)) as address:
        assert (await ask(address, path, trusts(tmp_path)))[0] in {200, 204}
        with pytest.raises(ssl.SSLCertVerificationError, match=r"signature|self-signed|issuer"):
            await ask(address, path, trusts(tmp_path, OTHER))
    async with served(settings_of(tmp_path, SERVER), "127.0.0.2:0") as address:
        with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
            await ask(address, path, trusts(tmp_path))
    async with served(settings_of(tmp_path, EXPIRED.server())) as address:
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            await ask(address, path, trusts(tmp_path, EXPIRED))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@PORTS
@pytest.mark.parametrize(("version", "taken"), [("TLSv1_1", False), ("TLSv1_2", True)])
async def test_tls_before_1_2_is_refused(served: Ports, path: str, version: str, taken: bool, tmp_path: Path) -> None:
    old = trusts(tmp_path)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion[version]
    async with served(settings_of(tmp_path, SERVER)) as address:
        if taken:
            await ask(address, path, old)
        else:
            with pytest.raises(ssl.SSLError):
                await ask(address, path, old)


@pytest.mark.parametrize("client", [None, OTHER.client(), EXPIRED.client()], ids=["none", "another CA", "expired"])
async def test_dapr_s_port_asks_for_certificates_where_grpc_does(client: Pair | None, tmp_path: Path) -> None:
    async with dapr(settings_of(tmp_path, SERVER, client_ca=CA)) as address:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(address, "/v1.0/healthz", trusts(tmp_path, client=client))
        status, said = await ask(address, "/v1.0/jobs/a", trusts(tmp_path, client=CLIENT))
        assert (status, b'"web"' in said) == (200, True), "known by the certificate"
        status, said = await ask(address, "/v1.0/jobs/a", trusts(tmp_path, client=CA.client("mail")))
        assert (status, b"who is that" in said) == (401, True)


async def test_metrics_are_read_without_a_certificate_there(tmp_path: Path) -> None:
    async with metrics(settings_of(tmp_path, SERVER, client_ca=CA)) as address:
        assert (await ask(address, "/readyz", trusts(tmp_path)))[0] == 200


async def test_whose_certificates_dapr_s_port_takes_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_EVERY_S", 0.0)
    async with dapr(settings_of(tmp_path, SERVER, client_ca=CA)) as address:
        await ask(address, "/v1.0/healthz", trusts(tmp_path, client=CLIENT))
        ca_file(tmp_path, OTHER, "client-ca")
        await ask(address, "/v1.0/healthz", trusts(tmp_path, client=OTHER.client()))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(address, "/v1.0/healthz", trusts(tmp_path, client=CLIENT))


def test_the_names_of_a_certificate() -> None:
    certificate = {
        "subject": ((("countryName", "DE"),), (("commonName", "web"),)),
        "subjectAltName": (("URI", "spiffe://atf/web"), ("DNS", "web.example")),
    }
    assert names_in(certificate) == ["spiffe://atf/web", "web.example", "web"]
    assert names_in(None) == []
