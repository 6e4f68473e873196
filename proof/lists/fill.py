"""Fills a store with very many tasks: models by the store's functions, then copies of them; goes on where it was ended."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import redis

from atf.runtime import SystemRuntime, new_id
from atf.store import keys
from atf.store.store import Store
from atf.store.values.claims import ClaimedTask, ClaimRenewal, HeldClaim, Taker
from atf.task import US

from . import models

COPIES: Final = (Path(__file__).parent / "copies.lua").read_text()
_CHANCE: Final = random.Random()
_PROGRESS: Final = "proof:lists"
"""Beside the store's keys: what has been copied."""
_AT_ONCE: Final = 1_000
_SPAN_US: Final = 20 * 3_600 * US
"""Over which the tasks were made, and ended: the retention is a day."""
_BEGAN_US: Final = 21 * 3_600 * US
"""Before now, when the first of them was made."""
_LIVE: Final = 1_000
"""Tasks that wait in queues, as many that are claimed, and as many that run."""


class Part(NamedTuple):
    """Copies to make of one task."""

    task: str
    first: int
    copies: int
    by_us: int
    step_us: int


def parts(found: Sequence[models.Model], tasks: int) -> list[Part]:
    """What is to be copied, so that there are so many tasks."""
    planned, number = [], 0
    for model in found:
        count = max(round(model.share * tasks) - 1, 0)
        step = max(_SPAN_US // (count + 1), 1)
        for start in range(0, count, _AT_ONCE):
            some = min(_AT_ONCE, count - start)
            planned.append(Part(model.task, number, some, (start + 1) * step, step))
            number += some
    return planned


def sets_of(client: redis.Redis) -> dict[str, list[str]]:
    """By task the sorted sets that it stands in. Reads all of them: for a store with models alone."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted(client.scan_iter("atf:{*}:*", count=1_000)):
        if client.type(key) == b"zset":
            members: Any = client.zrange(key, 0, -1)
            for member in members:
                found[member.decode("latin-1")].append(key.decode())
    return found


def copy(client: redis.Redis, part: Part, sets: Sequence[str]) -> None:
    """Makes some copies."""
    how = (part.task, part.first, part.copies, part.by_us, part.step_us)
    client.eval(COPIES, 1, keys.record(int(part.task.partition("-")[0])), *how, *sets)


async def fill(store: Store, client: redis.Redis, tasks: int, say: Callable[[str], None]) -> None:
    """Fills an empty store, or goes on."""
    told: Any = client.hgetall(_PROGRESS)
    known: dict[str, str] = {key.decode(): value.decode() for key, value in told.items()}
    if "models" not in known:
        began_us = SystemRuntime().wall_us() - _BEGAN_US
        store.now = lambda: began_us
        found = await models.make(store)
        of = sets_of(client)
        known = {
            "began_us": str(began_us),
            "models": json.dumps(found),
            "sets": json.dumps({each.task: of[each.task] for each in found}),
            "tasks": str(tasks),
        }
        client.hset(_PROGRESS, items=[each for pair in known.items() for each in pair])
        store.now = None
    if known["tasks"] != str(tasks):
        raise SystemExit(f"this store was begun for {known['tasks']} tasks, not {tasks}: name another folder")
    await models.register(store)
    planned = parts([models.Model(*each) for each in json.loads(known["models"])], tasks)
    sets, done, said = json.loads(known["sets"]), int(known.get("done", 0)), time.monotonic()
    for number in range(done, len(planned)):
        part = planned[number]
        copy(client, part, sets[part.task])
        client.hset(_PROGRESS, "done", number + 1)
        if time.monotonic() - said > 10:
            say(f"{part.first + part.copies:,} of {tasks:,} tasks")
            said = time.monotonic()
            await asyncio.sleep(0)
    if "live" not in known:
        await _live(store)
        client.hset(_PROGRESS, "live", 1)


async def _live(store: Store) -> None:
    """Tasks of the fifty most frequent lambdas that wait in queues, are claimed, and run."""
    for partition in range(store.partitions):
        await _live_in(store, partition, _LIVE // store.partitions)


async def _live_in(store: Store, partition: int, count: int) -> None:
    plain = models.TaskKind("live", 0)
    tasks = [models.new_task(number % 50, plain, new_id(_CHANCE), None, partition) for number in range(3 * count)]
    for start in range(0, len(tasks), 250):
        await store.schedule(tasks[start : start + 250])
    enqueued = 0
    while enqueued < len(tasks):
        enqueued += (await store.enqueue(partition, 0)).enqueued
    claims: list[ClaimedTask] = []
    while len(claims) < 2 * count:
        queues = [keys.queue(name, 1) for name in models.NAMES[:50]]
        taker = Taker(models.OWNER, new_id(_CHANCE), 250)
        claims += (await store.next_claims(partition, [queues], [taker], want=250)).claims[taker.nonce]
    for start in range(0, count, 250):
        held = [HeldClaim(each.task_id, each.counter, each.nonce) for each in claims[start : start + 250]]
        await store.heartbeat([ClaimRenewal(each, started=True) for each in held])


def filled_until_us(client: redis.Redis) -> int:
    """When the newest of the tasks that were copied was made."""
    began: Any = client.hget(_PROGRESS, "began_us")
    return int(began) + _SPAN_US
