"""The look at the task store's settings every minute goes on, whatever a server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import atf.process
from atf.errors import Unavailable
from atf.process import Process
from atf.store.findings import Finding, warn


class Store:
    """Answers one thing after the other: an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.findings: list[Finding] = []
        self.answers: Iterator[Any] = iter(answers)

    async def examine(self) -> list[Finding]:
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


def test_an_odd_answer_is_said_once_and_does_not_end_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ValueError("invalid literal for int(): 'plenty'")
    found = [warn("maxmemory", "small", "it is small")]
    store = Store(odd, odd, Unavailable("away"), found, odd, [])
    looks = iter([False] * 6 + [True])

    async def happens(_event: asyncio.Event, _seconds: float | None) -> bool:
        return next(looks)

    monkeypatch.setattr(atf.process, "happens", happens)

    async def run() -> list[tuple[str, str]]:
        process: Any = Process("tester")
        process.log = Said()
        await process._look_again(store)
        return list(process.log.events)

    unjudged = ("can't judge the task store's settings", repr(odd))
    assert asyncio.run(run()) == [
        unjudged,
        ("task store", "it is small"),
        ("task store is mended", "maxmemory"),
    ]
