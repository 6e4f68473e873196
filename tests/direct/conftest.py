"""A store on fakeredis that allows direct clients, and what opens frontends on it."""

from __future__ import annotations

import fakeredis
import pytest

import atf
from atf.client import own_frontend
from atf.config.settings import FrontendSettings, StoreSettings, Timing
from atf.direct import own_frontend as direct
from atf.rpc import frontend_pb2 as f
from atf.runtime import Runtime
from atf.store.servers.connection import Link
from atf.store.store import Store

URL = "redis://user:secret@stores:6379"

app = atf.App("direct")


@app.task(max_pending=64)
def bounded(text: str) -> str:
    return text


@app.task
def echo(text: str) -> str:
    return text


class DirectWorld:
    """A store in memory.

    Attributes:
        opened: the frontends that clients have opened, in their order.
        allows: whether the store takes direct clients.
    """

    def __init__(self) -> None:
        self.server = fakeredis.FakeServer(version=(7, 4))
        self.opened: list[direct.OwnFrontend] = []
        self.allows = True
        self.blocking: list[float] = []

    async def store(self, runtime: Runtime) -> Store:
        return await Store.open(StoreSettings(partitions=2), Timing(), runtime, fake=self.server)

    async def open(self, runtime: Runtime) -> direct.OwnFrontend:
        store = await self.store(runtime)
        await store.allow_direct(self.allows)
        opened = await direct.put_on(store, FrontendSettings(), runtime)
        await opened.method("/atf.v1.Frontend/RegisterLambdas")(
            f.RegisterLambdasRequest(lambdas=[each.spec() for each in app.lambdas.values()])
        )
        self.opened.append(opened)
        return opened

    def opener(self, _url: str, *, blocking_s: float = 0.0, operator: bool = False) -> direct.Opener:
        self.blocking.append(blocking_s)
        return self.open


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> DirectWorld:
    world = DirectWorld()
    monkeypatch.setattr(direct, "opener", world.opener)
    monkeypatch.setattr(own_frontend, "_refused", False)
    # Connections in memory suspend, which those that block never do; on the stepping loop that makes no difference.
    monkeypatch.setattr(Link, "until", lambda *_: None, raising=False)
    monkeypatch.setattr(Link, "cut", lambda _: None, raising=False)
    return world
