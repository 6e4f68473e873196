"""Every verb of the task store with its answer lost, and a store that errs, is slow, stands still, forgets or tells another time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import fakeredis
import pytest

from atf.config.settings import StoreSettings
from atf.errors import Unavailable
from atf.rpc import frontend_pb2 as f
from atf.store import keys, library
from atf.store.servers.connection import Link
from atf.store.status import LiveRole
from atf.store.store import Store
from atf.store.user_keys import HeldUniqueKey
from atf.store.values.batches import ItemTerms, NewItem
from atf.store.values.claims import Taker
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import RestoredTask
from atf.task import US, Status

from .line import SLOW_S, Fault
from .world import PARTITIONS, TIMING, H, World, app, charge, hopeless, of, one_by_one, play, step

VERBS: Final = sorted(library.verbs())


async def _a_day(world: World) -> None:
    """Uses every verb."""
    handles = await world.schedule(5) + await world.schedule(2, 0.2, fails=1)
    handles += await world.schedule(1, 5.0, delay=1)
    charges = await world.client.schedule_many([charge.prepare("42", fails=1) for _ in range(3)])
    (short,) = await world.schedule(1, 0.1, retention=2)
    await asyncio.sleep(0.5)
    world.hosts[0].crash()
    await asyncio.sleep(1.2)
    world.hosts[1].crash()
    await _desk_work(world)
    await world.succeed(handles)
    await world.succeed(charges)
    assert sorted([(await world.record(each)).result for each in charges]) == [b"false", b"false", b"true"]
    await _restore(world)
    async with asyncio.timeout(60):
        while await world.store.get_tasks([short.id]) != [None]:
            await asyncio.sleep(1)
    assert [run.ok for run in of(short)] == [True]


async def _desk_work(world: World) -> None:
    (never,) = await world.schedule(1, delay=3600)
    assert await world.client.cancel(never.id)
    letter = await world.client.schedule(hopeless.prepare())
    await world.finished([letter])
    store = await world.open_store()
    found = await world.sure(lambda: store.list_failures("f/hopeless:", 0, 10))
    assert [each.task_id for each in found.groups] == [letter.id]
    await world.client.retry(letter.id)
    await world.client.pause("f/hopeless")
    await world.client.resume("f/hopeless")
    await world.client.set_lambda("f/hopeless", {"queue_limit": 5})
    await world.succeed([letter])
    await _stopped_keys(world)
    assert await world.sure(lambda: store.get_log(never.id)) is not None
    assert [Status(each.status) async for each in world.client.watch_log(never.id)] == [Status.CANCELLED]
    assert (await world.client.explain(never.id)).task.status is Status.CANCELLED
    assert [each.id for each in await world.client.list("f/step", Status.CANCELLED)] == [never.id]
    assert {each.name for each in await world.client.lambdas()} == set(app.lambdas)
    await _jobs(world)
    await _limited(world)
    await _cores(world)
    await _gates(world)
    await _batches(world)


async def _batches(world: World) -> None:
    """One batch ends, is retried, extended, and deleted; one is cancelled. Each item runs once a round."""
    store = await world.open_store()
    spec = step.prepare(0.1).request.spec
    terms = ItemTerms("f/step", 1)

    async def put(name: str, *numbers: int) -> None:
        for number in numbers:
            item = NewItem(number, f"{number:032x}", spec.SerializeToString())
            partition = store.partition_for(f"{name}.{item.md5}")
            await world.sure(lambda where=partition, each=item: store.schedule_items(where, name, terms, [each]))  # type: ignore[misc]

    async def ended(name: str, count: int) -> None:
        async with asyncio.timeout(60):
            while not (
                (found := await world.sure(lambda: store.get_batch(name))) and found.ended and found.items == count
            ):
                await asyncio.sleep(0.5)

    for name in ("done", "stopped"):
        await world.sure(lambda of=name: store.open_batch(of, b"d", b"", "f/step", 3600 * US))  # type: ignore[misc]
        await put(name, 0, 1, 2)
    await world.sure(lambda: store.note_prefix("done", 3))
    await world.sure(lambda: store.note_error("done", "none"))
    await world.sure(lambda: store.close_batch("done", 3))
    await world.sure(lambda: store.cancel_batch("stopped"))
    await ended("done", 3)
    await ended("stopped", 3)
    assert (await world.sure(lambda: store.reserve_items("done", "more", 0, 1))).first == 3
    await put("done", 3)
    await ended("done", 4)
    (only,) = (await world.sure(lambda: store.list_batch_items("done", 3, 10))).items
    assert only.task.runs == 1
    await world.sure(lambda: store.list_batches(None, 10))
    await world.sure(lambda: store.delete_batch("done"))
    async with asyncio.timeout(60):
        while await world.sure(lambda: store.get_batch("done")):
            await asyncio.sleep(0.5)


async def _cores(world: World) -> None:
    """Tasks run under cores, and after they are gone."""
    await world.client.set_capacity(cores=2, reserve={"f/charge": 1})
    assert await world.client.pools_with_cores() == ["default"]
    await world.succeed(await world.schedule(3))
    store = await world.open_store()
    await world.sure(lambda: store.waiting(0, "", ["f/step"]))
    await world.client.set_capacity(cores=0)
    assert {each.name for each in await world.client.hosts()} <= {"host-0", "host-1"}


async def _gates(world: World) -> None:
    """A gate keeps a task until it is lifted; a dead letter is redriven; a lambda that does not fail is left alone."""
    await world.client.gate("f/step", "pause", labels={"team": "web"})
    kept = await world.client.schedule(step.options(labels={"team": "web"}).prepare(0.1))
    assert [each.labels for each in await world.client.gates("f/step")] == [{"team": "web"}]
    await world.client.lift_gate("f/step", labels={"team": "web"})
    await world.succeed([kept])
    letter = await world.client.schedule(hopeless.prepare())
    await world.finished([letter])
    await world.client.redrive("f/hopeless", dry_run=False)
    await world.succeed([letter])
    assert {"set_gate", "lift_gate", "redrive"} <= {each.what for each in await world.client.audit()}
    store = await world.open_store()
    assert await world.sure(lambda: store.judge("f/step")) is None


async def _limited(world: World) -> None:
    """A lambda of which one may run; an operator allows two."""
    handles = await world.client.schedule_many([one_by_one.prepare() for _ in range(4)])
    await world.client.set_lambda("f/one_by_one", {"max_running": 2})
    await world.succeed(handles)


async def _stopped_keys(world: World) -> None:
    """A key stops at its first task, goes on with it, stops at the second one, and goes on without that."""
    line = hopeless.options(ordering_key="k"), hopeless.options(ordering_key="k", delay=30)
    first, second = [await world.client.schedule(each.prepare()) for each in line]
    await world.finished([first])
    await world.client.resume_key("f/hopeless", "k", first.id)
    await world.succeed([first])
    await world.finished([second])
    assert [each.task_id for each in await world.client.stopped_keys("f/hopeless")] == [second.id]
    await world.client.skip_key("f/hopeless", "k", second.id)
    assert await world.client.stopped_keys("f/hopeless") == []


async def _jobs(world: World) -> None:
    """A job ticks each second until it is paused and deleted: once a tick, whatever goes astray."""
    made = await world.client.schedule_job("f/job", step.prepare(0.1), "@every 1s", misfire="all")
    async with asyncio.timeout(60):
        while (await world.client.get_job("f/job")).ticks < 3:
            await asyncio.sleep(0.5)
    await world.client.pause_job("f/job")
    assert [each.name for each in await world.client.list_jobs()] == ["f/job"]
    job = await world.client.get_job("f/job")
    assert job.skipped == 0
    assert made.next_tick_at is not None
    assert job.last_tick_at == made.next_tick_at + timedelta(seconds=job.ticks - 1)
    await world.client.run_job_now("f/job")
    await world.client.delete_job("f/job")


async def _restore(world: World) -> None:
    """As an import does; a repetition finds the id taken."""
    store = await world.open_store()
    spec = step.prepare(0.1).request.spec.SerializeToString()
    due_us = world.store_clock_us()
    task = RestoredTask("old", "f/step", 1, spec, b"d", due_us, due_us, "", "", 1, 1, 2, 7, "it rained")
    await world.sure(store.pause_claims)
    await world.sure(store.claim_pauses)
    await world.sure(lambda: store.retime(store.heartbeat_timeout_us))
    await world.sure(lambda: store.allow_direct(True))
    await world.sure(lambda: store.restore([task]))
    window = HeldUniqueKey("f/step:once", f"{store.partition_for('once')}-x", world.store_clock_us() + 60 * US)
    await world.sure(lambda: store.restore_unique_keys([window]))
    await world.sure(lambda: _listed(store, window))
    assert await world.sure(lambda: store.list_concurrency_keys("f/step", 9, "")) == ([], "")
    assert await world.sure(store.live_pools) == [""]
    await _asked(world, store)
    me = LiveRole("hsc", "1.0", "one:7")
    await world.sure(lambda: store.announce([me], 30, ["maxmemory warn"]))
    assert (await world.sure(lambda: store.renew_hosts("", 30, ["nobody"]))).unknown == {"nobody"}
    assert me in await world.sure(store.live_roles), "beside the controllers that report here"
    assert ("", "f/step") in await world.sure(store.served)
    assert await world.sure(lambda: store.set_token("t", b"{}"))
    assert not await world.sure(lambda: store.set_token("t", b"[]")), "it was not read as it is"
    assert (await world.sure(store.list_tokens) or (0, {}))[1] == {"t": b"{}"}
    await world.sure(lambda: store.drain_host("nobody", drains=True))
    await world.sure(lambda: store.drain_host("nobody", drains=False))
    await world.sure(lambda: store.register_lambdas([LambdaRecord("f/gone", b"", 6, US, paused=False)]))
    await world.sure(lambda: store.delete_lambda("f/gone"))
    assert "f/step" in (await world.sure(lambda: store.get_status(["f/step"], US))).lambdas
    (record,) = await world.finished([f"{store.partition_for('old')}-old"])
    assert (record.runs, record.attempts, record.losses) == (3, 2, 1)
    assert len(of(record.id)) == 1


async def _asked(world: World, store: Store) -> None:
    """An ask that finds nothing is repeated, and given up."""
    ask = Taker("executor-0", "nonce-0", 1)

    async def claims() -> Any:
        return await world.sure(lambda: store.next_claims(0, [["f/gone:1"]], [ask], want=1))

    assert (await claims()).claims == {"nonce-0": []}
    assert await world.sure(lambda: store.claims_of("executor-0", "nonce-0")) == []
    await world.sure(lambda: store.give_up_asks(["nonce-0"]))
    assert (await claims()).over == {"nonce-0"}
    assert await world.sure(lambda: store.filled_queues(0)) == []


async def _listed(store: Store, window: HeldUniqueKey) -> None:
    assert window in [each async for each in store.list_unique_keys()]


_NOT_LOST: Final = {"open_partition", "barrier", "resync_lambdas", "replace_audit"}
LOSES: Final = [each for each in VERBS if each not in _NOT_LOST]
"""Not "barrier": it is a part of other verbs' calls, and on real servers only. "resync_lambdas" is called where a server forgot its last second,
"replace_audit" where the store is full: the simulation loses the answers of both."""
DAYS: Final = 8
"""A day takes seconds: it is lived so often, each time with the answers of other verbs lost, of which none follow one another by name."""


@pytest.mark.parametrize("verbs", [LOSES[first::DAYS] for first in range(DAYS)], ids="+".join)
def test_the_answer_of_a_call_of_the_store_is_lost(verbs: list[str]) -> None:
    """It is done, and whoever called thinks that it is not."""

    def prepare(world: World) -> None:
        world.store_line.plan.update(dict.fromkeys(verbs, Fault.LOST_ANSWER))
        if "hand_back" in verbs:
            world.line.plan["next_work"] = Fault.LOST_ANSWER  # whose claims are handed back

    async def story(world: World) -> None:
        await _a_day(world)
        assert [each for each in verbs if not world.store_line.hits[each]] == [], "the day never calls them"

    play(story, prepare=prepare)


def test_an_opening_of_the_store_may_fail_after_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = Link.call
    failed: list[str] = []

    async def call(link: Link, verb: str, *args: Any, **kwargs: Any) -> Any:
        answer = await direct(link, verb, *args, **kwargs)
        if verb == "open_partition" and not failed:
            failed.append(verb)
            raise Unavailable("no answer")
        return answer

    async def story(world: World) -> None:
        monkeypatch.setattr(Link, "call", call)
        server, settings = fakeredis.FakeServer(), StoreSettings(partitions=PARTITIONS)
        with pytest.raises(Unavailable):
            await Store.open(settings, TIMING, world.runtime, fake=server)
        store = await Store.open(settings, TIMING, world.runtime, fake=server)
        await store.close()
        assert failed

    play(story, hosts=0)


@pytest.mark.parametrize(
    "fault", [Fault.REFUSED, Fault.LOST_ANSWER, Fault.SLOW], ids=["refused", "lost answer", "slow"]
)
def test_every_third_call_of_the_store_fails(fault: Fault) -> None:
    def prepare(world: World) -> None:
        world.store_line.plan.update(dict.fromkeys(VERBS, fault))

    async def story(world: World) -> None:
        await _a_day(world)

    play(story, prepare=prepare)


@pytest.mark.parametrize(("seconds", "ends"), [(4.0, set()), (H + 4, {75})], ids=["within the tolerance", "beyond it"])
def test_a_store_that_stands_still(seconds: float, ends: set[int]) -> None:
    """Executors bear it for three heartbeats; then they end themselves, and their tasks run again."""

    async def story(world: World) -> None:
        handles = await world.schedule(4, 8.0) + await world.schedule(4, 0.5, delay=1.0)
        await asyncio.sleep(0.9)
        await world.store_line.stall(seconds)
        await world.succeed(handles)
        assert {code for host in world.hosts for code in host.codes} == ends
        assert all(len(of(handle)) == (2 if ends else 1) for handle in handles[:4])

    play(story)


def test_every_call_of_the_store_is_slow_for_a_while() -> None:
    """Everything takes longer. Nothing is lost, nothing runs twice, and no executor ends itself."""

    async def story(world: World) -> None:
        handles = await world.schedule(4, 8.0) + await world.schedule(8, 0.5, delay=2)
        await world.until(lambda: len(_all(handles)) == 4)
        world.store_line.slow_s = SLOW_S
        for _ in range(4):
            await asyncio.sleep(H)
            handles += await world.schedule(8, 0.5)
        world.store_line.slow_s = 0
        await world.succeed(handles)
        assert all(len(of(handle)) == 1 for handle in handles)
        assert [host.codes for host in world.hosts] == [[], []]

    play(story)


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, 5.0, -5.0])
def test_the_store_s_clock_jumps(jump_s: float) -> None:
    """No lease of a live executor ends by it: everything runs once."""

    async def story(world: World) -> None:
        handles = await world.schedule(4, 8.0)
        await world.until(lambda: len(_all(handles)) == 4)
        await asyncio.sleep(1)
        world.skew_us += round(jump_s * US)
        handles += await world.schedule(4, 0.5)
        await world.succeed(handles)
        assert all(len(of(handle)) == 1 for handle in handles)

    play(story)


def _all(handles: list[Any]) -> list[Any]:
    return [run for handle in handles for run in of(handle)]


def test_the_store_is_rolled_back_by_a_second() -> None:
    """Claims that it has forgotten are not given again before their executors have ended; tokens still grow."""

    async def story(world: World) -> None:
        (long,) = await world.schedule(1, 6.0)
        waiting = await world.schedule(3, 6.0, delay=2)
        await asyncio.sleep(1.5)
        before = world.dump()
        await world.until(lambda: len(_all(waiting)) == 3)
        first = {handle.id: of(handle)[0].fence for handle in waiting}
        await asyncio.sleep(0.4)
        await world.forget(before)
        world.store_line.plan["resync_lambdas"] = Fault.LOST_ANSWER
        world.server_id = ("2", "0")
        forgotten_at = asyncio.get_running_loop().time()
        await world.succeed([long, *waiting])
        for handle in waiting:
            assert of(handle)[-1].fence > first[handle.id]
            assert of(handle)[-1].start >= forgotten_at + H
        assert len(of(long)) == 1, "its claim was known: it went on"
        assert world.store_line.hits["resync_lambdas"] > 0

    play(story)


def test_a_store_that_restarted_and_forgets_nothing_needs_no_pause() -> None:
    async def story(world: World) -> None:
        running = await world.schedule(2, 4.0)
        await world.until(lambda: len(_all(running)) == 2)
        world.store_line.down.add("*")
        await asyncio.sleep(3)
        world.store_line.down.clear()
        world.server_id = ("2", "1")
        handles = await world.schedule(4, 0.1)
        await world.succeed([*running, *handles], within=8)
        assert all(len(of(handle)) == 1 for handle in [*running, *handles])

    play(story)


def test_a_wiped_queue_is_filled_again() -> None:
    async def story(world: World) -> None:
        handles = await world.schedule(20, 0.1)
        await asyncio.sleep(0.5)
        client = world.store.link.client
        wiped = [key for partition in range(PARTITIONS) for key in [f"rq:queue:{keys.rq_name(partition, 'f/step:1')}"]]
        assert await client.delete(*wiped) > 0
        await world.add_host()
        began = asyncio.get_running_loop().time()
        await world.succeed(handles)
        assert asyncio.get_running_loop().time() - began < 15, "enqueue_timeout is 10 s"
        assert all(len(of(handle)) == 1 for handle in handles)

    play(story, hosts=0)


def test_a_registration_that_died_half_way_reaches_every_partition() -> None:
    """Whoever paused the lambda is gone before it told the other partitions: a store consumer does it."""

    async def story(world: World) -> None:
        world.store_line.down.add("list_outbox")
        with pytest.raises(Unavailable):
            await world.frontend.pause_lambda(_pause("f/step"))
        world.store_line.down.clear()
        await asyncio.sleep(2)
        handles = await world.schedule(12, 0.1)
        assert {handle.id[0] for handle in handles} == {"0", "1"}
        await asyncio.sleep(3)
        assert _all(handles) == []
        await world.client.resume("f/step")
        await world.succeed(handles)

    play(story)


def _pause(name: str) -> f.PauseLambdaRequest:
    request = f.PauseLambdaRequest(who="ada")
    setattr(request, "lambda", name)
    return request
