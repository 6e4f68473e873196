"""Pools: a lambda that names one is given to its workers alone, and whether they are alive is known."""

from __future__ import annotations

from typing import Any

import pytest

from atf.store import status
from atf.store.capacity import HostRecord, RenewedHosts
from atf.store.status import LiveRole
from atf.store.values.lambdas import LambdaRecord
from atf.task import STARTS, US
from tests.claiming import serve_queues

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, World, to


async def named(world: World, pool: str) -> None:
    settings = f"pool={pool}" if pool else ""
    await world.store.register_lambdas(
        [LambdaRecord(LAMBDA, b"x", 5, ENQUEUE_TIMEOUT_US, paused=False, settings=settings)]
    )


async def popped(world: World, pool: str) -> list[str]:
    return [each for _, ids in await serve_queues(world.store, 0, [[QUEUE]], 1, pool) for each in ids]


async def test_a_lambda_that_names_a_pool_is_given_to_that_alone(world: World) -> None:
    await named(world, "gpu")
    await world.schedule("a", "b")
    await world.passes()
    assert await popped(world, "") == []
    assert await popped(world, "cpu") == []
    assert await popped(world, "gpu") == ["0-a"]
    await world.store.set_lambda(LAMBDA, to("pool=-"))
    assert await popped(world, "gpu") == []
    assert await popped(world, "") == ["0-b"]


async def test_no_live_worker_of_its_pool_is_told_and_that_there_is_one_again(world: World) -> None:
    await named(world, "gpu")
    (task_id,) = await world.schedule("a")
    await world.store.serve("", 30)

    async def unserved() -> str:
        found = await world.store.explain_task(task_id)
        assert found is not None
        return found.unserved

    assert await unserved() == "gpu"
    await world.store.serve("gpu", 30)
    assert await unserved() == ""
    world.clock.advance(29)
    assert await unserved() == ""
    world.clock.advance(1)
    assert await unserved() == "gpu"
    await world.store.serve("", 30)
    assert await unserved() == "gpu"
    await named(world, "")
    assert await unserved() == ""


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
async def test_what_workers_run_is_told_by_the_page_and_completely(
    size: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what they say again between two pages; what is alive no more is not told."""
    monkeypatch.setattr(status, "_PAGE", size)
    store, call, calls = world.store, world.store.link.call, 0
    alive = [("gpu", f"shop/{number}") for number in range(5)] + [("", "shop/a"), ("", "shop/b"), ("big", "*")]

    async def say(*pools: str) -> None:
        for pool in pools:
            world.clock.advance(1)
            await store.serve(pool, 30, lambdas=[name for of, name in alive if of == pool and name != "*"])

    async def saying_again(verb: str, *args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += verb == "served"
        if verb == "served" and calls == 2:
            await say("", "big", "gpu")
        return await call(verb, *args, **more)

    await store.serve("gone", 1, lambdas=["shop/gone"])
    world.clock.advance(2)
    assert await store.served() == set()
    await say("gpu", "", "big")
    monkeypatch.setattr(store.link, "call", saying_again)
    assert await store.served() == set(alive)
    assert calls > 8 // size


async def test_no_live_worker_without_a_pool_is_told_too(world: World) -> None:
    (task_id,) = await world.schedule("a")

    async def served() -> tuple[bool, str]:
        found = await world.store.explain_task(task_id)
        assert found is not None
        return found.served, found.unserved

    assert await served() == (False, "")
    await world.store.serve("gpu", 30)
    assert await served() == (False, "")
    await world.store.serve("", 30)
    assert await served() == (True, "")
    world.clock.advance(30)
    assert await served() == (False, "")


async def test_hosts_are_listed_while_they_are_alive_with_what_they_quarantine(world: World) -> None:
    await world.store.serve("gpu", 30, "two", {LAMBDA: 5, "shop/other": 0})
    await world.store.serve("", 20, "one")
    now = world.clock.us
    two: HostRecord = HostRecord("two", "gpu", now + 30 * US, {LAMBDA: now + 5 * US, "shop/other": now}, {})
    assert await world.store.list_hosts() == (now, [HostRecord("one", "", now + 20 * US, {}, {}), two])
    world.clock.advance(20)
    assert (await world.store.list_hosts())[1] == [two]
    await world.store.serve("", 30)
    assert (await world.store.list_hosts())[1] == [two], "who has no name is not listed"


async def test_a_host_says_why_no_executor_can_start_there_until_one_works(world: World) -> None:
    async def host() -> tuple[str, int]:
        ((found,), now) = (await world.store.list_hosts())[::-1]
        return found.why_not, (found.until_us - now) // US

    await world.store.serve("", 30, "one", why_not=STARTS)
    assert await host() == (STARTS, 30)
    await world.store.serve("", 300, "one", why_not="shop.py line 3: SyntaxError")
    assert await host() == ("shop.py line 3: SyntaxError", 300)
    assert await world.store.live_pools() == [], "nobody runs anything"
    world.clock.advance(10)
    await world.store.serve("", 30, "one", why_not=STARTS)
    assert await host() == ("shop.py line 3: SyntaxError", 290), "a controller that tries again takes nothing back"
    await world.store.serve("", 30, "one")
    assert await host() == ("", 30)
    assert await world.store.live_pools() == [""]
    await world.store.serve("", 300, "one", why_not="gone")
    world.clock.advance(300)
    await world.store.serve("", 30, "two")
    assert await world.store.link.command("HGETALL", "atf:{0}:hosts:why", key="atf:{0}") in ({}, [])


async def test_explain_tells_the_hosts_where_none_can_start_apart_from_the_others(world: World) -> None:
    (task_id,) = await world.schedule("a")
    for host in ("a", "b", "c", "d"):
        await world.store.serve("", 300, host, why_not=f"{host} fails")
    await world.store.serve("gpu", 300, "of another pool", why_not="fails")
    found = await world.store.explain_task(task_id)
    assert found is not None
    assert (found.served, found.hosts, len(found.failing)) == (False, 0, 3)
    await world.store.serve("", 30, "a")
    await world.store.serve("", 30, "b", why_not=STARTS)
    found = await world.store.explain_task(task_id)
    assert found is not None
    assert (found.served, found.hosts) == (True, 1)
    assert found.failing == {"b": "b fails", "c": "c fails", "d": "d fails"}
    await world.store.serve("", 30, "b")
    await world.store.serve("", 30, "e", why_not=STARTS)
    found = await world.store.explain_task(task_id)
    assert found is not None
    assert (found.hosts, list(found.failing), found.starting) == (2, ["c", "d"], ["e"])


async def test_pools_are_alive_as_long_as_a_worker_of_theirs_is(world: World) -> None:
    await world.store.serve("gpu", 30)
    await world.store.serve("cpu", 20, "one")
    await world.store.serve("", 20, "two")
    assert await world.store.live_pools() == ["", "cpu", "gpu"]
    world.clock.advance(20)
    assert await world.store.live_pools() == ["gpu"]
    world.clock.advance(10)
    assert await world.store.live_pools() == []


async def not_run(world: World, task_id: str) -> bool:
    found = await world.store.explain_task(task_id)
    assert found is not None
    assert found.served
    return found.not_run


async def test_a_lambda_that_no_live_worker_of_its_pool_runs_is_told(world: World) -> None:
    await named(world, "gpu")
    (task_id,) = await world.schedule("a")
    await world.store.serve("gpu", 30, "one", lambdas=["shop/other"])
    await world.store.serve("", 60, "elsewhere", lambdas=[LAMBDA])
    assert await not_run(world, task_id)
    await world.store.serve("gpu", 30, "two", lambdas=[LAMBDA, "shop/other"])
    assert not await not_run(world, task_id)
    world.clock.advance(20)
    await world.store.serve("gpu", 30, "one", lambdas=["shop/other"])
    assert not await not_run(world, task_id)
    world.clock.advance(10)  # nothing was heard of the other one
    assert await not_run(world, task_id)


async def test_where_a_live_worker_does_not_say_what_it_runs_nothing_is_told_of_that(world: World) -> None:
    await named(world, "gpu")
    (task_id,) = await world.schedule("a")
    await world.store.serve("gpu", 30, "one")
    await world.store.serve("gpu", 30, "two", lambdas=["shop/other"])
    assert not await not_run(world, task_id)
    world.clock.advance(29)
    await world.store.serve("gpu", 30, "two", lambdas=["shop/other"])
    assert not await not_run(world, task_id)
    world.clock.advance(1)
    assert await not_run(world, task_id)


async def test_what_workers_run_is_forgotten_when_they_are_gone(world: World) -> None:
    await world.store.serve("gpu", 30, "one", lambdas=[f"shop/l{number}" for number in range(300)])
    world.clock.advance(30)
    for _ in range(2):  # some at each call
        await world.store.serve("", 30, "two", lambdas=["shop/a"])
    assert await world.store.link.command("ZCARD", "atf:{0}:served", key="atf:{0}") == 1


async def test_hosts_that_live_keep_what_was_said_of_them(world: World) -> None:
    await named(world, "gpu")
    (task_id,) = await world.schedule("a")
    await world.store.serve("gpu", 30, "one", {}, [f"{LAMBDA} d1"], executors=2)
    world.clock.advance(20)
    found = await world.store.renew_hosts("gpu", 30, ["one", "two"], [f"{LAMBDA} d1"])
    assert found == RenewedHosts({"two"}, set(), everywhere=True), "of two nothing was said"
    now_us, (host,) = await world.store.list_hosts()
    assert (host.name, host.executors, host.until_us - now_us) == ("one", 2, 30 * US)
    world.clock.advance(25)
    assert await world.store.live_pools() == ["gpu"]
    assert not await not_run(world, task_id)
    assert (await world.store.renew_hosts("gpu", 30, ["one"], alive=False)).unknown == set()
    world.clock.advance(10)
    assert await world.store.live_pools() == [], "no worker was said to be alive there"
    world.clock.advance(20)
    assert (await world.store.renew_hosts("gpu", 30, ["one"])).unknown == {"one"}, "it was gone"


async def test_who_says_that_hosts_live_hears_which_are_to_drain(world: World) -> None:
    names = [f"host-{number}" for number in range(300)]
    for each in names:
        await world.store.serve("", 30, each)
    await world.store.drain_host("host-299", drains=True)
    assert await world.store.renew_hosts("", 30, names) == RenewedHosts(set(), {"host-299"}, everywhere=True)


async def test_a_warning_is_said_once_while_anybody_lives_who_has_said_it(world: World) -> None:
    one, two = LiveRole("hsc", "1.0", "one:7"), LiveRole("frontend", "1.0", "two:8")
    assert await world.store.announce([one], 30, ["a", "b"]) == [True, True]
    assert await world.store.announce([two], 30, ["a", "c"]) == [False, True]
    assert await world.store.live_roles() == [two, one]
    world.clock.advance(20)
    assert await world.store.announce([two], 30, ["a"]) == [False]
    world.clock.advance(20)
    assert await world.store.live_roles() == [two]
    assert await world.store.announce([one], 30, ["a", "b"]) == [False, True]
    world.clock.advance(30)
    assert await world.store.live_roles() == []
    assert await world.store.announce([one], 30, ["a"]) == [True]
