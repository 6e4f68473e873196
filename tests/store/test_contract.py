"""The contract of the store's functions: the same calls give the same answers and leave the same data on every server.

A story of every verb, and a long one by chance, are told to fakeredis and to the server under test, and compared word by word.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any, Final

import fakeredis
import pytest

import atf.store
from atf.config import StoreSettings, Timing
from atf.errors import Internal
from atf.runtime import SystemRuntime
from atf.store import keys, library
from atf.store.store import Store
from atf.store.types import (
    Beat,
    FirstTime,
    Held,
    ItemTerms,
    LambdaRecord,
    NewItem,
    NewJob,
    Outcome,
    RestoredTask,
    RunResult,
    Tick,
)
from atf.store.windows import Window
from atf.task import MAX_BATCH, US, Status
from tests.known import know

from . import slow_log
from .conftest import OpenStore
from .test_keys import HEADERS
from .test_upgrade import whole_life
from .versions import CURRENT, in_place
from .watched import watched
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, PLENTY, QUEUE, Clock, World, dump, held, to

VERBS: Final = {
    entry.name[:-4]
    for entry in (files(atf.store) / "lua").iterdir()
    if entry.name.endswith(".lua") and entry.name not in library.SHARED
}
EXCEPTIONS: Final = {
    "created": "a field of the partition's record: when it was opened, by the server's own TIME",
    "server": "a field of the partition's record: the server's process; fakeredis is none, and is called 'fake'",
    "durable": "a field of the partition's record: whether a restart forgets; fakeredis never restarts",
}
"""What may differ between servers, with the reason."""
STEPS: Final = 300


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
        self._attempt = store._link.attempt
        store._link.attempt = self._heard  # type: ignore[method-assign]

    async def _heard(self, verb: str, *args: Any, **options: Any) -> Any:
        async with self._one:
            self.calls[verb] += 1
            reply = await self._attempt(verb, *args, **options)
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
        case "get":
            return [[each[0], sorted(zip(each[1::2], each[2::2], strict=True))] for each in reply]
        case "lambdas":
            return sorted(reply)
        case "open":
            return reply[:3]  # and when it was made, see EXCEPTIONS
    return reply


@contextlib.asynccontextmanager
async def reference(clock: Clock) -> AsyncIterator[Store]:
    """A store on fakeredis, with the library as it ships."""
    with in_place(CURRENT):
        fake = fakeredis.FakeServer(version=(7, 4))
        store = await Store.open(StoreSettings(partitions=2), Timing(), SystemRuntime(), fake=fake)
    store.now = clock
    await know(store, LAMBDA)
    yield store
    await store.close()


async def every_verb(store: Store, clock: Clock) -> Transcript:
    """What operators and upgrades call, and then a whole life of tasks."""
    told = Transcript(store)
    await store._open_partition(0)
    await store.retime(20 * US)
    await store.retime(16 * US)
    await store.settle()
    await store._link.call("barrier", keys.record(0), [clock()])
    clock.advance(20)
    world = World(store, clock)
    await whole_life(world)
    await world.jobs()
    await world.firsts()
    await world.gates()
    await world.batches()
    await world.stops()
    await world.windows()
    await world.cores()
    await world.permits()
    await store.override(LAMBDA, to("limit=7 running=6"))
    await store._link.call("retell", keys.record(0), [clock(), 0, store.partitions, ""])
    await store.override(LAMBDA, to("pool=gpu"))
    await store.override(LAMBDA, to(""))
    await told.end()
    return told


async def by_chance(store: Store, clock: Clock, seed: int) -> Transcript:
    """Any verb with arguments that fit or do not, most of them about the same few tasks."""
    told = Transcript(store)
    world, chance = World(store, clock), random.Random(seed)
    names = [f"t{number}" for number in range(12)]
    tokens: list[Held] = [Held("0-t0", 1, "nobody's")]
    await store.register([LambdaRecord(LAMBDA, b"x", 5, ENQUEUE_TIMEOUT_US, paused=False, settings="running=5")])
    await store.override(LAMBDA, to("limit=5 running=6"))

    def some() -> list[str]:
        return [f"{chance.randrange(2)}-{name}" for name in chance.sample(names, chance.randrange(1, 5))]

    def mine() -> list[Held]:
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
                popped = await store.pop(partition, [[QUEUE]], chance.randrange(1, 4))
                ids = [task_id for _, found in popped for task_id in found] + some()[:1]
                batch = await store.claim("executor-1", f"nonce-{number}", ids, chance.choice([PLENTY, 300, 10]))
                tokens.extend(held(batch.claims))
            case 7:
                await store.heartbeat("executor-1", [Beat(each, chance.random() < 0.7, "") for each in mine()])
            case 8 | 9:
                ends = [(each, chance.choice(list(Outcome))) for each in mine()]
                await store.finish("executor-1", [RunResult(each, how, retry_in_us=5 * US) for each, how in ends])
            case 10:
                await store.lose("executor-1", mine(), "killed", shared=chance.random() < 0.5)
            case 11:
                await store.hand_back("executor-1", mine(), some())
            case 12:
                await (store.cancel if chance.random() < 0.5 else store.retry)(some())
            case 13:
                await store.get(some())
                await store.watch(some())
                await store.explain(some()[0])
                await store.counts(LAMBDA)
                await store.list_tasks(LAMBDA, chance.choice([None, Status.NEW, Status.SUCCESS]), 3, "")
            case 14:
                await store.set_paused(LAMBDA, paused=chance.random() < 0.4)
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
    found = await every_verb(await open_store(), clock)
    assert set(found.calls) == VERBS, "a function that has no case here"
    assert differences(found, expected) == []


@pytest.mark.parametrize("seed", range(2))
async def test_any_calls_are_answered_as_on_every_other_server(open_store: OpenStore, clock: Clock, seed: int) -> None:
    async with reference(clock) as fake:
        expected = await by_chance(fake, clock, seed)
    clock.us = Clock().us
    found = await by_chance(await open_store(), clock, seed)
    assert differences(found, expected) == []


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
        ("redis.call('SPUBLISH', 'bell', 'x')", "undeclared key bell"),
        ("redis.call('GETDEL', keys[1])", "unwatched command GETDEL"),
    ],
)
async def test_an_undeclared_key_is_found(open_store: OpenStore, call: str, said: str) -> None:
    rogue = f"register('rogue', {{}}, function(keys, args) return {call} end)\n"
    with in_place(watched(CURRENT, rogue)):
        store = await open_store()
    with pytest.raises(Internal, match=said):
        await store._link.call("rogue", keys.record(0), [""])


# --- the largest calls ------------------------------------------------------------------------------------------------

SPEC: Final = b"x" * (15 << 10)
"""256 of these and what surrounds them are nearly the 4 MiB of a batch."""


async def full_batches(world: World, batch: int) -> None:
    """Each verb on as many tasks as one call may hold, with nearly as many bytes."""
    store = world.store
    names = [f"b{batch}-{number}" for number in range(MAX_BATCH)]
    ids = await world.schedule(*names, spec=SPEC)
    await world.passes()
    popped = await world.pop(want=MAX_BATCH)
    assert sorted(popped) == sorted(ids)
    assert len(await store.hand_back("executor-1", [], popped)) == MAX_BATCH
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    assert len(claims) == MAX_BATCH
    await store.hand_back("executor-1", claims, [])
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    await world.beat(*claims)
    await store.lose("executor-1", claims, "killed")
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    await store.watch(ids)
    await world.finish(Outcome.FAILED_FATAL, *claims, result=SPEC, error="no")
    await store.retry(ids)
    await store.get(ids)
    await store.cancel(ids)
    await store.retry(ids)
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    world.clock.advance(20)
    assert await world.passes() == (0, MAX_BATCH, MAX_BATCH)
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    await world.finish(Outcome.SUCCEEDED, *claims, result=SPEC)
    await store.list_tasks(LAMBDA, None, MAX_BATCH, "")
    world.clock.advance(100_000)
    await world.passes()  # sees that nothing is alive; else a sweep takes less
    assert await store.sweep(0, 100_000) == MAX_BATCH
    await store.restore(
        [RestoredTask(f"r{name}", LAMBDA, 1, SPEC, b"d", world.clock(), 0, "", "", 1, 0, 1, 7, "") for name in names]
    )
    for partition in range(2):
        await world.passes(partition)
        while popped := await world.pop(want=MAX_BATCH, partition=partition):
            await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*popped)))


async def full_limits(world: World, batch: int) -> None:
    """As many tasks as one call may hold, of a lambda with every limit, each with an ordering key and a concurrency key of its own."""
    store, name = world.store, f"full/limits{batch}"
    settings = "running=4096 rate=4096 burst=4096 stop=1 placement=sticky"
    await store.register([LambdaRecord(name, b"", 1000, ENQUEUE_TIMEOUT_US, paused=False, settings=settings)])
    tasks = [
        world.task(
            f"l{batch}-{number}",
            lambda_name=name,
            ordering_key=f"key-{number}",
            concurrency=keys.concurrency(name, f"slot-{number}", 1, 0),
            affinity=f"near-{number}",
        )
        for number in range(MAX_BATCH)
    ]
    await store.schedule(tasks)
    ids: list[str] = []
    while len(ids) < MAX_BATCH:
        for partition in range(store.partitions):
            await world.passes(partition)
        world.clock.advance(0.1)
        ids += await world.pop(f"{name}:1", want=MAX_BATCH)
    claims = held(await world.claim(*ids))
    assert len(claims) == MAX_BATCH
    await store.list_slots(name, MAX_BATCH, "")
    await world.finish(Outcome.FAILED_FATAL, *claims, error="no")
    await store.list_keys(name, MAX_BATCH, "")
    assert sum((await store.redrive([(each.task_id, 0) for each in claims]))[1]) == MAX_BATCH
    await store.cancel([each.task_id for each in claims])
    unique = [
        world.task(f"w{batch}-{number}", unique=keys.unique(LAMBDA, f"u{number}", US, 0)) for number in range(MAX_BATCH)
    ]
    await store.schedule(unique)
    await store.cancel([f"0-{each.id}" for each in unique])
    windows = [Window(f"{LAMBDA}:v{batch}-{n}", f"0-v{batch}-{n}", world.clock() + US) for n in range(2 * MAX_BATCH)]
    await store.restore_windows(windows)
    await store.first_time(
        [FirstTime(f"0-f{batch}-{number}", "full", f"key {number}", US) for number in range(2 * MAX_BATCH)]
    )
    await store.waiting(0, "", [name] * MAX_BATCH)


async def full_items(world: World, batch: int) -> None:
    """The verbs of batches on as many items as one call may hold, with nearly as many bytes: they end, are retried, cancelled and deleted."""
    store, name = world.store, f"full{batch}"
    home, terms = store.batch_home(name), ItemTerms(LAMBDA, 1, max_attempts=1)
    await store.open_batch(name, b"d", b"spec", LAMBDA, 3600 * US, home_only=True)
    items = [
        NewItem(number, f"{number:032x}", SPEC, f"{name}.{number}", keys.concurrency(LAMBDA, name, MAX_BATCH, 0))
        for number in range(MAX_BATCH)
    ]
    assert await store.schedule_items(home, name, terms, items) == [False] * MAX_BATCH
    assert await store.schedule_items(home, name, terms, items) == [True] * MAX_BATCH
    await store.close_batch(name, MAX_BATCH)
    for outcome, command in ((Outcome.FAILED_FATAL, "retry"), (Outcome.SUCCEEDED, "delete")):
        await world.passes(home)
        claims = held(await world.claim(*await world.pop(want=MAX_BATCH, partition=home)))
        assert len(claims) == MAX_BATCH
        await world.finish(outcome, *claims, result=SPEC, error="no" * (outcome is Outcome.FAILED_FATAL))
        await world.deliver()
        assert len((await store.list_items(name, 0, MAX_BATCH)).items) == MAX_BATCH
        await store.command_batch(name, command)
        await world.deliver()
    assert await store.get_batch(name) is None


async def full_jobs(world: World, batch: int) -> None:
    """As many jobs as one call may hold are made, tick, are looked at and deleted."""
    store = world.store
    await know(store, "full/jobs")
    names = [f"full/j{batch}-{number}" for number in range(4 * MAX_BATCH)]
    await store.schedule_jobs(
        [NewJob(name, "request", False, SPEC[: 7 << 9], "queue", world.clock()) for name in names]
    )
    for partition in range(store.partitions):
        while jobs := (await store.enqueue(partition, 0)).jobs:
            ticks = [
                Tick(
                    *(due.name, due.generation, due.due_us, None, 1, "misfire", US, due.due_us),
                    world.task(f"of-{due.name[5:]}", partition=partition, lambda_name="full/jobs", at_us=due.due_us),
                )
                for due in jobs
            ]
            assert await store.tick(partition, ticks) == [True] * len(ticks)
            made = [f"{partition}-{each.task.id}" for each in ticks if each.task]
            await store.cancel(made)  # else they are alive in the next round
        await store.list_jobs("full/", partition, "", MAX_BATCH)
    await store.get_jobs(names)
    await store.delete_jobs(names)


async def many_queues(world: World) -> None:
    """A pass over more queues than it visits, each of which has something to do; a pop that looks at them all."""
    names = [f"many/q{number}" for number in range(100)]
    await world.store.register([LambdaRecord(name, b"x", 10, ENQUEUE_TIMEOUT_US, paused=False) for name in names])
    for name in names:
        await world.schedule(*(f"{name[5:]}-{number}" for number in range(5)), lambda_name=name)
    await world.passes()
    assert len(await world.pop(*(f"{name}:1" for name in names), want=MAX_BATCH)) == MAX_BATCH
    for name in names:
        await world.store.counts(name)


LISTS: Final = {
    verb
    for verb, header in HEADERS.items()
    if re.search(r"\bthen (per|the|their|names)\b", re.sub(r"\s*\n--\s*", " ", header).partition(" RETURNS ")[0])
}
"""The verbs whose calls grow with what they are about."""
FEW: Final = {"cores", "delivered", "serve"}
"""Of those, the ones that are about a few: a controller's own executors and lambdas, what one pass has to deliver."""


async def test_calls_of_the_largest_size(open_store: OpenStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long they take is noted in the servers' slow logs, and judged by `make contract`. fakeredis keeps none, and takes long."""
    world = World(await open_store(store_timeout=30), clock)
    call, called = world.store._link.call, set[str]()

    async def noted(verb: str, *args: Any, **more: Any) -> Any:
        called.add(verb)
        return await call(verb, *args, **more)

    monkeypatch.setattr(world.store._link, "call", noted)
    real = not world.store._link.in_process
    for batch in range(5 if slow_log.FOLDER else 1):
        await full_batches(world, batch)
        for full in (full_limits, full_items, full_jobs) if real else ():
            await full(world, batch)
    await many_queues(world)
    await world.check()
    assert not real or called >= LISTS - FEW
