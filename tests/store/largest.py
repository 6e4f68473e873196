"""Calls of the largest size, for the servers' slow logs: each verb on as much as one call of it may hold, or answer.

What they take is noted in the slow logs, and judged by `make contract`.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

import msgspec

from atf.store import keys, library
from atf.store.gates import GateSet
from atf.store.status import LiveRole
from atf.store.user_keys import HeldUniqueKey
from atf.store.values.audit import AuditEntry
from atf.store.values.batches import ItemTerms, NewItem
from atf.store.values.claims import FirstTimeKey, Outcome, RunResult
from atf.store.values.jobs import Tick
from atf.store.values.lambdas import GateAction, LambdaRecord, NewGate
from atf.store.values.lists import TaskQuery
from atf.store.values.tasks import RestoredTask
from atf.task import MAX_BATCH, MAX_LABELS, US
from tests.claiming import claim_ids, serve_queues
from tests.known import know

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, World, held

SPEC: Final = b"x" * (15 << 10)
"""256 of these and what surrounds them are nearly the 4 MiB of a batch."""
_AUDITED_TOGETHER: Final = 64
"""Entries of the audit log that a frontend gives to the store in one call."""


async def full_batches(world: World, batch: int) -> None:
    """Each verb on as many tasks as one call may hold, with nearly as many bytes."""
    store = world.store
    names = [f"b{batch}-{number}" for number in range(MAX_BATCH)]
    ids = await world.schedule(*names, spec=SPEC)
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    assert len(claims) == MAX_BATCH
    await store.hand_back(claims)
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    await world.beat(*claims)
    await store.report_loss(claims, "killed")
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    await store.watch_tasks(ids)
    await world.finish(Outcome.FAILED_FATAL, *claims, result=SPEC, error="no")
    await store.retry_tasks(ids)
    await store.get_tasks(ids)
    await store.cancel_tasks(ids)
    await store.retry_tasks(ids)
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    world.clock.advance(20)
    assert await world.passes() == (0, MAX_BATCH, MAX_BATCH)
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    await world.finish(Outcome.SUCCEEDED, *claims, result=SPEC)
    await store.list_tasks(TaskQuery(labels="no=one"), MAX_BATCH, count=True)
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
    await store.register_lambdas([LambdaRecord(name, b"", 1000, ENQUEUE_TIMEOUT_US, paused=False, settings=settings)])
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
    await store.list_concurrency_keys(name, MAX_BATCH, "")
    await world.finish(Outcome.FAILED_FATAL, *claims, error="no")
    await store.list_keys(name, MAX_BATCH, "")
    assert sum(await store.redrive([(each.task_id, 0) for each in claims], 0)) == MAX_BATCH
    await store.cancel_tasks([each.task_id for each in claims])
    unique = [
        world.task(f"w{batch}-{number}", unique=keys.unique(LAMBDA, f"u{number}", US, 0)) for number in range(MAX_BATCH)
    ]
    await store.schedule(unique)
    await store.cancel_tasks([f"0-{each.id}" for each in unique])
    windows = [
        HeldUniqueKey(f"{LAMBDA}:v{batch}-{n}", f"0-v{batch}-{n}", world.clock() + US) for n in range(2 * MAX_BATCH)
    ]
    await store.restore_unique_keys(windows)
    assert len([each async for each in store.list_unique_keys()]) >= len(windows)
    await store.first_time(
        [FirstTimeKey(f"0-f{batch}-{number}", "full", f"key {number}", US) for number in range(2 * MAX_BATCH)]
    )
    await store.waiting(0, "", [name] * MAX_BATCH)


async def full_items(world: World, batch: int) -> None:
    """The verbs of batches on as many items as one call may hold, with nearly as many bytes: they end, are retried, cancelled and deleted."""
    store, name = world.store, f"full{batch}"
    partition, terms = store.batch_partition(name), ItemTerms(LAMBDA, 1, max_attempts=1)
    await store.open_batch(name, b"d", b"spec", LAMBDA, 3600 * US, single_partition=True)
    items = [
        NewItem(number, f"{number:032x}", SPEC, f"{name}.{number}", keys.concurrency(LAMBDA, name, MAX_BATCH, 0))
        for number in range(MAX_BATCH)
    ]
    assert await store.schedule_items(partition, name, terms, items) == [False] * MAX_BATCH
    assert await store.schedule_items(partition, name, terms, items) == [True] * MAX_BATCH
    await store.close_batch(name, MAX_BATCH)
    for outcome, command in ((Outcome.FAILED_FATAL, store.retry_batch), (Outcome.SUCCEEDED, store.delete_batch)):
        await world.passes(partition)
        claims = held(await world.claim(*await world.pop(want=MAX_BATCH, partition=partition)))
        assert len(claims) == MAX_BATCH
        await world.finish(outcome, *claims, result=SPEC, error="no" * (outcome is Outcome.FAILED_FATAL))
        await world.deliver()
        assert len((await store.list_batch_items(name, 0, MAX_BATCH)).items) == MAX_BATCH
        await command(name)
        await world.deliver()
    assert await store.get_batch(name) is None


async def full_jobs(world: World, batch: int) -> None:
    """As many jobs as one call may hold are made, tick, are looked at and deleted."""
    store = world.store
    await know(store, "full/jobs")
    names = [f"full/j{batch}-{number}" for number in range(4 * MAX_BATCH)]
    await store.schedule_jobs([world.job(name)._replace(spec=SPEC[: 7 << 9]) for name in names])
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
            await store.cancel_tasks(made)  # else they are alive in the next round
        await store.list_jobs("full/", partition, "", MAX_BATCH)
    await store.get_jobs(names)
    await store.delete_jobs(names)


async def many_queues(world: World) -> None:
    """A pass over more queues than it visits, each of which has something to do; a pop that looks at them all."""
    names = [f"many/q{number}" for number in range(100)]
    await world.store.register_lambdas(
        [LambdaRecord(name, b"x", 10, ENQUEUE_TIMEOUT_US, paused=False) for name in names]
    )
    for name in names:
        await world.schedule(*(f"{name[5:]}-{number}" for number in range(5)), lambda_name=name)
    await world.passes()
    assert len(await world.pop(*(f"{name}:1" for name in names), want=MAX_BATCH)) == MAX_BATCH
    for name in names:
        await world.store.counts(name)


# --- gates ------------------------------------------------------------------------------------------------------------

LABELS: Final = {f"{number:=<64}": f"{number:%<64}" for number in range(5)}
"""All but as many bytes as those of one gate may have as they are stored."""
COLLECTIONS: Final = [
    {name: LABELS[name] for name in some} for size in range(len(LABELS) + 1) for some in combinations(LABELS, size)
]
"""As many as a lambda may have gates. A task with all of the labels is in each of them."""
GATED: Final = keys.labels(LABELS)
"""Fits a visit that looks at as many tasks as it takes."""


async def full_misfits(world: World, batch: int) -> None:
    """As many payloads as a call may hold fit one executor not, and another one."""
    store, old, new = world.store, "aaaaaaaaaaaa", "bbbbbbbbbbbb"
    await store.serve("", 1, "", None, [f"{LAMBDA} {old}", f"{LAMBDA} {new}"])
    for digest in (old, new):
        if digest == old:
            await world.schedule(*(f"u{batch}-{number}" for number in range(MAX_BATCH)))
        await world.passes()
        popped = [
            each
            for _, ids in await serve_queues(store, 0, [[QUEUE]], MAX_BATCH, signatures={LAMBDA: digest})
            for each in ids
        ]
        claims = held(
            (await claim_ids(store, "executor-1", f"u{batch}-{digest}", popped, signatures={LAMBDA: digest})).claims
        )
        assert len(claims) == MAX_BATCH
        if digest == old:
            await world.finish(Outcome.MISFIT, *claims, error="no", signature=digest, grace_us=600 * US)
        else:
            await world.finish(Outcome.SUCCEEDED, *claims)
    world.clock.advance(2)  # no host of it is known any more


async def full_gates(world: World, batch: int) -> None:
    """As many gates as a lambda may have look at as many tasks as one claim and one visit take, with as many bytes; they keep, let through and drop all."""
    store, name = world.store, f"full/gates{batch}"
    assert 0.9 < len(GATED) * MAX_BATCH / library.GATE_BYTES < 1
    assert len(COLLECTIONS) == library.MAX_GATES

    async def claimed() -> list[str]:
        """Claims what has been pushed, and answers what gates kept of it."""
        popped = await world.pop(f"{name}:1", want=MAX_BATCH)
        assert len(popped) == MAX_BATCH
        return (await claim_ids(store, "executor-1", "nonce", popped)).lost

    await store.register_lambdas([LambdaRecord(name, b"", 1000, ENQUEUE_TIMEOUT_US, paused=False)])
    await world.schedule(
        *(f"g{batch}-{number}" for number in range(MAX_BATCH)), lambda_name=name, spec=SPEC, labels=GATED
    )
    await world.passes()
    for place, labels in enumerate(COLLECTIONS):
        gate = NewGate(name, GateAction.DELAY, labels, (place + 1) * US, who="ada", why="y" * 500)
        assert await store.set_gate(gate) != GateSet(0)
    assert await store.set_gate(NewGate(name, GateAction.DROP, {})) == GateSet(0), (
        "a lambda may have more gates than these"
    )
    assert len(await claimed()) == MAX_BATCH
    world.clock.advance(ENQUEUE_TIMEOUT_US / US)
    await world.passes()  # sees that other queues are empty, and that nothing is owed; else a visit takes less
    await world.schedule(
        *(f"h{batch}-{number}" for number in range(MAX_BATCH)), lambda_name=name, spec=SPEC, labels=GATED
    )
    assert (await store.enqueue(0, 0)).gated == MAX_BATCH, "not all in one visit"
    assert sum(each.waiting for each in await store.list_gates(name)) == 2 * MAX_BATCH
    await store.judge(name)
    await store.link.call("resync_lambdas", keys.record(0), [world.clock(), store.partitions, ""])
    await world.deliver()
    world.clock.advance(len(COLLECTIONS))
    assert await world.passes() == (2 * MAX_BATCH, 0, 0)
    for labels in COLLECTIONS:
        assert await store.lift_gate(name, labels, list(GateAction)) == 1
    await store.set_gate(NewGate(name, GateAction.DROP, {}))
    assert len(await claimed() + await claimed()) == 2 * MAX_BATCH
    (left,) = await store.list_gates(name)
    assert left.dropped == 2 * MAX_BATCH
    await store.lift_gate(name, {}, [GateAction.DROP])


# --- answers ----------------------------------------------------------------------------------------------------------


READ: Final = [
    LambdaRecord(
        f"{'n' * 64}/{number:l<64}",
        b"s" * 1024,
        1000,
        ENQUEUE_TIMEOUT_US,
        paused=False,
        settings="running=4096 rate=4096",
    )
    for number in range(2 * MAX_BATCH)
]


async def full_reads(world: World, times: int) -> None:
    """The verbs whose answers grow with what there is, so many times: of many large lambdas, hosts that serve these, pools, batches, groups of failures, entries of the audit log."""
    store = world.store
    names = [record.name for record in READ]
    await store.register_lambdas(READ)
    labels = {f"{place:l<64}": "v" * 64 for place in range(MAX_LABELS)}
    said = ("w" * 100, "y" * 500, "d" * 500, [f"0-{place:t<64}" for place in range(20)], 256, "o" * 500)
    entry = AuditEntry("set_gate", ", ".join(names[:10]), labels, *said)
    hosts = [f"{number:h<64}" for number in range(MAX_BATCH)]  # each in a pool of its own, of the same name
    for number, host in enumerate(hosts):
        world.clock.advance(1e-6)  # each says it at an instant of its own
        few = names[number : number + 4]
        await store.serve(host, 3600, host, dict.fromkeys(few, 3600.0), names[:MAX_BATCH])
        await store.set_capacity(host, 0, b"s" * 4096, deal_anew=True)
        await store.open_batch(f"read-{number}", b"d", b"spec", LAMBDA, 3600 * US, single_partition=True)
        await store.add_audit([entry])
    ids = await world.schedule(
        *(f"read-{number}" for number in range(MAX_BATCH)), ordering_key="read", lambda_name=names[0]
    )
    await full_groups(world)
    for _ in range(times):
        await store.link.call("replace_audit", keys.record(0), ["", *[msgspec.json.encode(entry)] * _AUDITED_TOGETHER])
        assert len((await store.list_failures("", 0, MAX_BATCH)).groups) == MAX_BATCH
        await store.serve(hosts[0], 3600, hosts[0], dict.fromkeys(names[:MAX_BATCH], 3600.0), names[:MAX_BATCH])
        await store.renew_hosts(hosts[0], 3600, hosts[:MAX_BATCH], names[:MAX_BATCH])
        await store.get_capacity(hosts[0], here=hosts, stay_us=3600 * US)
        explained = await store.explain_task(ids[-1])
        assert explained is not None
        assert explained.position == MAX_BATCH - 1
        assert set(names) <= set(await store.list_lambdas())
        assert len((await store.list_hosts())[1]) == len(hosts) == len(await store.live_pools())
        assert len(await store.list_capacity()) == len(hosts)
        roles = [LiveRole("controller", "1.0", each) for each in hosts[:MAX_BATCH]]
        await store.announce(roles, 3600, [f"result {n}" for n in range(32)])
        assert (await store.get_status(names[:MAX_BATCH], US)).lambdas[names[0]].waiting >= 1
        assert len(await store.served()) >= MAX_BATCH
        await store.drain_host(hosts[0], drains=True)
        assert not await store.delete_lambda("shop/nobody")
        assert len(await store.live_roles()) == len(hosts[:MAX_BATCH])
        assert len(await store.list_audit(None, MAX_BATCH)) == MAX_BATCH
        assert len(await store.list_batches(None, MAX_BATCH)) == MAX_BATCH


async def full_groups(world: World) -> None:
    """As many groups of failures as a page has."""
    await world.schedule(*(f"fails-{number}" for number in range(MAX_BATCH)))
    await world.passes()
    claims = held(await world.claim(*await world.pop(want=MAX_BATCH)))
    # Told apart by the length of what they say: of digits all are alike.
    results = [RunResult(each, Outcome.FAILED_FATAL, error="E" * number) for number, each in enumerate(claims, 1)]
    await world.store.set_results(results)


async def full_spread(world: World, batch: int) -> None:
    """Lambdas become spread beside the hosts of full_reads, all of which serve them, and one more host comes."""
    store, spread = world.store, [each._replace(settings="placement=spread") for each in READ[:MAX_BATCH]]
    await store.register_lambdas(READ[:MAX_BATCH])
    await store.register_lambdas(spread)
    await store.serve("", 3600, f"new{batch}", {}, [each.name for each in spread])
    await world.deliver()
