"""Lambdas in every partition: what the registry partition writes is added to its outbox for the others, delivered at least once, applied once."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.store import library
from atf.store.store import Store
from atf.store.values.claims import Verdict
from atf.store.values.lambdas import GateAction, LambdaRecord, NewGate
from atf.store.values.passes import OutboxRecord
from atf.task import US
from tests.known import know

from .conftest import OpenStore
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, LEASE_US, Clock, World, dump, to


def record(
    spec: bytes = b"spec \x00\xff", queue_limit: int = 7, paused: bool = False, name: str = LAMBDA, settings: str = ""
) -> LambdaRecord:
    return LambdaRecord(name, spec, queue_limit, ENQUEUE_TIMEOUT_US, paused, settings)


async def in_partition(world: World, partition: int) -> dict[str, str]:
    """The lambda's record there; what its code says is known to the registry partition alone, and what was asked to who asked."""
    stored = (await dump(world.store)).hash(f"atf:{{{partition}}}:l:{LAMBDA}")
    return {name: value for name, value in stored.items() if name not in {"code", "set", "asked"}}


async def forget(store: Store, prefix: str = "") -> None:
    """Deletes every key, or those that begin so."""
    for key in (await dump(store)).data:
        if key.startswith(prefix):
            await store.link.command("DEL", key, key=key)


async def lose_everything(world: World) -> None:
    await forget(world.store)
    for partition in range(world.store.partitions):
        await world.store.open_partition(partition)


def break_delivery(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the writer die between its write and the delivery."""

    direct = store.link.call

    async def call(verb: str, *args: Any, **more: Any) -> Any:
        if verb == "apply_outbox":
            raise Unavailable("gone")
        return await direct(verb, *args, **more)

    monkeypatch.setattr(store.link, "call", call)


async def test_a_lambda_is_written_in_every_partition(world: World) -> None:
    assert await world.store.register_lambdas([record()]) == 1
    assert await world.store.list_lambdas() == {LAMBDA: record()}
    registry, other = await in_partition(world, 0), await in_partition(world, 1)
    assert {name: value for name, value in other.items() if name != "paused"} == registry
    assert other["paused"] == "0"  # it is told that there are no gates: one of before may be on its way to it
    assert (base64.b64decode(registry["spec"]), registry["limit"], registry["timeout"]) == (
        b"spec \x00\xff",
        "7",
        "10000000",
    )
    found = await dump(world.store)
    assert not any("outbox" in key for key in found.data)


async def test_lambdas_are_read_again_where_one_has_changed_and_only_there(world: World) -> None:
    store, seen = world.store, await world.store.list_lambdas()

    async def changed() -> Mapping[str, LambdaRecord]:
        nonlocal seen
        before, seen = seen, await store.list_lambdas()
        assert seen is not before
        assert await store.list_lambdas() is seen
        return seen

    await store.register_lambdas([record()])
    assert await changed() == {LAMBDA: record()}
    await store.register_lambdas([record()])
    assert await store.list_lambdas() is seen
    await store.set_lambda(LAMBDA, to("limit=3"))
    assert (await changed())[LAMBDA].queue_limit == 3
    await store.pause_lambda(LAMBDA)
    assert (await changed())[LAMBDA].paused
    await store.resume_lambda(LAMBDA)
    assert not (await changed())[LAMBDA].paused
    await store.set_gate(NewGate(LAMBDA, GateAction.PAUSE, {}, for_us=US))
    assert (await changed())[LAMBDA].paused
    world.clock.advance(1.1)
    await store.enqueue(0, 0)
    assert not (await changed())[LAMBDA].paused, "it has ended by itself"
    await store.delete_lambda(LAMBDA)
    assert await changed() == {}


async def test_lambdas_are_read_again_behind_another_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have forgotten a change, and have given its version to another one."""
    await world.store.register_lambdas([record()])
    seen = await world.store.list_lambdas()
    await world.store.link.command("HSET", f"atf:{{0}}:l:{LAMBDA}", "spec", b"b3RoZXI=", key=f"atf:{{0}}:l:{LAMBDA}")
    assert await world.store.list_lambdas() is seen
    monkeypatch.setattr(type(world.store.link), "run_id", lambda *_: "another")
    assert (await world.store.list_lambdas())[LAMBDA].spec == b"other"


async def test_registering_the_same_again_changes_nothing(world: World) -> None:
    await world.store.register_lambdas([record()])
    await world.store.enqueue(0, 0)  # the due index still named the outbox
    before = await dump(world.store)
    assert await world.store.register_lambdas([record(), record()]) == 0
    assert (await dump(world.store)).data == before.data


async def test_a_change_reaches_every_partition_and_pause_is_left_alone(world: World) -> None:
    await world.store.register_lambdas([record()])
    assert await world.store.pause_lambda(LAMBDA)
    assert await world.store.register_lambdas([record(spec=b"new", queue_limit=9)]) == 1
    assert await world.store.list_lambdas() == {
        LAMBDA: record(spec=b"new", queue_limit=9, paused=True)._replace(gated=True)
    }
    assert (await in_partition(world, 1))["limit"] == "9"
    assert (await in_partition(world, 1))["paused"] == "1"
    assert await world.store.resume_lambda(LAMBDA)
    assert (await in_partition(world, 1))["paused"] == "0"


async def test_an_unknown_lambda_is_not_paused(world: World) -> None:
    assert not await world.store.pause_lambda("no/body")
    assert await world.store.list_lambdas() == {}


async def test_a_pass_hands_out_what_a_writer_that_died_owed(
    open_store: OpenStore, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await open_store()
    break_delivery(writer, monkeypatch)
    with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
        await writer.register_lambdas([record()])
    before = await in_partition(world, 1)
    assert before["limit"] != "7"
    passed = await world.store.enqueue(0, 0)
    assert [(each.partition, each.target) for each in passed.outbox] == [(0, 1)]
    await world.store.apply_outbox(passed.outbox[0])
    assert (await in_partition(world, 1))["limit"] == "7"
    assert (await world.store.enqueue(0, 0)).outbox == []


async def test_an_undelivered_record_is_handed_out_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_delivery(world.store, patch)
        with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
            await world.store.register_lambdas([record()])
    (owed,) = (await world.store.enqueue(0, 0)).outbox
    again = await world.store.enqueue(0, 0)  # whoever got it may still be at it
    assert (again.outbox, again.next_in_us) == ([], library.OUTBOX_RETRY_US)
    world.clock.advance(library.OUTBOX_RETRY_US / US)
    assert (await world.store.enqueue(0, 0)).outbox == [owed]
    for _ in range(2):
        await world.store.apply_outbox(owed)  # twice does no harm
    assert (await in_partition(world, 1))["limit"] == "7"
    world.clock.advance(library.OUTBOX_RETRY_US / US)
    passed = await world.store.enqueue(0, 0)
    assert (passed.outbox, passed.next_in_us) == ([], None)


async def test_an_old_change_after_a_newer_one_is_ignored(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_delivery(world.store, patch)
        for limit in (1, 2):
            with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
                await world.store.register_lambdas([record(queue_limit=limit)])
        for paused in (True, False):
            with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
                await (world.store.pause_lambda if paused else world.store.resume_lambda)(LAMBDA)
    owed = (await world.store.enqueue(0, 0)).outbox
    assert len(owed) == 4
    for each in reversed(owed):
        await world.store.apply_outbox(each)
    found = await in_partition(world, 1)
    assert (found["limit"], found["paused"]) == ("2", "0")
    assert found == await in_partition(world, 0)


async def test_a_pause_that_was_on_its_way_when_the_store_lost_everything_does_not_stand(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.store.register_lambdas([record()])
    with monkeypatch.context() as patch:
        break_delivery(world.store, patch)
        with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
            await world.store.pause_lambda(LAMBDA)
    (late,) = (await world.store.enqueue(0, 0)).outbox
    await lose_everything(world)
    world.clock.advance(20)
    await world.store.register_lambdas([record()])
    await world.store.apply_outbox(late)
    assert (await in_partition(world, 0)).get("paused") is None
    assert (await in_partition(world, 1))["paused"] == "0"


async def one_from_before(world: World, monkeypatch: pytest.MonkeyPatch, paused: bool) -> OutboxRecord:
    """A pause, or its end, that is on its way when a store loses everything whose clock was set back shortly before."""
    await world.store.register_lambdas([record()])
    if not paused:
        await world.store.pause_lambda(LAMBDA)
    with monkeypatch.context() as patch:
        break_delivery(world.store, patch)
        with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
            await (world.store.pause_lambda if paused else world.store.resume_lambda)(LAMBDA)
    (late,) = (await world.store.enqueue(0, 0)).outbox
    world.clock.advance(-44)
    await lose_everything(world)
    return late


async def test_a_pause_of_before_the_clock_was_set_back_stands_until_somebody_resumes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = await one_from_before(world, monkeypatch, paused=True)
    await world.store.register_lambdas([record()])
    await world.store.apply_outbox(late)
    assert (await in_partition(world, 1))["paused"] == "1"  # it has the newer version
    assert (
        await world.store.resume_lambda(LAMBDA) == 0
    )  # the registry partition has forgotten the pause, and says so to all
    await world.deliver()
    assert (await in_partition(world, 1))["paused"] == "0"


async def test_an_end_of_a_pause_of_before_the_clock_was_set_back_stands_until_somebody_pauses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = await one_from_before(world, monkeypatch, paused=False)
    await world.store.register_lambdas([record()])
    await world.store.pause_lambda(LAMBDA)
    await world.store.apply_outbox(late)
    assert (await in_partition(world, 1))["paused"] == "0"
    assert await world.store.pause_lambda(LAMBDA)  # it has been, in the registry partition
    await world.deliver()
    assert [(await in_partition(world, each))["paused"] for each in range(2)] == ["1", "1"]


@pytest.mark.parametrize("paused", [True, False])
async def test_what_a_partition_heard_before_the_clock_was_set_back_ends_with_the_next_word_of_home(
    world: World, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    await world.store.apply_outbox(await one_from_before(world, monkeypatch, paused))
    await world.store.register_lambdas([record()])
    if not paused:
        await world.store.pause_lambda(LAMBDA)
    await world.deliver()
    assert (await in_partition(world, 1))["paused"] == str(int(not paused))
    await world.store.register_lambdas([record(queue_limit=9)])
    assert (await in_partition(world, 1))["limit"] == "9"


async def test_settings_of_before_the_clock_was_set_back_end_with_the_next_word_of_home(world: World) -> None:
    await world.store.register_lambdas([record(), record(name="shop/other")])
    world.clock.advance(-44)
    for key in (await dump(world.store)).data:
        if key.startswith("atf:{0}"):
            await world.store.link.command("DEL", key, key=key)
    await world.store.open_partition(0)
    await world.store.register_lambdas([record(queue_limit=9)])
    assert (await in_partition(world, 1))["limit"] == "7"
    await world.deliver()
    assert (await in_partition(world, 1))["limit"] == "9"


async def test_who_repeats_what_is_so_already_makes_no_pile_while_a_partition_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.store.register_lambdas([record()])
    with monkeypatch.context() as patch:
        break_delivery(world.store, patch)
        for number in range(200):
            with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
                await (world.store.pause_lambda if number > 100 else world.store.resume_lambda)(LAMBDA)
    assert len((await dump(world.store)).hash("atf:{0}:outbox")) == 65  # the first pause is news
    await world.deliver()
    assert (await in_partition(world, 1))["paused"] == "1"


async def test_a_partition_that_hears_of_changes_in_another_order_is_not_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.store.register_lambdas([record()])
    with monkeypatch.context() as patch:
        break_delivery(world.store, patch)
        for paused in (True, False, True):
            with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
                await (world.store.pause_lambda if paused else world.store.resume_lambda)(LAMBDA)
    first, second, third = (await world.store.enqueue(0, 0)).outbox
    await world.store.apply_outbox(third)
    known = await in_partition(world, 1)
    await world.store.apply_outbox(second)
    await world.store.apply_outbox(first)
    (asked,) = (await world.store.enqueue(1, 0)).outbox  # once, not for each
    await world.store.apply_outbox(asked)
    await world.deliver()
    assert await in_partition(world, 1) == known


async def test_nothing_is_pushed_of_a_lambda_that_is_not_known(world: World) -> None:
    """Its limits would not hold: they are not known either."""
    name = "shop/new"
    await world.store.schedule([world.task(f"t{number}", lambda_name=name) for number in range(5)])
    assert await world.passes() == (0, 0, 0)
    found = await world.store.explain_task("0-t0")
    assert found is not None
    assert found.unknown
    await world.check()
    await world.store.register_lambdas([record(name=name, settings="running=2")])
    for _ in range(3):
        await world.deliver()
        for partition in range(2):
            await world.passes(partition)
    assert len(await world.queued(f"{name}:1")) == 2
    found = await world.store.explain_task("0-t4")
    assert found is not None
    assert not found.unknown
    await world.check()


async def test_a_lease_ends_where_its_lambda_is_not_known_any_more(world: World) -> None:
    (claim,) = await world.run("a")
    key = f"atf:{{0}}:l:{LAMBDA}"
    await world.store.link.command("DEL", key, key=key)
    world.clock.advance(LEASE_US / US)
    assert await world.passes() == (0, 0, 1)
    assert await world.beat(claim) == [Verdict.LOST]
    await world.store.register_lambdas([record()])
    assert await world.passes() == (0, 1, 0)


async def test_a_queue_whose_lambda_is_not_known_is_looked_at_again_by_itself(world: World) -> None:
    """What it asks may be answered by a server that fails over, and forgets what it was to tell."""
    await world.store.schedule([world.task("a", lambda_name="shop/new")])
    assert (await world.store.enqueue(0, 0)).next_in_us == library.UNKNOWN_REVISIT_US
    await know(world.store, "shop/new")
    assert await world.passes() == (0, 0, 0)
    world.clock.advance(library.UNKNOWN_REVISIT_US / US)
    assert await world.passes() == (1, 0, 0)


@pytest.mark.parametrize("emptied", ["all", "this lambda"])
async def test_a_partition_that_was_emptied_asks_what_holds_of_its_lambdas(world: World, emptied: str) -> None:
    await world.store.register_lambdas([record(settings="running=1"), record(name="shop/other")])
    await world.store.pause_lambda(LAMBDA)
    for key in (await dump(world.store)).data:
        if key.startswith("atf:{1}" if emptied == "all" else f"atf:{{1}}:l:{LAMBDA}"):
            await world.store.link.command("DEL", key, key=key)
    await world.store.open_partition(1)
    await world.schedule("a", partition=1)
    assert (await world.store.enqueue(1, 0)).outbox == []
    await world.schedule("b", partition=1)  # that has it looked at again
    (asked,) = (await world.store.enqueue(1, 0)).outbox
    assert asked.target == 0
    await world.store.apply_outbox(asked)
    (told,) = (each for each in (await world.store.enqueue(0, 0)).outbox if f'"{LAMBDA}"'.encode() in each.body)
    await world.store.apply_outbox(told)
    known = await in_partition(world, 1)
    assert (known["limit"], known["paused"]) == ("7", "1")
    assert known["settings"] == "running=1"
    assert await world.passes(1) == (0, 0, 0)
    assert ("limit" in (await dump(world.store)).hash("atf:{1}:l:shop/other")) == (emptied != "all")
    await world.deliver()
    assert "limit" in (await dump(world.store)).hash("atf:{1}:l:shop/other")


async def test_the_next_writer_delivers_what_is_owed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_delivery(world.store, patch)
        with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
            await world.store.register_lambdas([record()])
    assert await world.store.register_lambdas([record()]) == 0  # called again, since it seemed to have failed
    assert (await in_partition(world, 1))["limit"] == "7"


async def test_many_lambdas_over_many_partitions(open_store: OpenStore, clock: Clock) -> None:
    store = await open_store(partitions=16)
    world = World(store, clock)
    names = [f"shop/n{number:03}" for number in range(18)]
    assert (
        await store.register_lambdas(
            [LambdaRecord(name, name.encode(), 5, ENQUEUE_TIMEOUT_US, paused=False) for name in names]
        )
        == 18
    )
    assert sorted(await store.list_lambdas()) == names
    await world.passes()  # what one writer does not deliver at once, the passes do
    found = await dump(store)
    specs = {
        found.hash(f"atf:{{{partition}}}:l:{name}").get("spec") == base64.b64encode(name.encode()).decode()
        for partition in range(16)
        for name in names
    }
    assert specs == {True}


async def test_what_an_operator_sets_goes_before_what_the_code_says(world: World) -> None:
    await world.store.register_lambdas([record()._replace(settings="burst=9 rate=5")])
    assert (await in_partition(world, 1))["settings"] == "burst=9 rate=5"
    assert await world.store.set_lambda(LAMBDA, to("limit=3 rate=7.5"))
    for partition in range(2):
        stored = await in_partition(world, partition)
        assert (stored["limit"], stored["timeout"], stored["settings"]) == ("3", "10000000", "burst=9 rate=7.5")
    await world.store.register_lambdas([record(spec=b"new", queue_limit=8)._replace(settings="running=1")])
    (found,) = (await world.store.list_lambdas()).values()
    assert found == LambdaRecord(
        LAMBDA, b"new", 3, ENQUEUE_TIMEOUT_US, paused=False, settings="running=1", overrides="limit=3 rate=7.5"
    )
    assert (await in_partition(world, 1))["settings"] == "rate=7.5 running=1"


async def test_nothing_set_is_as_the_code_says(world: World) -> None:
    await world.store.register_lambdas([record()])
    before = await in_partition(world, 0), await in_partition(world, 1)
    await world.store.set_lambda(LAMBDA, to("limit=3 rate=7"))
    await world.store.set_lambda(LAMBDA, to(""))
    after = await in_partition(world, 0), await in_partition(world, 1)
    assert [each | {"rv": ""} for each in after] == [each | {"rv": ""} for each in before]


async def test_nobody_overrides_a_lambda_that_is_not_there(world: World) -> None:
    assert not await world.store.set_lambda("shop/none", to("limit=3"))


async def test_a_lambda_that_is_registered_anew_meanwhile_is_overridden_as_it_is_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.store.register_lambdas([record()])
    stale = await world.store.list_lambdas()
    await world.store.register_lambdas([record(spec=b"new")])
    read, answers = world.store.list_lambdas, [stale]

    async def lambdas() -> Mapping[str, LambdaRecord]:
        return answers.pop() if answers else await read()

    monkeypatch.setattr(world.store, "list_lambdas", lambdas)
    assert await world.store.set_lambda(LAMBDA, to("limit=3"))
    for partition in range(2):
        stored = await in_partition(world, partition)
        assert (stored["spec"], stored["limit"]) == ("bmV3", "3")


async def test_a_raised_limit_is_looked_at_at_once(world: World) -> None:
    await world.store.register_lambdas([record(queue_limit=1)])
    await world.schedule("a", "b")
    assert await world.passes() == (1, 0, 0)
    await world.store.set_lambda(LAMBDA, to("limit=2"))
    assert await world.passes() == (1, 0, 0)
