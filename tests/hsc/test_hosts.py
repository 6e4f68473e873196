"""ReportHost: what is noted of a worker host, and how soon it hears that it is to drain."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atf.errors import InvalidArgument, Unavailable
from atf.rpc import hsc_pb2 as h
from atf.rpc.lambda_sets import LambdaSet
from atf.runtime import end
from atf.store.status import LiveRole
from atf.store.values.lambdas import LambdaRecord
from atf.task import MAX_WHY_NOT_CHARS, US
from tests.virtual import virtual

from .world import MAIL, Host, World, ids_of, named, sets, world


def quarantined(name: str, for_us: int = 0) -> h.HostQuarantine:
    return h.HostQuarantine(for_us=for_us, **{"lambda": name})


@virtual(world(partitions=2))
async def test_the_store_knows_what_a_host_says_of_itself(w: World) -> None:
    runs = LambdaSet({MAIL: "d" * 12})
    host = Host(w, "one", {"e1": runs, "e2": runs}, pool="gpu")
    await asyncio.sleep(0.1)
    both = [quarantined(MAIL, 5 * US), quarantined("*")]
    await w.hsc.report_host(host.request(quarantined=both, why_not="=", wait=0))
    now_us, (found,) = await w.store.list_hosts()
    assert (found.name, found.pool, found.executors, found.why_not) == ("one", "gpu", 2, "=")
    assert set(found.quarantined) == {MAIL, "*"}
    assert found.quarantined[MAIL] - now_us == pytest.approx(5 * US, abs=US)
    assert found.until_us - now_us == pytest.approx(30 * US, abs=US)
    await end([host.duty])


@virtual(world())
async def test_a_report_of_unknown_sets_is_answered_at_once(w: World) -> None:
    host = Host(w, "one", {})
    await end([host.duty])
    host.executors = sets(["e1"])
    reply = await w.hsc.report_host(host.request(sets=[]))
    (runs,) = host.executors.values()
    assert list(reply.unknown_sets) == [runs.digest]
    assert w.runtime.monotonic() == 0
    reply = await w.hsc.report_host(host.request(sets=[named(runs)], wait=1))
    assert (list(reply.unknown_sets), reply.everywhere) == ([], True)


@virtual(world())
async def test_a_set_that_was_reported_is_known_to_asks_and_the_other_way_round(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    host = Host(w, "one", sets(["e1"]))
    await asyncio.sleep(0.1)
    assert ids_of(await w.ask("e1", named=False)) == [task_id]
    assert not (await w.hsc.report_host(host.request(sets=[], wait=0))).unknown_sets
    await end([host.duty])


@virtual(world())
async def test_a_host_hears_at_once_that_it_is_to_drain_and_to_go_on(w: World) -> None:
    host = Host(w, "one", sets(["e1"]))
    other = Host(w, "two", sets(["e2"]))
    await asyncio.sleep(3)
    assert (host.answers, other.answers) == (0, 0)
    await w.store.drain_host("one", drains=True)
    await asyncio.sleep(0.01)
    assert (host.drains, host.answers, other.answers) == (True, 1, 0)
    await w.store.drain_host("one", drains=False)
    await asyncio.sleep(0.01)
    assert (host.drains, host.answers) == (False, 2)
    await asyncio.sleep(10.1)
    assert (host.answers, other.answers) == (3, 1), "nothing new"
    await end([host.duty, other.duty])


@virtual(world())
async def test_a_host_that_drains_already_is_told_so_with_its_first_report(w: World) -> None:
    await w.store.drain_host("one", drains=True)
    host = Host(w, "one", sets(["e1"]))
    await asyncio.sleep(0.01)
    assert host.drains
    await end([host.duty])


@virtual(world(partitions=2))
async def test_where_part_of_the_store_did_not_hear_it_the_host_is_told_so(w: World) -> None:
    direct = w.store.link.call

    async def loses(verb: str, *args: Any, **more: Any) -> Any:
        if verb == "serve":
            raise Unavailable("the task store does not answer")
        return await direct(verb, *args, **more)

    w.store.link.call = loses  # type: ignore[method-assign]
    host = Host(w, "one", {})
    await end([host.duty])
    reply = await w.hsc.report_host(host.request(drains=True))
    assert (reply.everywhere, reply.drains) == (False, True), "what it knew holds"
    assert w.runtime.monotonic() == 0


@virtual(world())
async def test_a_pool_has_live_workers_while_its_hosts_report(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    await w.store.register_lambdas([LambdaRecord(MAIL, b"x", 5, 10 * US, paused=False, settings="pool=gpu")])

    async def unserved() -> str:
        found = await w.store.explain_task(task_id)
        assert found is not None
        return found.unserved

    assert await unserved() == "gpu"
    host = Host(w, "one", sets(["e1"]), pool="gpu")
    await asyncio.sleep(1)
    assert await unserved() == ""
    await asyncio.sleep(60)
    assert await unserved() == ""
    await end([host.duty])
    await asyncio.sleep(31)
    assert await unserved() == "gpu"


@virtual(world(partitions=2))
async def test_a_host_that_reports_is_never_silent_and_its_controller_counts_as_alive(w: World) -> None:
    host = Host(w, "one", sets(["e1"]))
    oldest = 0
    for _ in range(60):
        await asyncio.sleep(0.9)
        now_us, (found,) = await w.store.list_hosts()
        oldest = max(oldest, now_us + 30 * US - found.until_us)
        assert await w.store.live_roles() == [LiveRole("controller", "1.0", "one:7")]
    assert oldest <= 5.1 * US, "said every five seconds"
    await host.leave()
    assert await w.store.live_roles() == []


@virtual(world(partitions=2))
async def test_a_host_that_died_counts_as_silent_from_then_on(w: World) -> None:
    host = Host(w, "one", sets(["e1"]))
    await asyncio.sleep(26)  # said every five seconds
    await end([host.duty])
    await asyncio.sleep(10)
    now_us, (found,) = await w.store.list_hosts()
    assert found.until_us - now_us == pytest.approx(19 * US, abs=0.1 * US)
    await asyncio.sleep(19.1)
    assert (await w.store.list_hosts())[1] == []
    assert await w.store.live_roles() == []


@virtual(world(partitions=2))
async def test_a_host_that_the_store_has_forgotten_is_told_anew(w: World) -> None:
    host = Host(w, "one", sets(["e1"]))
    await asyncio.sleep(1)
    await w.store.link.command("ZREM", "atf:{1}:hosts", "one", key="atf:{1}")
    await asyncio.sleep(4.1)
    assert await w.store.link.command("ZSCORE", "atf:{1}:hosts", "one", key="atf:{1}") is not None
    await end([host.duty])


@virtual(world())
async def test_a_host_drains_within_seconds_where_its_notification_was_lost(w: World) -> None:
    host = Host(w, "one", sets(["e1"]))
    await asyncio.sleep(1)
    await w.store.link.command("HSET", "atf:{0}:hosts:drain", "one", "0", key="atf:{0}")  # as drain_host does
    await asyncio.sleep(1)
    assert (host.drains, host.answers) == (False, 0)
    await asyncio.sleep(3.1)
    assert (host.drains, host.answers) == (True, 1)
    await end([host.duty])


@virtual(world())
async def test_what_hosts_run_and_quarantine_holds_while_their_reports_are_open(w: World) -> None:
    starting = Host(w, "one", {})
    failing = Host(w, "two", sets(["e2"]))
    await end([starting.duty, failing.duty])
    reports = [
        w.runtime.spawn(w.hsc.report_host(each), name="report")
        for each in (
            starting.request(wait=60, executors=[h.HostExecutor(executor_id="e1")]),
            failing.request(wait=60, why_not="=", quarantined=[quarantined(MAIL, 50 * US)]),
        )
    ]
    await asyncio.sleep(45)
    one, two = (await w.store.list_hosts())[1]
    assert (one.name, two.why_not, set(two.quarantined)) == ("one", "=", {MAIL})
    assert await w.store.served() == {("", "*")}
    await end(reports)


@virtual(world(partitions=4))
async def test_reports_that_say_nothing_new_cost_the_store_little(w: World) -> None:
    direct, calls = w.store.link.call, dict[str, int]()

    async def counted(verb: str, *args: Any, **more: Any) -> Any:
        calls[verb] = calls.get(verb, 0) + 1
        return await direct(verb, *args, **more)

    w.store.link.call = counted  # type: ignore[method-assign]
    host = Host(w, "one", sets(["e1"]))
    for _ in range(100):  # as one that drains
        await asyncio.sleep(1)
        await w.hsc.report_host(host.request(wait=0))
    assert calls["serve"] == 4, "of 100 × 4"
    assert calls["renew_hosts"] <= 80
    assert calls["announce"] <= 21
    await end([host.duty])


@virtual(world())
async def test_a_report_that_breaks_a_rule_is_refused_with_the_rule(w: World) -> None:
    host = Host(w, "one", sets(["e1"]))
    await end([host.duty])
    wrong_set = h.NamedSet(digest=LambdaSet({MAIL: ""}).digest, lambdas=["shop/bill"])
    for fields, rule in (
        ({"pool": "a b"}, "pool"),
        ({"host": "a b"}, "host 'a b'"),
        ({"process": "a b"}, "process 'a b'"),
        ({"version": ""}, "version"),
        ({"executors": [h.HostExecutor(executor_id="")]}, "executor_id"),
        ({"executors": [h.HostExecutor(executor_id="e1", lambda_sets=["x"])]}, "lambda_set 'x'"),
        ({"sets": [h.NamedSet(digest=wrong_set.digest, lambdas=[MAIL], signatures=["d", "d"])]}, "2 signatures of 1"),
        ({"sets": [wrong_set]}, "the digest of these lambdas is"),
        ({"quarantined": [quarantined("mail")]}, "namespace/name"),
        ({"quarantined": [quarantined(MAIL, -1)]}, "for_us -1"),
        ({"why_not": "x" * (MAX_WHY_NOT_CHARS + 1)}, f"why_not: {MAX_WHY_NOT_CHARS + 1} characters"),
        ({"known_us": 0}, "known_us 0"),
        ({"wait_us": 61 * US}, "wait_us .*60 s"),
    ):
        with pytest.raises(InvalidArgument, match=rule):
            await w.hsc.report_host(host.request(**fields))


@virtual(world())
async def test_one_that_ends_sends_its_hosts_to_others(w: World) -> None:
    host = Host(w, "one", sets(["e1"]))
    await end([host.duty])
    report = w.runtime.spawn(w.hsc.report_host(host.request()), name="report")
    await asyncio.sleep(1)
    await w.hsc.drain()
    with pytest.raises(Unavailable, match="report to another one"):
        await report
    assert w.runtime.monotonic() == 1


@virtual(world())
async def test_reports_of_one_host_wake_in_the_order_in_which_they_came(w: World) -> None:
    """By their addresses the last word would be another one's in each run, and no seed of the simulation could be played again."""
    host = Host(w, "one", sets(["e1"]))
    await asyncio.sleep(0.1)
    await end([host.duty])
    answered: list[int] = []

    async def report(number: int) -> None:
        await w.hsc.report_host(host.request())
        answered.append(number)

    reports = [w.runtime.spawn(report(number), name="report") for number in range(20)]
    await asyncio.sleep(0.1)
    await w.store.drain_host("one", drains=True)
    await asyncio.gather(*reports)
    assert answered == list(range(20))


@virtual(world(partitions=2))
async def test_the_store_is_told_again_only_what_is_new_or_will_be_forgotten_soon(w: World) -> None:
    told, serve = list[float](), w.store.serve

    async def counted(*args: Any, **more: Any) -> Any:
        told.append(w.runtime.monotonic())
        return await serve(*args, **more)

    w.store.serve = counted  # type: ignore[method-assign]
    host = Host(w, "one", sets(["e1"]))
    await asyncio.sleep(65)
    assert host.answers == 6
    assert told == [0]
    host.change(sets(["e1", "e2"]))
    await asyncio.sleep(0.1)
    assert told[1:] == pytest.approx([65])
    await w.store.drain_host("one", drains=True)
    await asyncio.sleep(0.1)
    assert host.drains
    assert told[2:] == pytest.approx([65.1])
    await asyncio.sleep(131)
    assert told[3:] == pytest.approx([195.1], abs=10), "all of it now and then"
    await end([host.duty])
