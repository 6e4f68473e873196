"""A restart of a server that comes back with a prefix of what it had written: who is asked, what each may say, and what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.durability import Durability
from atf.errors import ClaimsPaused, FailedPrecondition, Unavailable
from atf.runtime import SystemRuntime
from atf.store import library
from atf.store.roster import LOOK_S
from atf.store.servers.modes import fake_link
from atf.store.servers.server_info import ServerInfo
from atf.store.store import Store
from atf.store.values.claims import Outcome, Verdict
from atf.task import US
from atf.testing.loop import VirtualLoop
from tests.claiming import claim_ids, take
from tests.known import know
from tests.quick_fakeredis.inside import bring_back, keep

from .world import LAMBDA, QUEUE, Clock, World


class Server:
    """One server, several processes that ask it for leases, and what it forgets.

    Attributes:
        run_id: of its process.
        memory: what it has after a restart.
    """

    def __init__(self, clock: Clock) -> None:
        self.fake = fakeredis.FakeServer(version=(7, 4))
        self.run_id, self.memory, self.clock = "one", "p", clock
        self.stores: list[Store] = []
        self._kept: Any = None

    async def process(self) -> World:
        """Another process that asks for leases."""
        link = fake_link(self.fake, lambda: (self.run_id, self.memory))
        link.run_id = lambda record: self.run_id  # type: ignore[method-assign]
        store = Store(link, StoreSettings(partitions=1), Timing(), SystemRuntime())
        store.now = self.clock
        self.stores.append(store)
        await store.link.load_library()
        await store.open_partitions(agree=True)
        await know(store, LAMBDA)
        return World(store, self.clock)

    def keep(self) -> None:
        """What is on the disk now; all behind it will be forgotten."""
        self._kept = keep(self.fake)

    def restart(self, run_id: str) -> None:
        """Another process has the same data, or what was on the disk."""
        self.run_id = run_id
        if self._kept is not None:
            bring_back(self.fake, self._kept)
            self._kept = None


@pytest.fixture
async def server(clock: Clock) -> AsyncIterator[Server]:
    made = Server(clock)
    yield made
    for each in made.stores:
        await each.close()


async def claims(world: World, *names: str) -> list[str]:
    """Claims tasks that are there for it."""
    batch = await claim_ids(world.store, "executor-1", "", [f"0-{each}" for each in names])
    return [each.task_id for each in batch.claims]


@contextlib.contextmanager
def unheard(world: World) -> Iterator[None]:
    """What its store does, it does not hear of."""
    plain = world.store.link.call

    async def call(*args: Any, **more: Any) -> Any:
        await plain(*args, **more)
        raise Unavailable("the answer was lost")

    world.store.link.call = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        world.store.link.call = plain  # type: ignore[method-assign]


async def look(world: World) -> None:
    """Its look at the roster, as where nobody asks for leases."""
    plain, looked = world.store.link.call, asyncio.Event()

    async def call(*args: Any, **more: Any) -> Any:
        reply = await plain(*args, **more)
        looked.set()
        return reply

    world.store.link.call = call  # type: ignore[method-assign]
    attending = asyncio.create_task(world.store.attend())
    await looked.wait()
    world.store.link.call = plain  # type: ignore[method-assign]
    attending.cancel()


async def pauses(world: World) -> bool:
    """Whether it is given no claims now."""
    try:
        await world.store.claims_of("executor-1", "n")
    except ClaimsPaused:
        return True
    return False


async def two_at_work(server: Server) -> tuple[World, World]:
    """Two processes, each of which was given a claim; and "c" is there to be claimed."""
    one, two = await server.process(), await server.process()
    await one.schedule("a", "b", "c")
    await one.passes()
    assert await claims(one, "a") == ["0-a"]
    assert await claims(two, "b") == ["0-b"]
    return one, two


async def test_claims_go_on_when_all_have_found_their_last_one(server: Server) -> None:
    one, two = await two_at_work(server)
    server.restart("two")
    assert await pauses(one), "the other one has not said anything yet"
    assert not await pauses(two)
    assert await claims(one, "c") == ["0-c"]


async def test_one_that_is_silent_has_it_last_its_whole_time(server: Server, clock: Clock) -> None:
    one, two = await two_at_work(server)
    server.restart("two")
    assert await pauses(one)
    clock.advance(15.9)
    assert await pauses(one)
    clock.advance(0.1)
    await one.passes()
    assert await claims(one, "c") == ["0-c"]
    server.restart("three")
    assert await pauses(two), "it is asked what it was answered before, too"


async def test_one_whose_last_claim_was_forgotten_has_it_last_its_whole_time(server: Server, clock: Clock) -> None:
    one, two = await two_at_work(server)
    server.keep()
    assert await claims(one, "c") == ["0-c"]
    server.restart("two")
    await pauses(two)
    assert await pauses(one)
    await one.passes()
    clock.advance(15.9)
    assert await pauses(one)
    assert await pauses(two)
    clock.advance(0.1)
    await one.passes()
    assert await claims(two, "c") == ["0-c"]


async def test_one_whose_last_renewal_was_forgotten_has_it_last_its_whole_time(server: Server) -> None:
    one, two = await two_at_work(server)
    (held,) = await one.run("d")
    server.keep()
    assert await one.beat(held) == [Verdict.OK]
    server.restart("two")
    await pauses(two)
    assert await pauses(one)


async def test_what_gave_and_renewed_nothing_may_be_forgotten(server: Server) -> None:
    one, two = await two_at_work(server)
    (held,) = await one.run("d")
    server.keep()
    await one.finish(Outcome.SUCCEEDED, held)
    assert await one.beat(held) == [Verdict.LOST]
    assert await claims(two, "a", "d") == []
    server.restart("two")
    await pauses(two)
    assert not await pauses(one)


async def test_a_claim_that_was_answered_to_another_process_once_more_is_that_one_s_to_find(server: Server) -> None:
    """The first answer was lost, and the call was repeated elsewhere."""
    one, two = await two_at_work(server)
    server.keep()
    with unheard(one), pytest.raises(Unavailable):
        await take(one.store, QUEUE, nonce="n")
    assert [each.task_id for each in await two.store.claims_of("executor-1", "n")] == ["0-c"]
    server.restart("two")
    await pauses(one)
    assert await pauses(two)


async def test_one_that_came_after_the_restart_has_nothing_to_say(server: Server) -> None:
    await two_at_work(server)
    server.restart("two")
    late = await server.process()
    assert await pauses(late)
    assert await pauses(await server.process())


async def test_one_that_left_in_order_is_not_asked(server: Server) -> None:
    one, two = await two_at_work(server)
    await two.store.close()
    server.restart("two")
    assert not await pauses(one)


async def test_where_the_departure_was_forgotten_it_is_asked(server: Server) -> None:
    one, two = await two_at_work(server)
    server.keep()
    await two.store.leave()
    server.restart("two")
    assert await pauses(one)


async def test_one_that_has_left_asks_for_nothing_more(server: Server) -> None:
    one, _ = await two_at_work(server)
    await one.store.leave()
    with pytest.raises(Unavailable, match="this process ends"):
        await claims(one, "c")


async def test_where_all_have_left_there_is_no_pause(server: Server) -> None:
    one, two = await two_at_work(server)
    await one.store.leave()
    await two.store.leave()
    server.restart("two")
    assert not await pauses(await server.process())


async def test_one_that_was_silent_for_long_is_struck_off(server: Server, clock: Clock) -> None:
    one, two = await two_at_work(server)
    clock.advance(library.ROSTER_SILENT_US / US + 1)
    await one.store.sweep(0, 1000)
    (held,) = await one.run("d")
    server.restart("two")
    assert not await pauses(one)
    assert await two.beat(held) == [Verdict.OK], "it lives, and is put there again"
    server.restart("three")
    assert await pauses(one)
    assert not await pauses(two)


async def test_one_that_has_nothing_to_say_is_not_struck_off(server: Server, clock: Clock) -> None:
    _, two = await two_at_work(server)

    async def listed() -> set[bytes]:
        return set(await two.store.link.command("HKEYS", "atf:{0}:roster"))

    before = await listed()
    assert len(before) == 2
    for _ in range(10):
        clock.advance(library.ROSTER_SPEAKS_US / US + 1)
        await look(two)
        await two.store.sweep(0, 1000)
    left = await listed()
    assert len(left) == 1, "only the silent one"
    assert left < before


async def test_a_second_restart_within_the_pause_needs_answers_to_both(server: Server, clock: Clock) -> None:
    one, two = await two_at_work(server)
    server.keep()
    await claims(one, "c")
    server.restart("two")
    await pauses(one)
    await pauses(two)
    clock.advance(8)
    server.restart("three")
    for each in (one, two, one):
        assert await pauses(each)
    clock.advance(15.9)
    await one.passes()
    assert await pauses(two), "what was forgotten first may have been renewed until then"
    clock.advance(0.1)
    await one.passes()
    assert not await pauses(two)


async def test_a_second_restart_after_all_have_answered_is_answered_too(server: Server) -> None:
    one, two = await two_at_work(server)
    server.restart("two")
    await pauses(one)
    await pauses(two)
    server.restart("three")
    await pauses(one)
    assert not await pauses(two)


async def test_answers_that_were_forgotten_with_their_names_are_no_answers(server: Server) -> None:
    """What was given under the new names is forgotten, too."""
    one, two = await two_at_work(server)
    server.keep()
    server.restart("two")
    server.keep()
    await pauses(one)
    await pauses(two)
    assert await claims(one, "c") == ["0-c"]
    server.restart("three")
    await pauses(one)
    assert await pauses(two)


@pytest.mark.parametrize(("before", "after"), [("0", "p"), ("p", "0"), ("1", "0"), ("0", "1")])
async def test_answers_end_no_pause_where_a_server_may_have_no_prefix(server: Server, before: str, after: str) -> None:
    server.memory = before
    one, two = await two_at_work(server)
    server.memory = after
    server.restart("two")
    await pauses(one)
    assert await pauses(two)


@pytest.mark.parametrize(("before", "after"), [("1", "p"), ("p", "1")])
async def test_a_server_that_forgets_nothing_has_a_prefix_too(server: Server, before: str, after: str) -> None:
    server.memory = before
    one, two = await two_at_work(server)
    server.memory = after
    server.restart("two")
    await pauses(one)
    assert not await pauses(two)


async def test_a_server_whose_settings_are_worse_now_has_no_prefix_any_more(server: Server) -> None:
    one, two = await two_at_work(server)
    server.memory = "0"
    await pauses(one)
    server.memory = "p"
    server.restart("two")
    await pauses(one)
    assert await pauses(two)


async def test_answers_end_no_pause_that_somebody_asked_for(server: Server) -> None:
    """As where tasks are imported: this store knows nothing of their claims."""
    one, two = await two_at_work(server)
    server.restart("two")
    await pauses(one)
    await one.store.pause_claims()
    assert await pauses(two)
    server.restart("three")
    await pauses(one)
    assert await pauses(two)


async def test_a_pause_that_was_asked_for_is_safe_before_it_counts(server: Server) -> None:
    demands = []
    one = await server.process()
    one.store.link.proves = True

    async def call(verb: str, *_args: Any, demand: Durability = Durability.RELAXED, **_more: Any) -> Any:
        demands.append((verb, demand))
        if demand is Durability.DISK and len(demands) > 1:
            raise FailedPrecondition("it has no disk")
        return b"7"

    one.store.link.call = call  # type: ignore[method-assign]
    assert await one.store.pause_claims() == 7
    assert await one.store.pause_claims() == 7
    disk, none = ("pause_claims", Durability.DISK), ("pause_claims", Durability.RELAXED)
    assert demands == [disk, disk, none]


async def test_an_answer_of_the_server_before_is_not_taken_once_its_number_was_said(server: Server) -> None:
    one, two = await two_at_work(server)
    plain, sent, arrives = one.store.link.call, asyncio.Event(), asyncio.Event()

    async def late(verb: str, *args: Any, **more: Any) -> Any:
        reply = await plain(verb, *args, **more)
        if verb == "next_claims":
            sent.set()
            await arrives.wait()
        return reply

    server.keep()
    one.store.link.call = late  # type: ignore[method-assign]
    claim = asyncio.create_task(claims(one, "c"))
    await sent.wait()
    one.store.link.call = plain  # type: ignore[method-assign]
    server.restart("two")
    await pauses(one)
    assert not await pauses(two)
    assert await claims(two, "c") == ["0-c"]
    arrives.set()
    with pytest.raises(Unavailable, match="restarted while the call was under way"):
        await claim


async def test_nobody_is_answered_a_lease_before_its_name_is_safe(server: Server) -> None:
    one, _ = await two_at_work(server)
    three = await server.process()
    plain, asked = three.store.link.call, []

    async def unproven(verb: str, *args: Any, demand: Durability = Durability.RELAXED, **more: Any) -> Any:
        asked.append((verb, demand))
        if demand is Durability.DISK and len(asked) < 4:
            raise Unavailable("durability disk: it did not hear from the disk")
        return await plain(verb, *args, **more)

    three.store.link.call = unproven  # type: ignore[method-assign]
    three.store.link.proves = True
    with pytest.raises(Unavailable, match="did not hear from the disk"):
        await claims(three, "c")
    assert await claims(three, "c") == ["0-c"]
    once = [("enlist", Durability.RELAXED), ("enlist", Durability.DISK)]
    assert asked == [*once, *once, ("next_claims", Durability.RELAXED)]
    names = await one.store.link.command("HLEN", "atf:{0}:roster")
    assert names == 3, "the name that was tried again is the same"


async def test_after_a_restart_a_name_need_not_be_proven(server: Server) -> None:
    """Where it is forgotten, the one before is asked again, and nobody speaks for that one any more."""
    one, two = await two_at_work(server)
    demands: list[Durability] = []
    plain = one.store.link.call

    async def call(verb: str, *args: Any, demand: Durability = Durability.RELAXED, **more: Any) -> Any:
        demands.append(demand)
        return await plain(verb, *args, **more)

    one.store.link.call = call  # type: ignore[method-assign]
    one.store.link.proves = True
    server.restart("two")
    server.keep()
    await pauses(one)
    assert set(demands) == {Durability.RELAXED}
    await pauses(two)
    assert await claims(one, "c") == ["0-c"]
    server.restart("three")
    await pauses(one)
    assert await pauses(two)


async def test_a_call_that_is_given_up_does_not_break_off_the_proof(server: Server) -> None:
    one, _ = await two_at_work(server)
    three = await server.process()
    plain, goes_on, tries = three.store.link.call, asyncio.Event(), 0

    async def slow(verb: str, *args: Any, demand: Durability = Durability.RELAXED, **more: Any) -> Any:
        nonlocal tries
        if demand is Durability.DISK:
            tries += 1
            await goes_on.wait()
        return await plain(verb, *args, **more)

    three.store.link.call = slow  # type: ignore[method-assign]
    three.store.link.proves = True
    first = asyncio.create_task(claims(three, "c"))
    while not tries:
        await asyncio.sleep(0)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    second = asyncio.create_task(claims(three, "c"))
    await asyncio.sleep(0)
    goes_on.set()
    assert await second == ["0-c"]
    assert tries == 1
    del one


def test_one_that_has_no_calls_answers_all_the_same(clock: Clock) -> None:
    async def story() -> None:
        server = Server(clock)
        one, two = await two_at_work(server)
        attending = asyncio.create_task(two.store.attend())
        await asyncio.sleep(2 * LOOK_S)
        server.restart("two")
        await pauses(one)
        await asyncio.sleep(1.5 * LOOK_S)
        assert not await pauses(one)
        attending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await attending
        for each in server.stores:
            await each.close()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("changed", "alone", "memory"),
    [
        ({}, True, "p"),
        ({"synced": True}, True, "1"),
        ({"synced": True}, False, "1"),
        ({}, False, "0"),
        ({"logged": False}, True, "0"),
        ({"flushed": False}, True, "0"),
        ({"promoted": True}, True, "0"),
        ({"synced": True, "promoted": True}, True, "0"),
    ],
)
def test_what_a_server_has_after_a_restart(changed: dict[str, bool], alone: bool, memory: str) -> None:
    facts: dict[str, Any] = {"run_id": "r", "synced": False, "logged": True, "flushed": True}
    facts |= {"promoted": False, "master": True, "replicas": 0}
    assert ServerInfo(**{**facts, **changed}).memory(alone=alone) == memory
