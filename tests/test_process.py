"""The look at the task store's settings every minute goes on, whatever a server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.metrics.metrics import Metrics
from atf.metrics.table import STORE_CHECK_FAILED
from atf.process import store_watch
from atf.process.store_watch import StoreWatch
from atf.runtime import SystemRuntime
from atf.store.servers.check_results import CheckResult, ok, refuse, warn
from atf.store.status import LiveRole


class Store:
    """Answers one thing after the other: an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.results: list[CheckResult] = []
        self.answers: Iterator[Any] = iter(answers)
        self.cluster: set[str] = set()
        self.metrics = Metrics()

    async def announce(
        self, _processes: Sequence[LiveRole], _seconds: float, warnings: Sequence[str] = ()
    ) -> list[bool]:
        new = [each not in self.cluster for each in warnings]
        self.cluster.update(warnings)
        return new

    async def examine(self) -> list[CheckResult]:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)


class Said:
    """Keeps the events of a log."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def warning(self, event: str, **more: str) -> None:
        self.events.append((event, more["warning"]))

    def exception(self, event: str, **more: str) -> None:
        self.events.append((event, more["error"]))

    def info(self, event: str, **more: str) -> None:
        self.events.append((event, more["check"]))


def watch(store: Store, log: Said) -> StoreWatch:
    return StoreWatch(("tester",), store, SystemRuntime(), log, asyncio.Event())  # type: ignore[arg-type]


def test_an_odd_answer_is_said_once_and_does_not_end_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ValueError("invalid literal for int(): 'plenty'")
    found = [warn("maxmemory", "small", "it is small")]
    store = Store(odd, odd, Unavailable("away"), found, odd, [])
    looks = iter([False] * 6 + [True])

    async def happens(_event: asyncio.Event, _seconds: float | None) -> bool:
        return next(looks)

    monkeypatch.setattr(store_watch, "happens", happens)
    monkeypatch.setattr(store_watch, "LOOK_AGAIN_S", 0.0)

    async def run() -> list[tuple[str, str]]:
        log = Said()
        await watch(store, log).run()
        return log.events

    unjudged = ("can't judge the task store's settings", repr(odd))
    assert asyncio.run(run()) == [
        unjudged,
        ("task store", "it is small"),
        ("task store is mended", "maxmemory"),
    ]


def test_a_warning_is_said_by_one_process_of_the_cluster_and_so_is_its_end() -> None:
    cluster: set[str] = set()
    found = warn("maxmemory", "small", "it is small")

    async def run(store: Store) -> list[tuple[str, str]]:
        log = Said()
        store.cluster = cluster
        watching = watch(store, log)
        for results in ([found], [found], []):
            await watching.say(results)
        return log.events

    said = [asyncio.run(run(Store())) for _ in range(3)]
    assert said == [[("task store", "it is small"), ("task store is mended", "maxmemory")], [], []]


def test_where_the_cluster_can_not_be_asked_a_warning_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> list[bool]:
        raise Unavailable("away")

    async def run() -> list[tuple[str, str]]:
        log, store = Said(), Store()
        monkeypatch.setattr(store, "announce", away)
        await watch(store, log).say([warn("maxmemory", "small", "it is small")])
        return log.events

    assert asyncio.run(run()) == [("task store", "it is small")]


def test_how_each_check_stands_is_a_metric() -> None:
    async def run() -> list[tuple[tuple[str, ...], Any]]:
        store = Store()
        results = [ok("server", "7.2", "fine"), warn("saves", "off", "a"), refuse("saves", "broken", "b")]
        await watch(store, Said()).say(results)
        return store.metrics.values(STORE_CHECK_FAILED)

    assert asyncio.run(run()) == [(("server",), 0), (("saves",), 2)]
