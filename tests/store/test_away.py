"""A partition that is away, as on a cluster whose master is gone: what becomes of calls that concern others too. And how a
server that may have forgotten claims is noticed, whoever meets it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.durability import Durability
from atf.errors import ClaimsPaused, ConfigError, FailedPrecondition, Unavailable
from atf.runtime import SystemRuntime
from atf.store import keys
from atf.store.calls import by_partition
from atf.store.servers.modes import fake_link
from atf.store.store import Store
from atf.store.values.claims import ClaimRenewal, Outcome, RunResult, Verdict
from atf.store.values.lambdas import GateAction, LambdaRecord, NewGate
from atf.store.values.tasks import Scheduled
from tests.claiming import take
from tests.known import know
from tests.store_calls import open_behind

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, Clock, World, held, to


class Server:
    """A fake server: which process it says to be, and whether that forgets nothing."""

    def __init__(self) -> None:
        self.fake = fakeredis.FakeServer(version=(7, 4))
        self.run_id, self.durable = "one", "1"

    async def open(self, partitions: int, clock: Clock) -> Store:
        store = await open_behind(
            self.fake,
            lambda: (self.run_id, self.durable),
            StoreSettings(partitions=partitions),
            Timing(),
            SystemRuntime(),
        )
        store.now = clock
        return store

    def watched_by(self, store: Store) -> None:
        """The store sees with its next call that another process is there, as it does of a real one."""
        store.link.run_id = lambda record: self.run_id  # type: ignore[method-assign]

    async def restarts(self, store: Store, clock: Clock, run_id: str, durable: str) -> bool:
        """As another process; answers whether claims pause. The pause is over afterwards."""
        self.run_id, self.durable = run_id, durable
        try:
            await store.claims_of("e", "n")
        except ClaimsPaused:
            clock.advance(17)
            for partition in range(store.partitions):
                await store.enqueue(partition, 0)  # a store consumer sees it go by
            return True
        return False


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def store(server: Server, clock: Clock) -> Any:
    made = await server.open(2, clock)
    await know(made, LAMBDA)
    made.link.parted = True
    yield made
    await made.close()


async def has_record(store: Store) -> list[bool]:
    """Of each partition, whether some role has opened it."""
    return [bool(await store.link.client.exists(keys.record(partition))) for partition in range(store.partitions)]


def take_away(store: Store, *partitions: int) -> Callable[[], None]:
    """Calls of these partitions fail until the answer is called."""
    direct = store.link.call

    async def call(verb: str, record: str, *args: Any, **more: Any) -> Any:
        if record in {f"atf:{{{each}}}" for each in partitions}:
            raise Unavailable(f"{record} is away")
        return await direct(verb, record, *args, **more)

    store.link.call = call  # type: ignore[method-assign, assignment]

    def back() -> None:
        store.link.call = direct  # type: ignore[method-assign]

    return back


async def test_tasks_of_the_others_are_stored_and_each_has_its_own_answer(store: Store, clock: Clock) -> None:
    world = World(store, clock)
    take_away(store, 1)
    here, away = await store.schedule_each([world.task("a", partition=0), world.task("b", partition=1)])
    assert isinstance(here, Scheduled)
    assert isinstance(away, Unavailable)
    with pytest.raises(Unavailable):
        await store.schedule([world.task("c", partition=0), world.task("d", partition=1)])
    assert (await store.get_tasks(["0-c"]))[0] is not None


async def test_what_is_held_of_the_others_is_renewed_and_recorded(store: Store, clock: Clock) -> None:
    world = World(store, clock)
    await store.schedule([world.task("a", partition=0), world.task("b", partition=1)])
    for partition in range(2):
        await store.enqueue(partition, 0)
    claims = held(await world.claim("0-a", "1-b"))
    back = take_away(store, 1)
    assert await store.heartbeat([ClaimRenewal(each, started=True) for each in claims]) == [Verdict.OK, Verdict.UNKNOWN]
    results = [RunResult(each, Outcome.SUCCEEDED) for each in claims]
    assert await store.set_results(results) == [Verdict.OK, Verdict.UNKNOWN]
    with pytest.raises(Unavailable):
        await store.heartbeat([ClaimRenewal(claims[1], started=True)])
    back()
    assert await store.set_results(results) == [Verdict.OK, Verdict.OK]


async def test_tasks_of_the_others_are_claimed(store: Store, clock: Clock) -> None:
    world = World(store, clock)
    await store.schedule([world.task("a", partition=0), world.task("b", partition=1)])
    for partition in range(2):
        await store.enqueue(partition, 0)
    take_away(store, 1)
    claims = await take(store, QUEUE, nonce="n")
    assert [each.task_id for each in claims] == ["0-a"]
    with pytest.raises(Unavailable):
        await take(store, QUEUE, nonce="n", partition=1)
    assert held(await store.claims_of("executor-1", "n")) == held(claims)


async def test_nobody_can_say_what_a_drop_has_dropped_where_a_partition_is_away(store: Store) -> None:
    await store.register_lambdas([LambdaRecord(LAMBDA, b"", 5, 5, paused=False)])
    await store.set_gate(NewGate(LAMBDA, GateAction.DROP, {}))
    take_away(store, 1)
    said = await store.dropped(LAMBDA, {}, [GateAction.DROP])
    assert said == "tasks dropped: unknown, as a partition was away"
    assert await store.lift_gate(LAMBDA, {}, [GateAction.DROP]) == 1


async def test_a_change_for_all_reaches_the_others_and_is_owed_to_the_one(store: Store) -> None:
    back = take_away(store, 1)
    await store.register_lambdas([LambdaRecord(LAMBDA, b"", 6, 1_000_000, paused=False)])
    assert LAMBDA in await store.list_lambdas()
    back()
    (owed,) = (await store.enqueue(0, 0)).outbox
    assert owed.target == 1


async def test_a_host_is_known_at_the_others_while_one_does_not_answer(store: Store) -> None:
    direct, hangs, heard = store.link.call, asyncio.Event(), []

    async def call(verb: str, record: str, *args: Any, **more: Any) -> Any:
        if record == "atf:{0}":
            await hangs.wait()
            raise Unavailable(f"{record} does not answer")
        heard.append(record)
        return await direct(verb, record, *args, **more)

    store.link.call = call  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(store.serve("", 30, "one", lambdas=[LAMBDA]))
    async with asyncio.timeout(5):
        while not heard:
            await asyncio.sleep(0)
    hangs.set()
    assert await serving == (None, False)
    store.link.call = direct  # type: ignore[method-assign]
    assert await store.serve("", 30, "one", lambdas=[LAMBDA]) == (False, True)


@pytest.mark.usefixtures("clock")
async def test_a_role_starts_while_a_partition_is_away_and_opens_it_later() -> None:
    fake = fakeredis.FakeServer(version=(7, 4))
    store = Store(fake_link(fake), StoreSettings(partitions=2), Timing(), SystemRuntime())
    store.link.parted = True
    await store.link.load_library()
    back = take_away(store, 1)
    await store.open_partitions(agree=True)
    assert await has_record(store) == [True, False]
    back()
    await store.enqueue(1, 0)
    assert await has_record(store) == [True, True]
    await store.close()


async def test_a_role_does_not_start_while_every_partition_is_away() -> None:
    store = Store(
        fake_link(fakeredis.FakeServer(version=(7, 4))), StoreSettings(partitions=2), Timing(), SystemRuntime()
    )
    store.link.parted = True
    take_away(store, 0, 1)
    with pytest.raises(Unavailable):
        await store.open_partitions(agree=True)
    await store.close()


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("fails", ["open_partition", "pause_claims"])
async def test_what_opening_a_partition_again_failed_to_do_is_done_before_the_next_call(
    server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch, partitions: int, fails: str
) -> None:
    store = await server.open(partitions, clock)
    server.watched_by(store)
    await store.open_partitions(agree=True)
    direct, called, failing = store.link.call, [], {fails}

    async def call(verb: str, *args: Any, **more: Any) -> Any:
        called.append(verb)
        if verb in failing:
            raise Unavailable("away")
        return await direct(verb, *args, **more)

    monkeypatch.setattr(store.link, "call", call)
    await store.link.client.flushall()
    await store.link.load_library()
    server.run_id = "two"  # and this one does not have the record of before any more
    clock.advance(1)
    with contextlib.suppress(Unavailable):
        await store.enqueue(0, 0)
    failing.clear()
    called.clear()
    await store.enqueue(0, 0)
    assert called == ["open_partition", "pause_claims", "enqueue"]
    called.clear()
    await store.enqueue(0, 0)
    assert called == ["enqueue"]
    await store.close()


async def test_items_of_one_call_are_of_one_kind_and_stay_in_order() -> None:
    calls: list[list[str]] = []

    async def call(_: int, some: list[str]) -> list[str]:
        calls.append(some)
        return some

    items = ["a1", "a2", "b1", "a3"]
    assert await by_partition(items, lambda _: 0, call, kind=lambda each: each[0]) == items
    assert calls == [["a1", "a2"], ["b1"], ["a3"]]


# --- durability -------------------------------------------------------------------------------------------------------


async def test_a_store_in_memory_is_no_more_than_relaxed(store: Store, clock: Clock) -> None:
    world = World(store, clock)
    (met,) = await store.schedule([world.task("a")])
    assert met.durability is Durability.RELAXED
    for demand in (Durability.DISK, Durability.REPLICATED):
        with pytest.raises(FailedPrecondition, match="nothing was stored"):
            await store.schedule([world.task("b")._replace(durability=demand)])
    assert await store.get_tasks(["0-b"]) == [None]


def test_a_class_that_does_not_exist_is_a_setting_that_breaks_a_rule() -> None:
    with pytest.raises(ConfigError, match="relaxed, disk or replicated"):
        StoreSettings(durability="always")


# --- servers ----------------------------------------------------------------------------------------------------------


async def test_claims_pause_unless_neither_life_of_the_server_forgets_anything(
    server: Server, store: Store, clock: Clock
) -> None:
    server.watched_by(store)
    await store.claims_of("e", "n")
    restarts = partial(server.restarts, store, clock)
    assert not await restarts("two", "1")
    assert await restarts("three", "0")
    assert await restarts("four", "1"), "the life before was at everysec, and may have forgotten at its end"
    assert not await restarts("five", "1")
    assert not await restarts("five", "0")  # its settings were changed
    assert await restarts("six", "1")


async def test_a_server_that_was_there_for_a_while_is_noted_by_any_call(
    server: Server, store: Store, clock: Clock
) -> None:
    server.watched_by(store)
    server.durable = "0"
    await store.enqueue(0, 0)
    clock.advance(17)
    await store.enqueue(0, 0)
    await store.claims_of("e", "n")
    server.run_id = "two"
    await store.counts(LAMBDA)
    server.run_id = "one"
    with pytest.raises(ClaimsPaused):
        await store.claims_of("e", "n")


def lambda_key(partition: int) -> str:
    return f"atf:{{{partition}}}:l:{LAMBDA}"


async def told_again(world: World, server: Server) -> list[bytes]:
    """The server comes back and has forgotten something; what partition 1 knows of the lambda then, which is what the registry partition says."""
    server.watched_by(world.store)
    await server.restarts(world.store, world.clock, "two", "0")
    for partition in (0, 1):
        await world.passes(partition)
    await world.deliver()
    registry, other = [await world.store.link.client.hgetall(lambda_key(each)) for each in (0, 1)]
    for known in (registry, other):
        known.setdefault(b"paused", b"0")
    fields = (b"spec", b"limit", b"paused", b"gates")
    assert [other.get(each) for each in fields] == [registry.get(each) for each in fields]
    return [base64.b64decode(other[b"spec"]), *(other[each] for each in fields[1:] if each in other)]


async def test_a_partition_that_forgot_what_it_was_told_of_a_lambda_is_told_again(
    server: Server, store: Store, clock: Clock
) -> None:
    world, client = World(store, clock), store.link.client
    server.watched_by(store)
    names = [LAMBDA, *(f"shop/more{number}" for number in range(70))]
    await store.register_lambdas(
        [LambdaRecord(each, bytes(range(256)), 5, ENQUEUE_TIMEOUT_US, paused=False) for each in names]
    )
    await world.deliver()
    before = await client.hgetall(lambda_key(1))
    await world.gate("pause")
    await store.set_lambda(LAMBDA, to("limit=7"))
    await world.deliver()
    await client.delete(lambda_key(1))
    await client.hset(lambda_key(1), mapping=before)
    assert (await told_again(world, server))[:3] == [bytes(range(256)), b"7", b"1"]


async def test_what_the_registry_partition_said_of_a_lambda_and_has_forgotten_holds_no_more(
    server: Server, store: Store, clock: Clock
) -> None:
    """A pause that nobody sees could not be lifted."""
    world, client = World(store, clock), store.link.client
    server.watched_by(store)
    await store.register_lambdas([LambdaRecord(LAMBDA, b"spec", 5, ENQUEUE_TIMEOUT_US, paused=False)])
    await world.deliver()
    record, before = await client.hgetall("atf:{0}"), await client.hgetall(lambda_key(0))
    await world.gate("pause")
    await store.set_lambda(LAMBDA, to("limit=7"))
    await world.deliver()
    for key, known in (("atf:{0}", record), (lambda_key(0), before)):
        await client.delete(key)
        await client.hset(key, mapping=known)
    clock.advance(1)
    assert await told_again(world, server) == [b"spec", b"5", b"0"]


async def test_nothing_leaves_its_queue_while_claims_are_paused(server: Server, store: Store, clock: Clock) -> None:
    world = World(store, clock)
    server.watched_by(store)
    await world.schedule("a")
    await world.passes()
    server.run_id, server.durable = "two", "0"
    with pytest.raises(ClaimsPaused):
        await store.claims_of("e", "n")
    with pytest.raises(ClaimsPaused):
        await take(store, f"{LAMBDA}:1")
    assert await world.queued() == ["0-a"]
    clock.advance(17)
    await world.passes()
    assert [each.task_id for each in await take(store, f"{LAMBDA}:1")] == ["0-a"]
