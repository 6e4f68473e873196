"""The store consumer on a real task store (on fakeredis) and virtual time: when it looks, what it delivers, what it survives."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise
from typing import Any

import fakeredis
import pytest

from atf.config.settings import StoreConsumerSettings, StoreSettings, Timing
from atf.errors import Unavailable
from atf.runtime import end
from atf.store.store import Store
from atf.store.values.claims import ClaimRenewal, HeldClaim, Outcome, RunResult
from atf.store.values.passes import EnqueuePass, OutboxRecord
from atf.store.values.tasks import NewTask, TaskRecord
from atf.store_consumer.consumer import Consumer
from atf.store_consumer.sweeper import Sweeper
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, US, Status
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring
from tests.claiming import claim_ids, pop_ids
from tests.known import know
from tests.virtual import virtual

QUEUE = "shop/mail:1"


class World:
    """One store, and consumers to start; passes are counted, and the store fails as told."""

    def __init__(self, store: Store, runtime: VirtualRuntime) -> None:
        self.store = store
        self.runtime = runtime
        self.passes: Counter[int] = Counter()
        self.broken: set[int] = set()
        self.owed: list[OutboxRecord] = []  # each pass over the owing partition brings them up
        self.undeliverable: set[int] = set()
        self.delivered: list[OutboxRecord] = []
        self.jump_us = 0
        self._enqueue, self._deliver_really = store.enqueue, store.apply_outbox
        store.enqueue = self._watched_enqueue  # type: ignore[assignment, method-assign]
        store.apply_outbox = self._deliver  # type: ignore[method-assign]
        store.now = lambda: runtime.wall_us() + self.jump_us
        self._duties: list[asyncio.Task[None]] = []
        self._number = 0

    def start(self) -> Consumer:
        consumer = self.consumer()
        self._duties.append(self.runtime.spawn(consumer.run(), name="consumer"))
        return consumer

    def consumer(self) -> Consumer:
        return Wiring(self.runtime, Timing()).consumer(self.store)

    async def stop(self) -> None:
        await end(self._duties)

    async def _watched_enqueue(self, partition: int, believed_us: int, jobs: int, **step_back: str) -> EnqueuePass:
        self.passes[partition] += 1
        if partition in self.broken:
            raise Unavailable("the task store does not answer")
        made = await self._enqueue(partition, believed_us, jobs, **step_back)
        return made._replace(outbox=[*made.outbox, *(each for each in self.owed if each.partition == partition)])

    async def _deliver(self, record: OutboxRecord) -> None:
        if record.target in self.undeliverable:
            await asyncio.sleep(5)
            raise Unavailable("the task store does not answer")
        if record not in self.owed:
            await self._deliver_really(record)
            return
        self.delivered.append(record)
        self.owed.remove(record)

    async def schedule(
        self, count: int = 1, *, delay: float = 0, partition: int = 0, retention: float = 3600
    ) -> list[str]:
        tasks = []
        for _ in range(count):
            self._number += 1
            name = f"t{self._number}"
            tasks.append(
                NewTask(
                    name,
                    partition,
                    "shop/mail",
                    1,
                    b"spec",
                    b"digest",
                    None,
                    round(delay * US),
                    3,
                    3,
                    round(retention * US),
                )
            )
        return [each.id for each in await self.store.schedule(tasks)]

    async def pop(self, partition: int = 0, want: int = 1000) -> list[str]:
        return await pop_ids(self.store, partition, [[QUEUE]], want)

    async def claim(self, ids: Sequence[str], owner: str = "e1") -> list[HeldClaim]:
        batch = await claim_ids(self.store, owner, "", ids)
        return [HeldClaim(each.task_id, each.counter, each.nonce) for each in batch.claims]

    async def record(self, task_id: str) -> TaskRecord:
        (found,) = await self.store.get_tasks([task_id])
        assert found is not None
        return found


def world(
    partitions: int = 1, **settings: Any
) -> Callable[[VirtualRuntime], contextlib.AbstractAsyncContextManager[World]]:
    @contextlib.asynccontextmanager
    async def opened(runtime: VirtualRuntime) -> AsyncIterator[World]:
        stored = StoreSettings(partitions=partitions, push_when_scheduled=False, **settings)  # its passes are tested
        store = await Store.open(stored, Timing(), runtime, fake=fakeredis.FakeServer())
        await know(store, "shop/mail", "shop/done")
        built = World(store, runtime)
        yield built
        await built.stop()
        await store.close()

    return opened


# --- when it looks ----------------------------------------------------------------------------------------------------


@virtual(world(partitions=4))
async def test_a_task_scheduled_for_now_is_enqueued_at_that_moment(w: World) -> None:
    w.start()
    await asyncio.sleep(10.3)
    (task_id,) = await w.schedule(partition=2)
    await asyncio.sleep(0.001)
    assert await w.pop(2) == [task_id]


@virtual(world())
async def test_a_queue_that_nobody_empties_keeps_no_other_waiting(w: World) -> None:
    """What stands in it is looked at again from time to time, in many passes; none of them is a reason to sleep."""
    await w.schedule(1000)
    w.start()
    await asyncio.sleep(DEFAULT_ENQUEUE_TIMEOUT_US / US + 0.001)
    made = await w.store.enqueue(0, 0, 0)
    assert made.standing == 0
    assert made.next_in_us is not None
    assert made.next_in_us > 9 * US


@virtual(world())
async def test_a_delayed_task_is_enqueued_when_it_is_due_and_not_before(w: World) -> None:
    w.start()
    (task_id,) = await w.schedule(delay=7.123)
    await asyncio.sleep(7.122)
    assert await w.pop() == []
    await asyncio.sleep(0.002)
    assert await w.pop() == [task_id]


@virtual(world(partitions=16))
async def test_a_ring_has_only_its_own_partition_looked_at(w: World) -> None:
    w.start()
    await asyncio.sleep(0.3)
    before = w.passes.copy()
    await w.schedule(partition=5)
    await asyncio.sleep(0.001)
    assert list(w.passes - before) == [5]


@virtual(world(wakeups=False, poll_interval=2.0))
async def test_without_wake_ups_it_looks_once_per_poll_interval(w: World) -> None:
    w.start()
    await asyncio.sleep(1)
    (task_id,) = await w.schedule(delay=0.1)
    await asyncio.sleep(0.9)
    assert await w.pop() == []
    await asyncio.sleep(0.2)
    assert await w.pop() == [task_id]
    await asyncio.sleep(16.9)
    assert w.passes[0] == 10


@virtual(world(partitions=4))
async def test_idle_it_looks_about_once_per_poll_interval(w: World) -> None:
    w.start()
    await asyncio.sleep(100)
    assert all(100 <= count <= 130 for count in w.passes.values())


@virtual(world())
async def test_a_thousand_due_tasks_are_enqueued_without_a_pause_between_passes(w: World) -> None:
    await w.schedule(1000)
    w.start()
    await asyncio.sleep(0.001)
    assert len(await w.pop()) == 1000


@virtual(world())
async def test_two_consumers_enqueue_each_task_once(w: World) -> None:
    w.start()
    w.start()
    ids = await w.schedule(500, delay=3)
    await asyncio.sleep(3.1)
    assert sorted(await w.pop()) == sorted(ids)


# --- leases -----------------------------------------------------------------------------------------------------------


@virtual(world())
async def test_a_lease_that_ends_has_its_task_enqueued_again_without_a_loss_where_it_had_not_begun(w: World) -> None:
    w.start()
    (task_id,) = await w.schedule()
    await asyncio.sleep(0.1)
    await w.claim(await w.pop())
    await asyncio.sleep(15.9)
    assert (await w.record(task_id)).status == Status.CLAIMED
    await asyncio.sleep(0.2)
    record = await w.record(task_id)
    assert (record.status, record.losses) == (Status.ENQUEUED, 0)
    assert await w.pop() == [task_id]


@virtual(world())
async def test_a_lease_that_expired_while_no_consumer_ran_is_lost_once_one_starts(w: World) -> None:
    await w.schedule()
    await w.consumer().once(0)
    ids = await w.pop()
    await w.claim(ids)
    await asyncio.sleep(60)
    w.start()
    await asyncio.sleep(2)
    assert await w.pop() == ids


@virtual(world())
async def test_a_jump_of_the_store_s_clock_expires_no_lease_that_is_renewed(w: World) -> None:
    w.start()
    (task_id,) = await w.schedule()
    await asyncio.sleep(0.1)
    (held,) = await w.claim(await w.pop())
    w.jump_us = 3600 * US
    for _ in range(60):
        await asyncio.sleep(1.9)
        await w.store.heartbeat([ClaimRenewal(held, started=True)])
    record = await w.record(task_id)
    assert (record.status, record.losses) == (Status.PROCESSING, 0)
    await asyncio.sleep(18)
    assert (await w.record(task_id)).losses == 1, "and once it is not renewed any more, it does expire"


@virtual(world())
async def test_an_id_that_was_popped_and_forgotten_is_enqueued_again(w: World) -> None:
    w.start()
    (task_id,) = await w.schedule()
    await asyncio.sleep(0.1)
    assert await w.pop() == [task_id]
    await asyncio.sleep(10)
    assert await w.pop() == [task_id]


# --- failures ---------------------------------------------------------------------------------------------------------


@virtual(world(partitions=2))
async def test_a_partition_that_fails_is_tried_with_pauses_and_the_other_goes_on(
    w: World,
) -> None:
    w.broken = {0}
    w.start()
    (good,) = await w.schedule(partition=1)
    (bad,) = await w.schedule(partition=0)
    await asyncio.sleep(60)
    assert await w.pop(1) == [good]
    assert w.passes[0] < 60 / 0.15  # pauses of 0.3 s, of which chance may take half
    w.broken = set()
    await asyncio.sleep(0.4)
    assert await w.pop(0) == [bad]


def test_an_outage_is_said_once_and_its_end_once(capsys: pytest.CaptureFixture[str]) -> None:
    @virtual(world(partitions=4))
    async def story(w: World) -> None:
        w.start()
        w.broken = {0, 1, 2, 3}
        await asyncio.sleep(60)
        w.broken = set()
        await asyncio.sleep(10)

    story()
    said = capsys.readouterr().err
    assert said.count("store unavailable") == 1


# --- the outbox -------------------------------------------------------------------------------------------------------


@virtual(world(partitions=3))
async def test_what_a_partition_owes_is_delivered_and_retried_until_it_is(w: World) -> None:
    w.undeliverable = {2}
    w.owed = [OutboxRecord(0, 1, 1, b"one"), OutboxRecord(0, 2, 2, b"two")]
    w.start()
    await asyncio.sleep(1)
    assert [each.body for each in w.delivered] == [b"one"]
    (task_id,) = await w.schedule(partition=0)
    await asyncio.sleep(0.1)
    assert await w.pop(0) == [task_id], "a target that is down holds up no pass"
    await asyncio.sleep(20)
    w.undeliverable = set()
    await asyncio.sleep(10)
    assert [each.body for each in w.delivered] == [b"one", b"two"]


# --- the sweep --------------------------------------------------------------------------------------------------------


@virtual(world(partitions=2))
async def test_finished_tasks_are_removed_when_their_retention_is_over(w: World) -> None:
    w.start()
    ids = [*await w.schedule(300, partition=0, retention=10), *await w.schedule(5, partition=1, retention=10)]
    await asyncio.sleep(0.1)
    for partition in (0, 1):
        held = await w.claim(await w.pop(partition))
        await w.store.set_results([RunResult(each, Outcome.SUCCEEDED) for each in held])
    await asyncio.sleep(9)
    assert None not in await w.store.get_tasks(ids)
    await asyncio.sleep(10)
    assert set(await w.store.get_tasks(ids)) == {None}


@virtual(world())
async def test_a_sweep_says_how_many_records_it_removed(w: World) -> None:
    await w.schedule(600, retention=1)
    await w.consumer().once(0)
    while ids := await w.pop(want=256):
        held = await w.claim(ids)
        await w.store.set_results([RunResult(each, Outcome.SUCCEEDED) for each in held])
        await w.consumer().once(0)
    sweeper = Sweeper(store=w.store, settings=StoreConsumerSettings(), runtime=w.runtime)
    assert await sweeper.once(0) == 0
    await asyncio.sleep(2)
    assert await sweeper.once(0) == 600


@virtual(world())
async def test_a_sweep_leaves_four_fifths_of_the_time_to_others_until_it_falls_behind(w: World) -> None:
    begun, left = list[float](), [256] * 6

    async def sweep(_partition: int, _kept: int, *, early: bool) -> int:
        if early:
            return 0
        begun.append(w.runtime.monotonic())
        await asyncio.sleep(0.1)
        return left.pop() if left else 0

    w.store.sweep = sweep  # type: ignore[method-assign, assignment]
    sweeper = Sweeper(store=w.store, settings=StoreConsumerSettings(sweep_interval=1.0), runtime=w.runtime)
    assert await sweeper.once(0) == 6 * 256
    assert [round(then - first, 3) for first, then in pairwise(begun)] == [0.5, 0.5, 0.2, 0.2, 0.2, 0.2]


@virtual(world())
async def test_finished_tasks_go_early_only_while_their_server_is_too_full(w: World) -> None:
    full, calls = [0.81, 0.9, 0.8], list[bool]()

    async def sweep(_partition: int, _kept: int, *, early: bool) -> int:
        calls.append(early)
        return 64 if early else 0

    async def memory_ratio(_partition: int) -> float:
        return full.pop(0)

    w.store.sweep, w.store.memory_ratio = sweep, memory_ratio  # type: ignore[method-assign, assignment]
    sweeper = Sweeper(store=w.store, settings=StoreConsumerSettings(retention_memory=0.8), runtime=w.runtime)
    assert (await sweeper.once(0), calls) == (128, [False, True, True])
    full.append(0.5)
    assert await sweeper.once(0) == 0
    off = Sweeper(store=w.store, settings=StoreConsumerSettings(retention_memory=1), runtime=w.runtime)
    assert await off.once(0) == 0, "it does not even ask"


@virtual(world())
async def test_a_server_that_stays_too_full_holds_a_sweep_up_for_one_interval(w: World) -> None:
    async def sweep(_partition: int, _kept: int, *, early: bool) -> int:
        await asyncio.sleep(0.1)
        return 64 if early else 0

    async def memory_ratio(_partition: int) -> float:
        return 1.0

    w.store.sweep, w.store.memory_ratio = sweep, memory_ratio  # type: ignore[method-assign, assignment]
    settings = StoreConsumerSettings(sweep_interval=2.0, retention_memory=0.8)
    begun = w.runtime.monotonic()
    assert await Sweeper(store=w.store, settings=settings, runtime=w.runtime).once(0) == 10 * 64
    assert w.runtime.monotonic() - begun < 3
