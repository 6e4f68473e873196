"""The line MOVES of each function's header, held against the table of moves and against what the function really does.

Every test of this folder fails, on fakeredis, where a function makes a move that its header does not name (watched.py). Here each move
that a header names is made, from each state that the header names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.errors import Internal
from atf.runtime import SystemRuntime
from atf.store import keys, library
from atf.store.store import Store
from atf.store.values.batches import ItemTerms, NewItem
from atf.store.values.claims import HeldClaim, Outcome, Taker
from atf.store.values.jobs import ReplaceJob
from atf.task import MOVES, Status
from tests.claiming import claim_ids
from tests.known import know
from tools.move_headers import OWN, PUSHED, at_once, moves_of

from .test_concurrency import CANCEL_RUNNING, add
from .test_moves import JOB, SIGNATURE, WALKED, Call, cast, lease_ends, met, of_a_job, paused
from .versions import in_place
from .watched import watched
from .world import LAMBDA, Clock, World, held, labelled

ITEMS = "shop/items"
Pair = tuple[Status | None, Status]
"""The status of a task before and after a call; None is no record."""
Made = tuple[str, str, Status | None]
"""A function, a move, and the state from which it made it."""


class Case(NamedTuple):
    """A move from a state by a call, and what the task must be made with for it."""

    move: str
    source: Status | None
    call: Call
    options: dict[str, Any] = {}  # noqa: RUF012  never written to


async def _deleted(world: World, _: list[HeldClaim]) -> None:
    await world.store.delete_jobs([JOB])


async def _replaced(world: World, _: list[HeldClaim]) -> None:
    await world.store.schedule_jobs([world.job(JOB, replace=ReplaceJob.ANEW)])


async def _stopped(world: World, claims: list[HeldClaim]) -> None:
    await world.store.cancel_tasks([each.task_id for each in claims])
    await lease_ends(world, claims)


async def _never_started(world: World, claims: list[HeldClaim]) -> None:
    """The leases of two runs before this one had ended, too, before the run said that it had started."""
    await world.store.link.client.hset("atf:{0}:t:0-a", "y", "0 2")
    await lease_ends(world, claims)


async def _displaced(world: World, _: list[HeldClaim]) -> None:
    """A later task of its concurrency key is due."""
    await add(world, "later", policy=CANCEL_RUNNING)
    await world.store.enqueue(0, 0)


async def _asked(world: World, claims: list[HeldClaim], signatures: Mapping[str, str] = MappingProxyType({})) -> None:
    await claim_ids(world.store, "executor-2", "asked", [each.task_id for each in claims], signatures=signatures)


async def _asked_past_a_gate(world: World, claims: list[HeldClaim], action: str) -> None:
    await world.gate(action)
    await _asked(world, claims)


async def _asked_again(world: World, claims: list[HeldClaim]) -> None:
    await world.store.hand_back(claims)
    await _asked(world, claims)
    await world.store.claims_of("executor-2", "asked")
    await world.store.next_claims(0, [], [Taker("executor-2", "asked", 1)], want=1)


async def _given_up(world: World, claims: list[HeldClaim]) -> None:
    """The newest claim is an ask's, which is given up."""
    await world.store.link.client.set("atf:{0}:ask:" + claims[0].nonce, claims[0].task_id)
    await world.store.give_up_asks([claims[0].nonce])


async def _stopped_and_given_up(world: World, claims: list[HeldClaim]) -> None:
    await world.store.cancel_tasks([each.task_id for each in claims])
    await _given_up(world, claims)


def _of_asks() -> Iterator[Case]:
    """The ways of test_moves.py by which a claim begins or is handed back, by asks."""
    unfit = partial(_asked, signatures={LAMBDA: SIGNATURE})
    yield Case("claim", Status.ENQUEUED, _asked)
    yield Case("park", Status.ENQUEUED, partial(_asked_past_a_gate, action="delay"))
    yield Case("drop", Status.ENQUEUED, partial(_asked_past_a_gate, action="drop"))
    yield Case("leave to others", Status.ENQUEUED, met(unfit))
    yield Case("heartbeat", Status.CLAIMED, _asked_again)
    yield Case("hand back", Status.CLAIMED, _given_up)
    yield Case("stop", Status.CLAIMED, _stopped_and_given_up)
    yield Case("hold back", Status.CLAIMED, of_a_job(paused, _given_up))


def cases() -> Iterator[Case]:
    """The ways of test_moves.py, and those to make the same moves by other functions."""
    for way, _, source in WALKED:
        yield Case(way.move, source, way.call, way.options)
    waiting, held_ = (Status.NEW, Status.ENQUEUED, Status.RETRIABLE_FAILURE), (Status.CLAIMED, Status.PROCESSING)
    keyed = {"concurrency": keys.concurrency(LAMBDA, "anna", 1, CANCEL_RUNNING)}
    for ended in (_deleted, _replaced):
        yield from (Case("cancel", source, of_a_job(ended)) for source in waiting)
        yield from (Case("run for the last time", source, of_a_job(ended)) for source in held_)
    yield Case("drop", Status.ENQUEUED, _displaced, keyed)
    yield Case("lose", Status.CLAIMED, _never_started)
    yield Case("lose for good", Status.CLAIMED, _never_started, {"max_losses": 1})
    for source in held_:
        yield Case("stop", source, _stopped)
        yield Case("hold back", source, of_a_job(paused, lease_ends), {"max_losses": 9})
        yield Case("cancel a running task", source, _displaced, keyed)
    yield from _of_asks()


async def _batch(world: World, name: str, numbers: range) -> list[str]:
    """Stores items in both partitions, so that one is told of the batch by the other; answers their ids."""
    await know(world.store, ITEMS)
    await world.store.open_batch(name, b"d", b"spec", ITEMS, 0)
    items = [NewItem(number, f"{number:032x}", b"spec") for number in numbers]
    for partition in range(2):
        mine = [each for each in items if each.number % 2 == partition]
        await world.store.schedule_items(partition, name, ItemTerms(ITEMS, 1), mine)
    return [f"{each.number % 2}-{name}.{each.number:032x}" for each in items]


async def _batch_cancelled(world: World) -> None:
    """Of each state that an item may be in there are two, one in each partition."""
    ids = await _batch(world, "cancelled", range(8))
    for partition in range(2):
        await world.passes(partition)
    claims = sorted(held(await world.claim(*ids[:6])), key=lambda each: ids.index(each.task_id))
    await world.fail(*claims[:2])
    await world.beat(*claims[2:4])
    await _batch(world, "cancelled", range(8, 10))
    await world.deliver()
    await world.store.cancel_batch("cancelled")
    await world.deliver()


async def _batch_retried(world: World) -> None:
    ids = await _batch(world, "retried", range(2))
    await world.store.close_batch("retried", 2)
    await world.deliver()
    for partition in range(2):
        await world.passes(partition)
    await world.finish(Outcome.FAILED_FATAL, *held(await world.claim(*ids)))
    await world.deliver()
    await world.store.retry_batch("retried")
    await world.deliver()


async def _stored(world: World) -> None:
    await world.schedule("a")


async def _failed(world: World) -> None:
    (claim,) = await world.run("a")
    await world.finish(Outcome.FAILED, claim, error="it rained", retry_in_us=0)


def _stored_behind(action: str) -> Callable[[World], Awaitable[None]]:
    async def scene(world: World) -> None:
        await world.gate(action, team="web")
        await world.schedule("a", labels=labelled(team="web"))

    return scene


def _failed_behind(action: str) -> Callable[[World], Awaitable[None]]:
    async def scene(world: World) -> None:
        (claim,) = await world.run("a", labels=labelled(team="web"))
        await world.gate(action, team="web")
        await world.finish(Outcome.FAILED, claim, error="it rained", retry_in_us=0)

    return scene


def _displaced_at_once(started: bool | None) -> Callable[[World], Awaitable[None]]:
    """A later task of its concurrency key is stored. `started`: none has claimed the task before."""

    async def scene(world: World) -> None:
        await add(world, "a", policy=CANCEL_RUNNING)
        if started is not None:
            claims = held(await world.claim(*await world.pop()))
            await world.beat(*claims, started=started)
        await add(world, "later", policy=CANCEL_RUNNING)

    return scene


AT_ONCE: dict[tuple[str, Status], Callable[[World], Awaitable[None]]] = {
    ("enqueue", Status.NEW): _stored,
    ("enqueue", Status.RETRIABLE_FAILURE): _failed,
    ("gate", Status.NEW): _stored_behind("pause"),
    ("gate", Status.RETRIABLE_FAILURE): _failed_behind("pause"),
    ("drop", Status.NEW): _stored_behind("drop"),
    ("drop", Status.RETRIABLE_FAILURE): _failed_behind("drop"),
    ("drop", Status.ENQUEUED): _displaced_at_once(None),
    ("cancel a running task", Status.CLAIMED): _displaced_at_once(False),
    ("cancel a running task", Status.PROCESSING): _displaced_at_once(True),
}
"""The moves of lua/shared/pushing.lua, and calls of which the last one makes each: mostly of a task that it has just brought into that state."""

SCENES: list[Callable[[World], Awaitable[object]]] = [World.jobs, World.stops, _batch_cancelled, _batch_retried]


class Ear:
    """Hears which functions are called, and what moves each makes."""

    def __init__(self, fake: Any) -> None:
        client: Any = fakeredis.FakeRedis(server=fake)
        self._channel = client.pubsub(ignore_subscribe_messages=True)
        self._channel.subscribe("moves")
        self._channel.get_message()

    def heard(self) -> Iterator[tuple[str, list[Pair]]]:
        """The calls since it was asked last."""
        while message := self._channel.get_message():
            verb, *moved = message["data"].decode().split()
            pairs = [each.split(">") for each in moved]
            yield verb, [(Status[source] if source else None, Status[target]) for source, target in pairs]


@asynccontextmanager
async def opened(*, pushes: bool = False) -> AsyncIterator[tuple[World, Ear]]:
    """A world of its own."""
    fake, clock = fakeredis.FakeServer(version=(7, 4)), Clock()
    settings = StoreSettings(partitions=2, push_when_scheduled=pushes)
    store = await Store.open(settings, Timing(), SystemRuntime(), fake=fake)
    store.now = clock
    await know(store, LAMBDA)
    yield World(store, clock), Ear(fake)
    await store.close()


def made_by(calls: Iterator[tuple[str, list[Pair]]], move: str, start: Status | None) -> set[Made]:
    """What calls made: the move that they were called for, and each that no other row of the function's can have been.

    What leaves a task's status alone is not heard of, so the function is believed that names it.
    """
    made = set()
    for verb, pairs in calls:
        for row in OWN.get(verb, []):
            if row.name == move and start in row.sources and row.target in {None, start}:
                made.add((verb, move, start))
        for source, target in pairs:
            rows = [each for each in OWN.get(verb, []) if source in each.sources and (each.target or source) is target]
            made |= {(verb, each.name, source) for each in rows if each.name == move or len(rows) == 1}
    return made


async def test_each_move_that_a_header_names_is_made() -> None:
    made: set[Made] = set()
    with in_place(watched(library.CURRENT, tells=True)):
        for case in cases():
            async with opened() as (world, ear):
                claims: list[HeldClaim] = []
                if case.move == "enqueue" and case.source is Status.NEW:
                    await world.schedule("a")
                else:
                    claims = (await cast(world, case.source.name if case.source else "", ["a"], **case.options)).last
                list(ear.heard())
                world.clock.advance(1)
                await case.call(world, claims)
                mine = made_by(ear.heard(), case.move, case.source)
                assert case.move in {move for _, move, _ in mine}, f"no header of what was called names {case[:2]}"
                made |= mine
        for scene in SCENES:
            async with opened() as (world, ear):
                await scene(world)
                made |= made_by(ear.heard(), "", None)
    named = {(verb, move.name, source) for verb, moves in OWN.items() for move in moves for source in move.sources}
    assert named - made == set()


async def test_each_move_by_which_a_call_pushes_is_made() -> None:
    assert {(move.name, source) for move in PUSHED for source in move.sources} == AT_ONCE.keys()
    with in_place(watched(library.CURRENT, tells=True)):
        for (name, source), scene in AT_ONCE.items():
            async with opened(pushes=True) as (world, ear):
                await scene(world)
                (*_, (verb, pairs)) = ear.heard()
                made = {(then.name, first.target) for pair in pairs for first, then in at_once(verb, *pair)}
                made |= {(each.name, start) for start, end in pairs for each in PUSHED if (each.target or start) is end}
                assert (name, source) in made
                parked = await world.store.link.client.hexists("atf:{0}:t:0-a", "g")
                assert bool(parked) == (name == "gate")


async def test_a_move_that_no_header_names_fails() -> None:
    rogue = "register('rogue', {}, function(keys) redis.call('HSET', task_key(keys[1], '0-a'), 's', 'SUCCESS') return 1 end)\n"
    with in_place(watched(library.CURRENT, rogue)):
        async with opened() as (world, _):
            await world.schedule("a")
            with pytest.raises(Internal, match="the header of rogue names no move NEW>SUCCESS"):
                await world.store.link.call("rogue", keys.record(0), [])


def test_each_row_is_named_by_a_function_from_each_of_its_states() -> None:
    named = {(move.name, source) for moves in OWN.values() for move in moves for source in move.sources}
    assert named == {(move.name, source) for move in MOVES for source in move.sources}


@pytest.mark.parametrize(
    "line",
    [
        "swallow: NEW -> ENQUEUED",
        "claim: NEW -> CLAIMED",
        "claim: ENQUEUED -> PROCESSING",
        "claim: ENQUEUED",
        "heartbeat: CLAIMED -> CLAIMED",
        "claim ENQUEUED -> CLAIMED",
    ],
)
def test_a_header_says_nothing_that_the_table_does_not(line: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        moves_of(f"-- verb: does\n-- MOVES    {line}\n-- KEYS[1]  the record\n")


def test_a_line_may_go_on_and_leave_states_out() -> None:
    text = "-- verb: does\n-- MOVES    start: CLAIMED -> PROCESSING;\n--          lapse, lose: CLAIMED -> ENQUEUED\n-- KEYS[1]  k\n"
    assert [(each.name, each.sources) for each in moves_of(text)] == [
        (name, (Status.CLAIMED,)) for name in ("start", "lapse", "lose")
    ]
