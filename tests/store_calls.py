"""Functions of the store, past its verbs: calls one, lists an outbox, and notes or changes what is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from atf.config.settings import StoreSettings, Timing
from atf.runtime import Runtime
from atf.store import keys
from atf.store.servers.connection import Link
from atf.store.servers.modes import fake_link
from atf.store.servers.sockets import Arg
from atf.store.store import Store
from atf.store.values.passes import OutboxRecord


async def open_behind(
    fake: Any, server: Callable[[], tuple[str, str]], settings: StoreSettings, timing: Timing, runtime: Runtime
) -> Store:
    """Opens a store on a fakeredis.FakeServer that says of itself what `server` answers: its run id, and what it remembers."""
    store = Store(fake_link(fake, server), settings, timing, runtime)
    await store.link.load_library()
    await store.open_partitions(agree=True)
    return store


async def call_function(store: Store, verb: str, partition: int, args: Sequence[Arg]) -> Any:
    """Calls one function on one partition, at the instant of the store's clock."""
    return await store.link.call(verb, keys.record(partition), [store.now() if store.now else "", *args])


async def list_outbox(store: Store, partition: int, most: int = 256) -> list[OutboxRecord]:
    """The changes that a partition has for others, the oldest first."""
    reply = await call_function(store, "list_outbox", partition, [most])
    return [
        OutboxRecord(partition, int(number), int(target), body)
        for number, target, body in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    ]


def note_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all functions that any store calls from now on, in order."""
    called: list[str] = []
    whole = Link.call

    async def call(self: Link, verb: str, *args: Any, **options: Any) -> Any:
        called.append(verb)
        return await whole(self, verb, *args, **options)

    monkeypatch.setattr(Link, "call", call)
    return called
