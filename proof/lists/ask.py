"""Asks a full store for every list, filter and count that people look at, and measures what each takes of them and of the store."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import redis
from aiohttp import ClientSession, web

from atf.config.settings import FrontendSettings, UiSettings
from atf.rpc import frontend_pb2 as f
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import US
from atf.ui.app import make_app
from frontend.service import FrontendService

from . import models

_HOUR_US: Final = 3_600 * US
_ANEW_S: Final = 1.05
"""Counts are shared for a second."""
_TIMES_APART: Final = 40
"""How often at most something is asked that has to wait so long."""
WAITING: Final = ("NEW", "ENQUEUED", "RETRIABLE_FAILURE")
RUNNING: Final = ("CLAIMED", "PROCESSING")
FAILED: Final = ("RETRIABLE_FAILURE", "FATAL_FAILURE")
BIG, SEARCHED, SMALL = models.NAMES[0], models.NAMES[1], models.NAMES[-1]


class Asked(NamedTuple):
    """A question: what it is called, and the call that asks it once; that answers how many rows it got, and how many tasks were looked at."""

    name: str
    once: Callable[[], Awaitable[tuple[int, int]]]
    at_most_ms: int = 100
    apart_s: float = 0  # between two times, so that none is answered with what was read for the one before


class Figures(NamedTuple):
    """What a question took."""

    def __str__(self) -> str:
        store = f"store {self.store_us:6} us, slowest call {self.slowest_ms:7.2f} ms"
        times = f"p50 {self.p50_ms:7.2f} ms, p95 {self.p95_ms:7.2f} ms"
        return f"{times}, {store}, here {self.here_us:6} us, {self.rows} of {self.looked_at}"

    p50_ms: float
    p95_ms: float
    store_us: float  # of the server's CPU for each time it was asked
    here_us: float  # of this process', which is the frontend, and the pages where these are asked
    slowest_ms: float  # of all calls of the store
    rows: int
    looked_at: int


def questions(service: FrontendService, now_us: int) -> list[Asked]:
    """All that a frontend is asked; `now_us`: when the newest of most tasks was made."""

    def lists(name: str, page: int = 1, *, oldest: bool = False, **asked: Any) -> Asked:
        """A page of a list: the first one, or so many pages on."""
        asked_for = f.TaskFilter(**{("lambda" if key == "of" else key): value for key, value in asked.items()})
        token: list[str] = []

        async def once() -> tuple[int, int]:
            if not token:
                token.append("")
                for _ in range(page - 1):
                    token[0] = (await service.list_tasks(request(token[0]))).next_page_token
            reply = await service.list_tasks(request(token[0]))
            return len(reply.tasks), reply.looked_at

        def request(behind: str) -> f.ListTasksRequest:
            return f.ListTasksRequest(filter=asked_for, page_size=50, page_token=behind, oldest_first=oldest)

        return Asked(name, once)

    async def status() -> tuple[int, int]:
        return len((await service.get_status(f.GetStatusRequest(recent_us=_HOUR_US))).lambdas), 0

    async def lambdas() -> tuple[int, int]:
        rows, token = 0, ""
        while True:
            reply = await service.list_lambdas(f.ListLambdasRequest(page_size=256, page_token=token))
            rows, token = rows + len(reply.lambdas), reply.next_page_token
            if not token:
                return rows, 0

    async def audit() -> tuple[int, int]:
        return len((await service.list_audit(f.ListAuditRequest(page_size=50))).entries), 0

    return [
        lists("all"),
        lists("all, second page", 2),
        lists("all, 50th page", 50),
        lists("all, oldest first", oldest=True),
        lists("since an hour", since_at_us=now_us - _HOUR_US),
        lists("an hour of 10 hours ago", since_at_us=now_us - 11 * _HOUR_US, until_at_us=now_us - 10 * _HOUR_US),
        lists("waiting", statuses=WAITING),
        lists("running", statuses=RUNNING),
        lists("failed", statuses=FAILED),
        lists("dead", statuses=["FATAL_FAILURE"]),
        lists("dead, second page", 2, statuses=["FATAL_FAILURE"]),
        lists("dead since an hour", statuses=["FATAL_FAILURE"], since_at_us=now_us - _HOUR_US),
        lists("dead, oldest first", statuses=["FATAL_FAILURE"], oldest=True),
        lists("done", statuses=["SUCCESS"]),
        lists("done, 50th page", 50, statuses=["SUCCESS"]),
        lists("cancelled", statuses=["CANCELLED"]),
        lists("a namespace", of="photos/*"),
        lists("a namespace, dead", of="photos/*", statuses=["FATAL_FAILURE"]),
        lists("the largest lambda", of=BIG),
        lists("the largest lambda, 50th page", 50, of=BIG),
        lists("the largest lambda, done", of=BIG, statuses=["SUCCESS"]),
        lists("the largest lambda, dead", of=BIG, statuses=["FATAL_FAILURE"]),
        lists("the largest lambda, waiting", of=BIG, statuses=WAITING),
        lists("the smallest lambda", of=SMALL),
        lists("the smallest lambda, dead", of=SMALL, statuses=["FATAL_FAILURE"]),
        lists("a label", labels={"team": "web"}),
        lists("a label, second page", 2, labels={"team": "web"}),
        lists("a label that no task has", labels={"team": "none"}),
        lists("a label, the largest lambda", of=BIG, labels={"team": "web"}),
        lists("a key", key="customer-7"),
        lists("a priority", priorities=[0]),
        lists("a priority, waiting", priorities=[1], statuses=WAITING),
        lists("an error's type", error_type="TimeoutError"),
        lists("an error's type, dead", error_type="TimeoutError", statuses=["FATAL_FAILURE"]),
        lists("a rare error's type, dead", error_type=models.RARE, statuses=["FATAL_FAILURE"]),
        lists("a searched value", of=SEARCHED, search={"order_id": "7"}),
        lists("a searched value, everywhere", search={"order_id": "7"}),
        Asked("status of all lambdas", status, 50, _ANEW_S),
        Asked("lambdas with counts", lambdas, 100, _ANEW_S),
        Asked("audit", audit),
    ]


def service_of(store: Store) -> FrontendService:
    """A frontend in this process."""
    return FrontendService(store=store, settings=FrontendSettings(), runtime=SystemRuntime())


def used_cpu_us(client: redis.Redis) -> float:
    """The server's CPU so far."""
    told: Any = client.info("cpu")
    return float(told["used_cpu_sys"] + told["used_cpu_user"]) * 1e6


def slowest_ms(client: redis.Redis) -> float:
    """Of the calls since the slow log was emptied."""
    told: Any = client.slowlog_get(128)
    return float(max((each["duration"] for each in told if each["command"].startswith(b"FCALL")), default=0)) / 1_000


@asynccontextmanager
async def open_pages(service: FrontendService) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """`atf ui` before a frontend of this process: what gets a page by its path."""
    site = make_app(service, UiSettings(), SystemRuntime())
    runner = web.AppRunner(site)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:

        async def get(path: str) -> str:
            async with session.get(path) as answer:
                text = await answer.text()
                if answer.status != HTTPStatus.OK:
                    raise SystemExit(f"{path}: {answer.status}: {text[-2_000:]}")
                return text

        yield get
    await runner.cleanup()


def pages(get: Callable[[str], Awaitable[str]]) -> list[Asked]:
    """All that a browser is shown, each page as by the only one that looks."""

    def page(path: str, at_most_ms: int = 100) -> Asked:
        async def once() -> tuple[int, int]:
            return (await get(path)).count("<tr"), 0

        return Asked(f"page {path}", once, at_most_ms, _ANEW_S)

    shown = ("/lambdas", "/tasks", "/tasks?status=waiting", "/tasks?status=dead", "/failures", "/cluster")
    return [page("/", 50), *map(page, shown)]


async def measure(asked: Asked, client: redis.Redis, times: int) -> Figures:
    """Asks so many times, one after the other."""
    rows, looked_at = await asked.once()
    client.slowlog_reset()
    took, store_us, here_s = [], 0.0, 0.0
    for _ in range(min(times, _TIMES_APART) if asked.apart_s else times):
        await asyncio.sleep(asked.apart_s)
        before_us, before_s = used_cpu_us(client), time.process_time()
        began = time.perf_counter()
        await asked.once()
        took.append((time.perf_counter() - began) * 1_000)
        here_s += time.process_time() - before_s
        store_us += used_cpu_us(client) - before_us
    took.sort()
    p95 = took[math.ceil(0.95 * len(took)) - 1]
    each_us = (round(store_us / len(took)), round(here_s * US / len(took)))
    return Figures(
        round(statistics.median(took), 2), round(p95, 2), *each_us, round(slowest_ms(client), 2), rows, looked_at
    )


_TABS: Final = (
    "/tasks",
    "/tasks?status=waiting",
    "/tasks?status=failed",
    "/tasks?status=dead",
    "/tasks?status=done",
    "/tasks?lambda=photos/*",
    f"/tasks?lambda={BIG}",
    f"/tasks?lambda={SMALL}",
    "/tasks?labels=team%3Dweb",
    "/tasks?status=dead&error_type=TimeoutError",
)
"""Ten of twenty tabs; five of the others show the overview, and five the lambdas."""
_REFRESH_S: Final = 2.0
"""As atf/ui/static/app.js has it."""


async def tabs(get: Callable[[str], Awaitable[str]], client: redis.Redis, seconds: float) -> tuple[float, float]:
    """The share of a core that the store takes while twenty tabs of `atf ui` refresh themselves, and that this process takes."""
    ends = time.monotonic() + seconds

    async def tab(number: int, path: str) -> None:
        await asyncio.sleep(number * _REFRESH_S / 20)
        while time.monotonic() < ends:
            await get(path)
            await asyncio.sleep(_REFRESH_S)

    before_us, before_s, began = used_cpu_us(client), time.process_time(), time.monotonic()
    paths = [*_TABS, *["/"] * 5, *["/lambdas"] * 5]
    await asyncio.gather(*(tab(number, path) for number, path in enumerate(random.Random(20).sample(paths, 20))))
    lasted = time.monotonic() - began
    return (used_cpu_us(client) - before_us) / US / lasted, (time.process_time() - before_s) / lasted
