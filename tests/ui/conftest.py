"""The pages over a frontend that is a Python object, with browsers that are clients of aiohttp."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from atf.config.settings import UiSettings
from atf.runtime import SystemRuntime
from atf.ui.actions.table import ACTIONS
from atf.ui.app import make_app
from atf.ui.security import CSRF_COOKIE, CSRF_FIELD
from tests.recorder import Recorder

NOW_US = 1_800_000_000_000_000


class TurnedClock(SystemRuntime):
    """Real spawning; clocks that the test turns."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = NOW_US

    def turn(self, seconds: float) -> int:
        """Goes on by so much; gives the time."""
        self.now_us += round(seconds * 1e6)
        return self.now_us

    def monotonic(self) -> float:
        return self.now_us / 1e6

    def wall_us(self) -> int:
        return self.now_us


class Browser:
    """Someone who looks at the pages."""

    def __init__(self, client: TestClient[Any, Any], frontend: Any, clock: TurnedClock, root: str) -> None:
        self.client, self.frontend, self.clock, self.root = client, frontend, clock, root

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """The status and the text of a page."""
        async with self.client.get(
            URL(self.root + path, encoded=True), headers=headers, allow_redirects=False
        ) as answer:
            return answer.status, await answer.text()

    @property
    def origin(self) -> str:
        return str(self.client.make_url("/")).rstrip("/")

    async def token(self) -> str:
        """The token that a page gave this browser."""
        await self.get("/nowhere")
        return next(each.value for each in self.client.session.cookie_jar if each.key == CSRF_COOKIE)

    async def post(self, action: str, form: dict[str, str], *, token: str | None = None, **headers: str) -> Any:
        """Sends an action's form as its page would, unless told otherwise. Answers with what came, its body read."""
        form = {CSRF_FIELD: await self.token() if token is None else token, "next": f"{self.root}/tasks", **form}
        sent = {"Origin": self.origin, **headers}
        path = f"{self.root}/do/{action}"
        async with self.client.post(path, data=form, headers=sent, allow_redirects=False) as answer:
            await answer.read()
            return answer


@asynccontextmanager
async def browsing(frontend: Any, **settings: Any) -> AsyncIterator[Browser]:
    """A browser before the pages of a frontend."""
    clock, given = TurnedClock(), UiSettings(**settings)
    async with TestClient(TestServer(make_app(frontend, given, clock))) as client:
        yield Browser(client, frontend, clock, given.root)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing(Recorder()) as made:
        yield made


def example(name: str) -> dict[str, str]:
    """A form of an action, filled in."""
    of_field = {
        "why": "it rains",
        "for": "30m",
        "by": "5s",
        "percent": "5",
        "labels": "team=web tier=1",
        "cores": "4",
        "setting": "rate=100",
        "rate": "5",
    }
    of_target = {
        "id": "0-a",
        "lambda": "photos/thumbnail",
        "key": "anna b",
        "task": "0-a",
        "job": "photos/nightly",
        "batch": "b1",
        "host": "one:7403",
        "pool": "gpu",
        "action": "pause",
        "setting": "rate",
        "labels": "team=web",
        "status": "dead",
        "since": "1h",
        "until": "2027-01-15T07:59Z",
        "asof": str(NOW_US),
        "error": "it rained",
    }
    action = ACTIONS[name]
    if "asof" in action.target:
        del of_target["key"]
    return {
        **{each: of_target.get(each, "") for each in action.target},
        **{each.name: of_field[each.name] for each in action.fields},
    }
