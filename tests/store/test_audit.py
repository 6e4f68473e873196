"""The audit log in the store: the newest entries, and no more of them."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import ResourceExhausted
from atf.store import library
from atf.store.values.audit import AuditEntry

from .world import LAMBDA, World


async def test_it_gives_entries_newest_first_and_numbers_them(world: World) -> None:
    old = AuditEntry("set_gate", LAMBDA, {"team": "web"}, "ada", "it rains", "pause")
    new = AuditEntry("cancel_tasks", LAMBDA, {}, "bob", "", "", ["0-a", "1-b"], 2, "Unavailable: away")
    await world.store.add_audit([old])
    world.clock.advance(1)
    await world.store.add_audit([new, old])
    found = await world.store.list_audit(None, 10)
    assert [(each.number, each.what) for each in found] == [(3, "set_gate"), (2, "cancel_tasks"), (1, "set_gate")]
    assert found[1].logged() == new.logged()
    assert found[1].at_us == world.clock.us
    assert await world.store.list_audit(3, 1) == [found[1]]


async def test_it_keeps_exactly_the_newest(world: World) -> None:
    entries = [AuditEntry("redrive", detail=str(number)) for number in range(5)]
    await world.store.add_audit(entries)
    await world.store.link.command("HSET", "atf:{0}", "audited", library.AUDIT_KEPT, key="atf:{0}")
    await world.store.add_audit(entries[:2])
    kept = [each.number for each in await world.store.list_audit(None, 10)]
    assert kept == [library.AUDIT_KEPT + 2, library.AUDIT_KEPT + 1, 5, 4, 3]


async def test_in_a_full_store_entries_take_the_places_of_the_oldest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.store.add_audit([AuditEntry("redrive", detail=str(number)) for number in range(3)])
    call = world.store.link.call

    async def full(function: str, *args: Any, **options: Any) -> Any:
        if function == "add_audit":
            raise ResourceExhausted("the task store is full")
        return await call(function, *args, **options)

    monkeypatch.setattr(world.store.link, "call", full)
    await world.store.add_audit([AuditEntry("redrive", detail="new"), AuditEntry("redrive", detail="newer")])
    assert [each.detail for each in await world.store.list_audit(None, 10)] == ["newer", "new", "2"]


async def test_many_long_entries_leave_earlier(world: World) -> None:
    short, long = AuditEntry("redrive"), AuditEntry("cancel_matching", tasks=[f"0-{each:024}" for each in range(256)])
    await world.store.add_audit([short] * 20)
    await world.store.link.command("HINCRBY", "atf:{0}", "auditb", library.AUDIT_BYTES - 9_000, key="atf:{0}")
    for last, oldest in ((21, 1), (22, 17)):
        await world.store.add_audit([long])
        kept = [each.number for each in await world.store.list_audit(None, 30)]
        assert (kept[0], kept[-1]) == (last, oldest), "the second long one was too much, and 16 short ones left"
