"""The pages by TLS: a real request, what its cookies and headers are then, and a certificate that is replaced."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
import uvloop

from atf.auth.dev_certificates import DevAuthority
from atf.config.settings import SecuritySettings, UiSettings
from atf.rpc import tls_files
from atf.rpc.http_tls import http_context
from atf.rpc.local_channel import LocalChannel
from atf.rpc.server_security import ServerSecurity
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime
from atf.ui.main import pages
from atf.ui.security import CSRF_COOKIE, CSRF_FIELD, HSTS
from atf.ui.sessions import COOKIE

from .test_sessions import FRONTEND, Asked, Door

CA = DevAuthority(datetime.now(UTC))
HOST = "ops.example"


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    """Pages that listen on all of this machine's addresses; their port."""
    put(folder)
    security = SecuritySettings(auth="token", tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "key.pem"))
    channel, runtime = LocalChannel(FRONTEND, Asked(), ServerSecurity(Door()).let_in), SystemRuntime()
    settings = UiSettings(listen="0.0.0.0:0", public_hosts=HOST)
    security.check_pages(settings.listen)
    tls = http_context(security)
    async with pages(
        FrontendStub(channel), settings, runtime, lambda: True, login=True, security=ServerSecurity(http=tls)
    ) as address:
        yield address.rpartition(":")[2]


def put(folder: Path) -> None:
    for name, content in zip(("cert.pem", "key.pem"), CA.server(["127.0.0.1", HOST]), strict=True):
        (folder / name).write_bytes(content)


def trusting(folder: Path) -> ssl.SSLContext:
    (folder / "ca.pem").write_bytes(CA.pair.certificate)
    return ssl.create_default_context(cafile=str(folder / "ca.pem"))


async def test_somebody_signs_in_over_tls_off_loopback(tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with served(tmp_path) as port, aiohttp.ClientSession(cookie_jar=jar) as session:
        at, tls = f"https://127.0.0.1:{port}", trusting(tmp_path)
        async with session.get(f"{at}/login", ssl=tls) as answer:
            assert answer.status == 200
            assert HSTS[0] not in answer.headers, "loopback's other ports would be asked for TLS, too"
        csrf = next(each for each in jar if each.key == f"__Host-{CSRF_COOKIE}")
        form, own = {CSRF_FIELD: csrf.value, "token": "reader"}, {"Origin": at}
        async with session.post(f"{at}/login", data=form, headers=own, ssl=tls, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
        kept = {
            each.key: (bool(each["secure"]), bool(each["httponly"]), each["samesite"], each["path"]) for each in jar
        }
        assert kept == dict.fromkeys((f"__Host-{CSRF_COOKIE}", f"__Host-{COOKIE}"), (True, True, "Strict", "/"))
        async with session.get(f"{at}/", ssl=tls) as answer:
            assert "Signed in as token reader" in await answer.text()
        async with session.get(f"{at}/", ssl=tls, headers={"Cookie": f"{COOKIE}={'a' * 64}"}) as answer:
            assert "Signed in as token reader" in await answer.text(), (
                "another site of the domain may have set that one"
            )
        async with session.post(f"{at}/logout", data=form, headers=own, ssl=tls) as answer:
            assert {each.key for each in jar} == {f"__Host-{CSRF_COOKIE}"}
        plain = {"Origin": at.replace("https", "http")}
        async with session.post(f"{at}/login", data=form, headers=plain, ssl=tls) as answer:
            assert answer.status == 403, "a page without TLS may be anybody's"


async def test_what_is_said_to_other_names_and_by_plain_connections(tmp_path: Path) -> None:
    async with served(tmp_path) as port, aiohttp.ClientSession() as session:
        at, tls = f"https://127.0.0.1:{port}/login", trusting(tmp_path)
        for host, status, hsts in ((HOST, 200, True), ("10.0.0.7", 200, True), ("evil.example", 403, True)):
            async with session.get(at, headers={"Host": f"{host}:{port}"}, ssl=tls) as answer:
                assert (answer.status, answer.headers.get(HSTS[0]) == HSTS[1]) == (status, hsts)
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(at.replace("https", "http"))
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(
                at, ssl=ssl.create_default_context(cadata=DevAuthority(datetime.now(UTC)).pair.certificate.decode())
            )


async def test_a_certificate_that_was_replaced_is_shown_to_the_next_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_EVERY_S", 0.0)
    async with served(tmp_path) as port:
        first = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", int(port)))
        assert await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", int(port))) == first
        put(tmp_path)
        assert await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", int(port))) != first


def test_the_pages_answer_on_the_loop_that_processes_have(tmp_path: Path) -> None:
    async def ask() -> int:
        async with (
            served(tmp_path) as port,
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{port}/livez", ssl=trusting(tmp_path)) as answer,
        ):
            return answer.status

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(ask()) == 200
