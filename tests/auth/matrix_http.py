"""Tries what is served by HTTP with every kind of token: Dapr's routes, the pages and their actions, metrics. What is expected is what the table says
(atf/auth/routes.py).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from atf.auth.grants import Verb
from atf.auth.routes import ACTIONS, DAPR_HTTP, METRICS, ROUTES, UI, Door
from atf.auth.wrong_tries import WrongTries
from atf.config.settings import FrontendSettings, UiSettings
from atf.frontend.dapr.http import HttpPort
from atf.frontend.dapr.runtime import DaprRuntime
from atf.metrics.metrics import Metrics
from atf.metrics.server import MetricsServer
from atf.process.metrics_access import readers_of_everything
from atf.rpc import frontend_pb2 as f
from atf.rpc.local_channel import LocalChannel
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime
from atf.ui.app import SAID_COOKIE, make_app
from atf.ui.probes import add_probes
from atf.ui.security import CSRF_COOKIE, CSRF_FIELD
from tests.ui.conftest import example

from .matrix import BAD, DENIED, LET_IN, NO_TOKEN, OWN, Cell, World, expected

_VALUES: Final = {
    "{name}": "job",
    "{id}": "0-a",
    "{part}": "payload",
    "{verb}": "retry",
    "{path}": "atf.css",
    "{action}": "pause-job",
}
_STATUS: Final = {401: NO_TOKEN, 403: DENIED}
_TOKENS: Final = (*BAD, *(each.value for each in Verb), "everywhere")


def _path(path: str) -> str:
    return re.sub(r"{\w+}", lambda found: _VALUES[found[0]], path)


def expected_of(port: str, method: str, path: str, token: str, of: str) -> str:
    """What the table says of a route."""
    route = ROUTES[port, method, path]
    if route.door is Door.OPEN:
        return LET_IN
    if token in BAD:
        return NO_TOKEN
    if route.door is Door.SESSION or token == "everywhere":
        return LET_IN
    return DENIED if route.door is Door.READER else expected(route.call, frozenset({Verb(token)}), of)


# --- Dapr's port and that of metrics ----------------------------------------------------------------------------------


class _Process:
    """A process whose metrics are served."""

    serves = True

    def __init__(self, world: World) -> None:
        self.metrics = Metrics()
        assert world.security.authenticator is not None
        self.may_read = readers_of_everything(world.security.authenticator, WrongTries(SystemRuntime()))

    async def read_gauges(self) -> None:
        """There are none."""


class Ports:
    """Dapr's port, that of metrics, and the pages."""

    def __init__(
        self, addresses: dict[str, str], session: aiohttp.ClientSession, browser: Browser, apps: dict[str, Any]
    ) -> None:
        self._addresses, self._session, self.browser, self.apps = addresses, session, browser, apps

    async def ask(self, port: str, method: str, path: str, shown: str, of: str = "own") -> tuple[int, str]:
        """The status and the text of an answer, where each request shows a token."""
        sent = {"dapr-app-id": of} | ({"authorization": f"Bearer {shown}"} if shown else {})
        body = {"schedule": "@every 1h", "overwrite": True} if method == "POST" else None
        url = f"http://{self._addresses[port]}{_path(path)}"
        async with self._session.request(method, url, headers=sent, json=body) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def ports(world: World) -> AsyncIterator[Ports]:
    """All that listens to HTTP."""
    dapr = HttpPort(DaprRuntime(world.frontend, FrontendSettings(dapr_app_id="own")), 1, world.security)
    metrics = MetricsServer(_Process(world), asyncio.get_running_loop())
    await metrics.start("127.0.0.1:0")
    addresses = {DAPR_HTTP: await dapr.open("127.0.0.1:0"), METRICS: metrics.address}
    try:
        async with aiohttp.ClientSession() as session, _browser(world) as browser:
            assert dapr._runner is not None  # noqa: SLF001  its routes are nobody else's
            yield Ports(addresses, session, browser, {UI: browser.app, DAPR_HTTP: dapr._runner.app})  # noqa: SLF001
    finally:
        metrics.close()
        await dapr.stop()


async def _of_plain_ports(world: World, http: Ports) -> AsyncIterator[Cell]:
    for port, method, path in (row for row in ROUTES if row[0] != UI):
        for token in _TOKENS:
            for of in ("own", "other") if port == DAPR_HTTP and token not in {*BAD, "everywhere"} else ("own",):
                status, text = await http.ask(port, method, path, world.tokens.get(token, ""), of)
                found = _STATUS.get(status, LET_IN)
                if port == METRICS and "that may read every namespace" in text:
                    found = DENIED
                yield Cell(f"{port} {method} {path}", token, of, expected_of(port, method, path, token, of), found)


# --- the pages --------------------------------------------------------------------------------------------------------


class Browser:
    """Somebody who has tried to sign in."""

    def __init__(self, client: TestClient[Any, Any]) -> None:
        self._client, self.app = client, client.app

    async def sign_in(self, token: str) -> None:
        self._client.session.cookie_jar.clear()
        await (await self._client.get("/login")).read()
        if token:
            await self.post("/login", {"token": token})

    async def get(self, path: str, bearer: str) -> str:
        """What came of a look, in the words of the table."""
        sent = {"authorization": f"Bearer {bearer}"} if bearer and path == "/metrics" else {}
        async with self._client.get(URL(path, encoded=True), headers=sent, allow_redirects=False) as answer:
            await answer.read()
            if answer.headers.get("Location", "").startswith("/login"):
                return NO_TOKEN
            return _STATUS.get(answer.status, LET_IN) if path == "/metrics" else LET_IN

    async def status(self, path: str) -> int:
        """The status of a page."""
        async with self._client.get(path, allow_redirects=False) as answer:
            await answer.read()
            return answer.status

    async def post(self, path: str, form: dict[str, str]) -> tuple[str, str]:
        """What came of a form, in the words of the table, and what the next page says of it."""
        jar = self._client.session.cookie_jar
        csrf = next(each.value for each in jar if each.key == CSRF_COOKIE)
        sent = {"Origin": str(self._client.make_url("/")).rstrip("/")}
        async with self._client.post(
            path, data={CSRF_FIELD: csrf, **form}, headers=sent, allow_redirects=False
        ) as answer:
            await answer.read()
            if answer.headers.get("Location", "").startswith("/login") and path.startswith("/do/"):
                return NO_TOKEN, ""
            kept = answer.cookies.get(SAID_COOKIE)
        said = json.loads(base64.urlsafe_b64decode(kept.value))["text"] if kept else ""
        return DENIED if re.search(rf": no ({'|'.join(Verb)})\b", said) else LET_IN, said


@asynccontextmanager
async def _browser(world: World) -> AsyncIterator[Browser]:
    channel = LocalChannel(f.DESCRIPTOR.services_by_name["Frontend"], world.frontend, world.security.let_in)
    app = make_app(FrontendStub(channel), UiSettings(), SystemRuntime(), login=True)
    add_probes(app, lambda: True)
    async with TestClient(TestServer(app)) as client:
        yield Browser(client)


async def _of_pages(world: World, browser: Browser) -> AsyncIterator[Cell]:
    for token in _TOKENS:
        shown = world.tokens.get(token, "")
        await browser.sign_in(shown)
        for port, method, path in ROUTES:
            if (port, method) == (UI, "GET"):
                want = expected_of(port, method, path, token, "own")
                yield Cell(f"{port} {method} {path}", token, "own", want, await browser.get(_path(path), shown))
        for name in ACTIONS:
            want, form = _of_action(name, token), example(name) | {"lambda": OWN}
            yield Cell(f"{UI} POST /do/{name}", token, "own", want, (await browser.post(f"/do/{name}", form))[0])
        yield Cell(f"{UI} POST /logout", token, "own", LET_IN, (await browser.post("/logout", {}))[0])


def _of_action(name: str, token: str) -> str:
    if token in BAD:
        return NO_TOKEN
    call = f"/atf.v1.Frontend/{ACTIONS[name]}"
    return LET_IN if token == "everywhere" else expected(call, frozenset({Verb(token)}), "own")


async def tried_by_http(world: World) -> list[Cell]:
    """Every cell of every route and action."""
    async with ports(world) as http:
        plain = [each async for each in _of_plain_ports(world, http)]
        return plain + [each async for each in _of_pages(world, http.browser)]
