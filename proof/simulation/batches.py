"""A batch in some seeds: what the service does with it, and what must hold of it, at each change and at the end.

Judged is what lies in the store: what a batch counts against a scan of its items, its end against what its items have come to at that
moment, and its callbacks against its rounds.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from atf.client import AsyncClient, Batch
from atf.errors import AtfError
from atf.rpc.task_pb2 import TaskSpec
from atf.sdk.work_items import ITEM_MARK
from atf.store import keys
from atf.task import FINISHED
from tests.store.world import Dump

from .lambdas import steps_of, summed

if TYPE_CHECKING:
    from .world import World

BATCH: Final = "batch-1"
PARTITIONS: Final = 2
ITEMS: Final = 10
MORE: Final = 4
BY_HAND: Final = 8
DELETIONS: Final = 60
"""Times that somebody tries to delete it."""
RECORD: Final = f"atf:{{{zlib.crc32(BATCH.encode()) % PARTITIONS}}}:batch:{BATCH}".encode()
"""The key of its record."""
CALLBACK: Final = f"{summed.name}:"
"""How its queues begin."""
_COUNTED: Final = {
    "NEW": "c0",
    "ENQUEUED": "c0",
    "CLAIMED": "c1",
    "PROCESSING": "c1",
    "SUCCESS": "c100",
    "RETRIABLE_FAILURE": "c-1",
    "FATAL_FAILURE": "c-2",
    "CANCELLED": "c-3",
}
_ENDED: Final = {each.name for each in FINISHED}


def has_batch(world: World) -> bool:
    """Whether a seed has one. A server that forgets may forget items that its client takes for stored."""
    return world.seed % 5 == 2 and world.server.durable


async def life(world: World, client: AsyncClient) -> None:
    """Submits the batch, whatever it takes, and does one thing to it: extends it, has it retried, cancels it, or nothing."""
    chance = world.chance
    await asyncio.sleep(chance.uniform(0, 50))
    # Some are identical; some fail for good, since two attempts are all they have.
    items = [(chance.choice((0.02, 0.5, 3.0)), chance.choice((0, 0, 0, 1, 2))) for _ in range(ITEMS)]
    options: dict[str, Any] = {"batch_id": BATCH, "batch_size": 4, "max_attempts": 2, "on_complete": summed}
    if chance.random() < 0.3:
        options |= chance.choice(({"workers": 3}, {"max_in_flight": 4}))
    if chance.random() < 0.3:
        options["keep_open"] = True
    await _until_done(world, "batch", lambda: client.batch(steps_of(world.seed), items, **options))
    handle = client.batch_handle(BATCH, steps_of(world.seed))
    deed, again = chance.random(), 0
    await asyncio.sleep(chance.choice((0.0, 2.0, 10.0)))
    if deed < 0.25 or chance.random() < 0.3:
        for number in range(2):
            more = [(0.5, chance.choice((0, 1))) for _ in range(MORE // 2)]
            request = {"request_id": f"more-{number}"}
            await _until_done(world, "extend", partial(handle.extend_async, more, **request))
    if 0.25 <= deed < 0.5:
        while again < 2:
            await asyncio.sleep(chance.uniform(5, 15))
            again += await _try(world, "retry batch", handle.retry_async())
    elif 0.5 <= deed < 0.75:
        await _until_done(world, "cancel batch", handle.cancel_async)
    elif deed >= 0.75:
        await _by_hand(world, client)
    if "keep_open" in options:
        await _until_done(world, "close batch", handle.close_async)
    await _look(world, handle)
    if (
        deed < 0.75 and chance.random() < 0.7
    ):  # an item that is started afresh by hand would go with its batch, and not be finished
        await _delete(world, handle)


async def _delete(world: World, handle: Batch[Any]) -> None:
    """It is refused until the batch has ended; which it may not do before something else has been mended."""
    for _ in range(DELETIONS):
        if await _try(world, "delete batch", handle.delete_async()):
            return
        await asyncio.sleep(2)


async def _look(world: World, handle: Batch[Any]) -> None:
    """Follows the batch for a while, and reads its results; what it says of its items is judged."""
    since, server = world.now_us(), world.server
    try:
        async with asyncio.timeout(world.chance.choice((1.0, 30.0))):
            async for told in handle.watch_async(1.0):
                world.chronicle.say(f"the batch was told to be {told}")
            if not told.ended:
                world.chronicle.odd.append("whoever followed the batch was not told of its end")
    except (AtfError, TimeoutError) as error:
        world.chronicle.say(f"watch batch failed: {error}")
    try:
        since = world.now_us()
        async for item in handle.items_async():
            if item.status.name == "DONE":
                now = world.now_us()
                world.chronicle.odd += server.answers.check(item.task_id, "SUCCESS", item.result, since, now)
    except AtfError as error:
        world.chronicle.say(f"list items failed: {error}")


async def _by_hand(world: World, client: AsyncClient) -> None:
    """Starts items afresh that have failed for good, one by one: they fail again."""
    for _ in range(BY_HAND):
        await asyncio.sleep(world.chance.uniform(1, 8))
        known = world.server.tasks()
        failed = [each for each, state in known.items() if ITEM_MARK in each and state[0] == "FATAL_FAILURE"]
        if failed:
            task_id = world.chance.choice(failed)
            await _try(world, f"retry of {task_id}", client.retry(task_id))


async def _until_done(world: World, what: str, call: Any) -> None:
    while not await _try(world, what, call()):
        await asyncio.sleep(1)


async def _try(world: World, what: str, call: Any) -> bool:
    try:
        answer = await call
    except AtfError as error:
        world.chronicle.say(f"{what} failed: {error}")
        return False
    world.chronicle.say(f"{what} answered {answer}")
    return True


class BatchEnds:
    """Watches the ends of batches in the store, one change after the other.

    Attributes:
        known: how often each round of each batch was seen to end.
        by_hand: items that were started afresh one by one: their batch goes on then, in the same round.
    """

    def __init__(self) -> None:
        self.known: Counter[tuple[str, int]] = Counter()
        self.by_hand = 0
        self._ended: set[str] = set()

    def look(self, found: Dump) -> Iterator[str]:
        """What is wrong with the ends that have come since the last look."""
        for batch, stored in records_of(found).items():
            if "ended" not in stored:
                self._ended.discard(batch)
                continue
            if batch in self._ended:
                continue
            self._ended.add(batch)
            self.known[batch, int(stored["round"])] += 1
            left = [
                task["i"]
                for task_id, task in items_of(found, batch).items()
                if task["s"] not in _ENDED
                and not _unreported(found, batch, stored, keys.record(int(task_id.split("-")[0])))
            ]
            if left:
                yield f"batch {batch} has ended, and its items {left} have not"


def _unreported(found: Dump, batch: str, stored: dict[str, str], record: str) -> bool:
    """Whether the batch partition has not had the last report of a partition on its items: one of them was started afresh by hand meanwhile."""
    reported = stored[f"r{record[5:-1]}"].split()[0]
    return int(found.hash(f"{record}:b:{batch}")["number"]) > int(reported)


def records_of(found: Dump) -> dict[str, dict[str, str]]:
    """The records of batches that have not been deleted."""
    records = {key.partition(":batch:")[2]: found.hash(key) for key in found.data if ":batch:" in key}
    return {batch: stored for batch, stored in records.items() if "gone" not in stored}


def items_of(found: Dump, batch: str) -> dict[str, dict[str, str]]:
    """The tasks of a batch's items."""
    return {task_id: task for task_id, task in found.tasks().items() if f"-{batch}." in task_id}


def judge(found: Dump, ends: BatchEnds) -> Iterator[str]:
    """What is wrong at the very end."""
    for batch, stored in records_of(found).items():
        items = items_of(found, batch)
        numbers = Counter(int(task["i"]) for task in items.values())
        if twice := [number for number, count in numbers.items() if count > 1]:
            yield f"batch {batch} has more than one item of {twice}"
        if "ended" not in stored:
            yield f"batch {batch} has not ended, although nothing has disturbed it for long: {stored}"
            continue
        wanted = int(stored["main"]) + int(stored.get("extra", 0)) if "main" in stored else 0
        if len(items) != wanted and "cancelled" not in stored:
            yield f"batch {batch} was made of {wanted} items, and has {len(items)}"
        yield from _judge_counts(found, batch, items)
        by_status = Counter(task["s"] for task in items.values())
        sums = f"{len(items)} {by_status['SUCCESS']} {by_status['FATAL_FAILURE']} {by_status['CANCELLED']}"
        if stored["sums"] != sums:
            yield f"batch {batch} ended with {stored['sums']}, and its items are {sums}"
        rounds = int(stored["round"])
        callbacks = [each for each, task in found.tasks().items() if task.get("q", "").startswith(CALLBACK)]
        told = [TaskSpec.FromString(found.spec(each)).payload for each in callbacks]
        if len(told) != rounds or len(set(told)) != rounds:
            yield f"batch {batch} had {rounds} rounds, and its callback was made {len(told)} times: {told}"
        if sum(ends.known.values()) > len(ends.known) + ends.by_hand:
            yield f"batch {batch} ended again in the same round: {dict(ends.known)}"


def _judge_counts(found: Dump, batch: str, items: dict[str, dict[str, str]]) -> Iterator[str]:
    """What each partition counts of a batch, against its items there."""
    scanned: dict[str, Counter[str]] = defaultdict(Counter)
    listed: dict[str, set[str]] = defaultdict(set)
    for task_id, task in items.items():
        record = keys.record(int(task_id.partition("-")[0]))
        scanned[record].update(("n", _COUNTED[task["s"]]))
        listed[record].add(f"{task_id.partition('.')[2]} {task['i']}")
    parts = {key.partition(":b:")[0] for key in found.data if key.endswith(f":b:{batch}")}
    for record in parts | scanned.keys():
        part = found.hash(f"{record}:b:{batch}")
        counted = {name: int(part[name]) for name in ("n", *sorted({*_COUNTED.values()})) if int(part.get(name, 0))}
        if counted != dict(scanned[record]):
            yield f"batch {batch} counts {counted} in {record}, and its items there are {dict(scanned[record])}"
        index = {f"{item} {number:.0f}" for item, number in found.zset(f"{record}:b:{batch}:i").items()}
        if index != listed[record]:
            yield f"batch {batch} lists {index} in {record}, and its items there are {listed[record]}"
