"""What health says of the task store that a role has: whether it is reached, and whether claims of its tasks are given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.errors import Unavailable
from atf.rpc import store_health
from atf.runtime import SystemRuntime
from atf.store.store import Store


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = await Store.open(
        StoreSettings(partitions=2), Timing(), SystemRuntime(), fake=fakeredis.FakeServer(version=(7, 4))
    )
    yield made
    await made.close()


async def said(store: Store | None) -> dict[str, str]:
    return {name: await look() for name, look in store_health.of_store(store).items()}


def away(store: Store, *partitions: int) -> None:
    direct = store.link.call

    async def call(verb: str, record: str, *args: Any, **more: Any) -> Any:
        if record in {f"atf:{{{each}}}" for each in partitions}:
            raise Unavailable("the task store at memory can't be reached: refused")
        return await direct(verb, record, *args, **more)

    store.link.call = call  # type: ignore[method-assign, assignment]


async def test_all_is_well(store: Store) -> None:
    assert await said(store) == {"store": "", "claims": ""}


async def test_a_pause_of_claims(store: Store) -> None:
    await store.pause_claims()
    found = await said(store)
    assert found["store"] == ""
    assert found["claims"].startswith("no task starts for at least another 16 s: claims are paused, since tasks were")


async def test_a_store_that_is_away(store: Store) -> None:
    away(store, 0, 1)
    found = await said(store)
    assert found["store"] == "the task store at memory can't be reached: refused"
    assert found["claims"] == (
        "whether claims are given is not known: the task store at memory can't be reached: refused"
    )


async def test_a_part_of_a_store_that_is_away(store: Store) -> None:
    away(store, 1)
    assert (await said(store))["store"] == (
        "1 of 2 partitions can't be reached: the task store at memory can't be reached: refused"
    )


async def test_a_store_that_does_not_answer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_args: Any, **_more: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(store_health, "LOOK_S", 0.0)
    store.link.call = never  # type: ignore[method-assign]
    found = await said(store)
    assert found["store"] == "the task store does not answer within 0 s"
    assert found["claims"] == "whether claims are given is not known: the task store does not answer within 0 s"


async def test_a_store_that_was_never_reached() -> None:
    assert (await said(None))["store"].startswith("the task store has not been reached since this process started")
