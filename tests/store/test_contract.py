"""The contract of the store's functions: the same calls give the same answers and leave the same data on every server.

A story of every verb, and a long one by chance, are told to fakeredis and to the server under test, and compared word by word.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.durability import Durability
from atf.errors import Internal
from atf.runtime import SystemRuntime
from atf.store import keys, library
from atf.store.store import Store
from atf.store.values.claims import ClaimRenewal, HeldClaim, KeptRunLog, Outcome, RunResult, Taker
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.lists import TaskQuery
from atf.store.values.tasks import RestoredTask
from atf.task import US, Status
from tests.claiming import PLENTY, number_nonces_anew
from tests.known import know

from . import slow_log
from .conftest import OpenStore
from .largest import (
    full_batches,
    full_gates,
    full_items,
    full_jobs,
    full_limits,
    full_misfits,
    full_reads,
    full_spread,
    many_queues,
)
from .test_keys import HEADERS
from .test_registry import forget
from .test_upgrade import whole_life
from .versions import CURRENT, in_place
from .watched import watched
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, Clock, World, dump, held, to

pytestmark = pytest.mark.sweep(1)  # real servers are what it is about

VERBS: Final = set(library.verbs())
EXCEPTIONS: Final = {
    "created": "a field of the partition's record: when it was opened, by the server's own TIME",
    "server": "a field of the partition's record: the server's process; fakeredis is none, and is called 'fake'",
    "durable": "a field of the partition's record: whether a restart forgets; fakeredis never restarts",
}
"""What may differ between servers, with the reason."""
STEPS: Final = 300
LOGS: Final = (None, KeptRunLog(1, 1, "short", 0), KeptRunLog(2, 1, "long\n" * 2_000, 7))


class Transcript:
    """Everything that a store answers, in an order that does not depend on how a server keeps hashes and sets.

    Attributes:
        calls: how often each verb was called.
    """

    def __init__(self, store: Store) -> None:
        self.lines: list[tuple[str, Any]] = []
        self.calls: Counter[str] = Counter()
        self._store = store
        self._one = asyncio.Lock()  # calls on two partitions at once would be heard in any order
        self._attempt = store.link.attempt
        store.link.attempt = self._heard  # type: ignore[method-assign]

    async def _heard(self, verb: str, *args: Any, **options: Any) -> Any:
        async with self._one:
            self.calls[verb] += 1
            reply = await self._attempt(verb, *args, **options)
            if verb != "enlist":  # how often it is asked depends on what the server remembers, see EXCEPTIONS
                self.lines.append((verb, _sorted(verb, reply)))
        return reply

    async def end(self) -> None:
        """Puts all that is left in the store behind it."""
        found = await dump(self._store)
        for key, (kind, value) in sorted(found.data.items()):
            kept = {name: value[name] for name in value if name not in EXCEPTIONS} if kind == "hash" else value
            self.lines.append((key, (kind, kept)))


def _sorted(verb: str, reply: Any) -> Any:
    match verb:
        case "get_tasks":
            return [[each[0], sorted(zip(each[1::2], each[2::2], strict=True))] for each in reply]
        case "list_lambdas":
            return [*reply[:1], *sorted(reply[1:])]
        case "open_partition":
            return reply[:3]  # and when it was made, see EXCEPTIONS
    return reply


def one_by_one() -> SystemRuntime:
    """A runtime by which every store takes the same names on the roster."""
    runtime = SystemRuntime()
    runtime.random = random.Random(1)
    return runtime


@contextlib.asynccontextmanager
async def reference(clock: Clock) -> AsyncIterator[Store]:
    """A store on fakeredis, with the library as it ships."""
    with in_place(CURRENT):
        fake = fakeredis.FakeServer(version=(7, 4))
        store = await Store.open(
            StoreSettings(partitions=2, push_when_scheduled=False), Timing(), one_by_one(), fake=fake
        )
    store.now = clock
    await know(store, LAMBDA)
    yield store
    await store.close()


async def _nothing() -> None:
    """Looks at nothing."""


async def every_verb(store: Store, clock: Clock) -> Transcript:
    """What operators and upgrades call, and then a whole life of tasks."""
    number_nonces_anew()
    told = Transcript(store)
    await store.open_partition(0)
    await store.retime(20 * US)
    await store.retime(16 * US)
    await store.allow_direct(True)
    await store.set_token("t", b"{}")
    await store.set_token("t", b"[]", b"other")
    await store.list_tokens()
    await store.list_tokens(keys=False)
    await store.pause_claims()
    await store.claim_pauses()
    await store.link.call("barrier", keys.record(0), [clock()])
    clock.advance(20)
    world = World(store, clock)
    await whole_life(world)
    await world.jobs()
    await world.firsts()
    await world.gates()
    await world.asks()
    await world.batches()
    await world.stops()
    await world.misfits(_nothing)
    await world.windows()
    await world.cores()
    await world.permits()
    await store.set_lambda(LAMBDA, to("limit=7 running=6"))
    await store.link.call("resync_lambdas", keys.record(0), [clock(), store.partitions, ""])
    await store.set_lambda(LAMBDA, to("pool=gpu"))
    await store.set_lambda(LAMBDA, to(""))
    await told.end()
    return told


async def by_chance(store: Store, clock: Clock, seed: int) -> Transcript:
    """Any verb with arguments that fit or do not, most of them about the same few tasks."""
    told = Transcript(store)
    world, chance = World(store, clock), random.Random(seed)
    names = [f"t{number}" for number in range(12)]
    tokens: list[HeldClaim] = [HeldClaim("0-t0", 1, "nobody's")]
    await store.register_lambdas(
        [LambdaRecord(LAMBDA, b"x", 5, ENQUEUE_TIMEOUT_US, paused=False, settings="running=5")]
    )
    await store.set_lambda(LAMBDA, to("limit=5 running=6"))

    def some() -> list[str]:
        return [f"{chance.randrange(2)}-{name}" for name in chance.sample(names, chance.randrange(1, 5))]

    def mine() -> list[HeldClaim]:
        return [chance.choice(tokens[-8:]) for _ in range(chance.randrange(1, 4))]

    async def step(number: int) -> None:
        match chance.randrange(16):
            case 0 | 1:
                options: dict[str, Any] = {
                    "partition": chance.randrange(2),
                    "ordering_key": chance.choice(["", "", "k"]),
                    "unique": chance.choice(["", "", f"{LAMBDA}:u {US} 0", f"{LAMBDA}:v {US} 1"]),
                    "concurrency": chance.choice(
                        ["", "", *(f"{LAMBDA}:c {1 + number % 2} {number}" for number in range(3))]
                    ),
                }
                delay_us = chance.choice([0, 0, US, 30 * US])
                await store.schedule(
                    [world.task(name, delay_us=delay_us, **options) for name in chance.sample(names, 3)]
                )
            case 2 | 3:
                await store.enqueue(chance.randrange(2), chance.choice([0, clock() - US]))
            case 4 | 5 | 6:
                partition = chance.randrange(2)
                nonces = [f"ask-{chance.randrange(number + 1)}" for _ in range(2)]
                takers = [Taker("executor-1", nonce, chance.randrange(1, 3)) for nonce in dict.fromkeys(nonces)]
                taken = await store.next_claims(
                    partition, [[QUEUE]], takers, want=3, max_bytes=chance.choice([PLENTY, 300, 10])
                )
                tokens.extend(each for claims in taken.claims.values() for each in held(claims))
                await store.claims_of("executor-1", nonces[0])
                await store.filled_queues(partition)
                if chance.random() < 0.3:
                    await store.give_up_asks(nonces[:1])
            case 7:
                await store.heartbeat(
                    [ClaimRenewal(each, chance.random() < 0.7, "", chance.choice(LOGS)) for each in mine()]
                )
            case 8 | 9:
                ends = [(each, chance.choice(list(Outcome))) for each in mine()]
                await store.set_results(
                    [RunResult(each, how, retry_in_us=5 * US, log=chance.choice(LOGS)) for each, how in ends]
                )
            case 10:
                await store.report_loss(mine(), "killed", shared=chance.random() < 0.5)
            case 11:
                await store.hand_back(mine())
            case 12:
                await (store.cancel_tasks if chance.random() < 0.5 else store.retry_tasks)(some())
            case 13:
                await store.get_tasks(some())
                await store.watch_tasks(some())
                await store.get_log(some()[0])
                await store.watch_log(some()[0], 10)
                await store.explain_task(some()[0])
                await store.counts(LAMBDA)
                statuses = chance.choice([(), (Status.NEW,), (Status.SUCCESS, Status.RETRIABLE_FAILURE)])
                labels, oldest_first = chance.choice(["", "a=b"]), chance.random() < 0.5
                query = TaskQuery(chance.choice(["", LAMBDA]), "", statuses, labels=labels, oldest_first=oldest_first)
                await store.list_tasks(query, 3, (await store.list_tasks(query, 3)).next, count=True)
            case 14:
                await (store.pause_lambda if chance.random() < 0.4 else store.resume_lambda)(LAMBDA)
                old = RestoredTask(
                    chance.choice(names), LAMBDA, 1, b"s", b"d", clock(), 0, "2 2 9000000", "", 1, 0, 1, 7, ""
                )
                await store.restore([old])
            case 15:
                await store.sweep(chance.randrange(2), 1000)
                clock.advance(chance.choice([0.5, 3, 17, -1, 100_000]))

    for number in range(STEPS):
        await step(number)
        clock.advance(0.01)
    await told.end()
    return told


def differences(one: Transcript, other: Transcript) -> list[tuple[Any, Any]]:
    """The first lines that are not the same."""
    pairs = zip(one.lines, other.lines, strict=False)
    unlike = [(mine, its) for mine, its in pairs if mine != its]
    return unlike[:3] if unlike or len(one.lines) == len(other.lines) else [(len(one.lines), len(other.lines))]


async def test_every_function_answers_as_on_every_other_server(open_store: OpenStore, clock: Clock) -> None:
    """A new function that the story does not call fails here."""
    async with reference(clock) as fake:
        expected = await every_verb(fake, clock)
    clock.us = Clock().us
    found = await every_verb(await open_store(runtime=one_by_one()), clock)
    assert set(found.calls) == VERBS, "a function that has no case here"
    assert differences(found, expected) == []


@pytest.mark.parametrize("seed", range(2))
async def test_any_calls_are_answered_as_on_every_other_server(open_store: OpenStore, clock: Clock, seed: int) -> None:
    async with reference(clock) as fake:
        expected = await by_chance(fake, clock, seed)
    clock.us = Clock().us
    found = await by_chance(await open_store(runtime=one_by_one()), clock, seed)
    assert differences(found, expected) == []


@dataclass(frozen=True)
class Call:
    """What a function was called with."""

    verb: str
    record: str
    args: tuple[Any, ...]
    server: bool


async def calls_of_every_verb(store: Store, clock: Clock) -> list[Call]:
    """A whole life, as the store's functions were told it."""
    calls: list[Call] = []
    attempt = store.link.attempt

    async def note(verb: str, record: str, args: Sequence[Any], server: bool, demand: Durability) -> Any:
        calls.append(Call(verb, record, tuple(args), server))
        return await attempt(verb, record, args, server, demand)

    store.link.attempt = note  # type: ignore[method-assign]
    await every_verb(store, clock)
    store.link.attempt = attempt  # type: ignore[method-assign]
    return calls


@pytest.mark.parametrize("opened", [False, True])
async def test_a_call_to_a_store_that_has_lost_everything_breaks_no_function(
    open_store: OpenStore, clock: Clock, opened: bool
) -> None:
    """A server may come back with nothing while calls of before are on their way to it, before or after a role has opened it again."""
    store = await open_store()
    for call in dict.fromkeys(await calls_of_every_verb(store, clock)):
        await forget(store)
        if opened:
            await store.open_partition(0)
            await store.open_partition(1)
        await store.link.call(call.verb, call.record, call.args, server=call.server)


@pytest.mark.parametrize("seed", range(6))
async def test_calls_of_which_some_never_came_break_no_function(open_store: OpenStore, clock: Clock, seed: int) -> None:
    """Each server of a store may have lost its last second, or everything, while the others remember."""
    store, chance = await open_store(), random.Random(seed)
    calls = await calls_of_every_verb(store, clock)
    await forget(store)
    lost = chance.choice([0.0, 0.05, 0.2, 0.5])
    for call in calls:
        if chance.random() < 0.01:
            await forget(store, chance.choice(["atf:{0}", "atf:{1}"]))
        if chance.random() >= lost:
            await store.link.call(call.verb, call.record, call.args, server=call.server)


async def test_a_whole_life_touches_no_undeclared_key(open_store: OpenStore, clock: Clock) -> None:
    """On fakeredis all tests are watched so; here real servers are, too."""
    with in_place(watched(CURRENT)):
        store = await open_store()
    await every_verb(store, clock)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("redis.call('HGET', 'atf:{1}', 'x')", "undeclared key atf:{1}"),
        ("redis.pcall('DEL', keys[1] .. ':t:x', 'atf:1')", "undeclared key atf:1"),
        ("redis.call('SPUBLISH', 'channel', 'x')", "undeclared key channel"),
        ("redis.call('GETDEL', keys[1])", "unwatched command GETDEL"),
    ],
)
async def test_an_undeclared_key_is_found(open_store: OpenStore, call: str, said: str) -> None:
    rogue = f"register('rogue', {{}}, function(keys, args) return {call} end)\n"
    with in_place(watched(CURRENT, rogue)):
        store = await open_store()
    with pytest.raises(Internal, match=said):
        await store.link.call("rogue", keys.record(0), [""])


# --- the largest calls ------------------------------------------------------------------------------------------------


def _growing(verb: str) -> bool:
    """Whether its calls, or their answers, grow with what they are about."""
    asked, _, answered = re.sub(r"\s*\n--\s*", " ", HEADERS[verb]).partition(" RETURNS ")
    answer = answered.partition(" -- ")[0]
    return bool(re.search(r"\bthen (per|the|their|names)\b", asked) or re.search(r"\.\.\.|\b(per|names)\b", answer))


GROWING: Final = {verb for verb in VERBS if _growing(verb) or "gate" in verb}
"""The verbs that take the longer the more they are about; what is asked of a lambda's gates depends on how many it has."""
FEW: Final = {"acknowledge_outbox"}
"""Of those, the one that is about a few: what one pass has to deliver."""


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_calls_of_the_largest_size(open_store: OpenStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long they take is noted in the servers' slow logs, and judged by `make contract`. fakeredis keeps none, and takes long."""
    world = World(await open_store(store_timeout=30), clock)
    call, called = world.store.link.call, set[str]()

    async def noted(verb: str, *args: Any, **more: Any) -> Any:
        called.add(verb)
        return await call(verb, *args, **more)

    monkeypatch.setattr(world.store.link, "call", noted)
    real, times = not world.store.link.in_process, 5 if slow_log.FOLDER else 1
    for batch in range(times):
        await full_batches(world, batch)
        for full in (full_limits, full_items, full_jobs, full_gates, full_misfits) if real else ():
            await full(world, batch)
    await many_queues(world)
    if real:
        await full_reads(world, times)
        for batch in range(times):
            await full_spread(world, batch)
    await world.check()
    assert not real or called >= GROWING - FEW
