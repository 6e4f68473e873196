"""A rolling upgrade: two function libraries on one store, each at work on the other's tasks.

Nothing has been released yet, so the other one is a copy of this tree's under another digest.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest
from hypothesis import settings

from atf.config.settings import StoreSettings, Timing
from atf.errors import ClaimsPaused, FailedPrecondition
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.store.values.claims import Outcome, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.lists import TaskQuery
from atf.store.values.tasks import RestoredTask
from atf.task import DEFAULT_RETENTION_US, US, Status
from tests.claiming import claim_ids, fresh_nonce, take

from . import test_model
from .conftest import OpenStore
from .versions import CURRENT, OTHER, Relay, in_place
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, LEASE_US, QUEUE, Clock, World, held

pytestmark = pytest.mark.sweep(1)  # real servers are what it is about

OLD_FIRST, NEW_FIRST = "the old one first", "the new one first"
SEEDS = 4


async def open_old(open_store: OpenStore) -> Store:
    with in_place(OTHER):
        return await open_store()


async def open_both(open_store: OpenStore, order: str) -> tuple[Store, Store]:
    """(the old one, the new one), loaded in this order."""
    if order == OLD_FIRST:
        old = await open_old(open_store)
        return old, await open_store()
    new = await open_store()
    return await open_old(open_store), new


async def libraries(store: Store) -> set[str]:
    """Names of the libraries on the server."""
    listed = await store.link.command("FUNCTION", "LIST")
    found = set()
    for entry in listed:
        known = dict(zip(entry[::2], entry[1::2], strict=True)) if isinstance(entry, list) else entry
        found.add((known.get(b"library_name") or known["library_name"]).decode())
    return found


async def whole_life(world: World) -> None:
    """Every verb, on tasks in every state, with the invariants after each step."""
    store = world.store
    await store.register_lambdas([LambdaRecord(LAMBDA, b"", 6, ENQUEUE_TIMEOUT_US, paused=False)])
    await store.pause_lambda(LAMBDA)
    await store.resume_lambda(LAMBDA)
    assert not (await store.list_lambdas())[LAMBDA].paused
    claims = await world.run("a", "b", "c", "d", "e", "f", started=False)
    await world.check()
    assert await world.beat(*claims[:5]) == [Verdict.OK] * 5
    assert await store.hand_back(claims[5:]) == [Verdict.OK]
    await world.schedule("k1", "k2", ordering_key="k")
    await world.schedule("w1", "w2", "later", delay_us=US)
    assert (await store.schedule([world.task("w1", delay_us=US)]))[0].existed
    await world.check()
    assert await store.watch_tasks(["0-a", "0-none"]) == [Status.PROCESSING, None]
    assert [each.cancel_requested for each in await store.cancel_tasks(["0-b"])] == [True]
    assert await world.beat(claims[1]) == [Verdict.CANCEL]
    await world.finish(Outcome.SUCCEEDED, claims[0], result=b"1")
    await world.finish(Outcome.STOPPED, claims[1])
    await world.fail(claims[2])
    await world.finish(Outcome.FAILED_FATAL, claims[3], error="no")
    assert await store.report_loss(claims[4:5], "killed") == [Verdict.OK]
    assert await world.finish(Outcome.SUCCEEDED, claims[4]) == [Verdict.LOST]
    assert await world.finish(Outcome.SUCCEEDED, claims[0]) == [Verdict.OK]  # once more
    await world.check()
    ids = ["0-a", "0-b", "0-c", "0-d", "0-e", "0-f"]
    expected = ["SUCCESS", "CANCELLED", "RETRIABLE_FAILURE", "FATAL_FAILURE", "ENQUEUED", "ENQUEUED"]
    assert await world.statuses(ids) == expected
    assert [each.retried for each in await store.retry_tasks(["0-d", "0-a"])] == [True, False]
    assert [each.cancelled for each in await store.cancel_tasks(["0-later"])] == [True]
    await world.check()
    await world.passes()
    popped = await world.pop(want=3)
    nonce = fresh_nonce()
    claimed = (await claim_ids(store, "executor-1", nonce, popped[:2])).claims
    assert held(await store.claims_of("executor-1", nonce)) == held(claimed), "the same ask again, by whatever version"
    await world.check()
    world.clock.advance(LEASE_US / US)  # two leases end, and one that was popped comes back
    enqueued, again, lost = await world.passes()
    assert (again >= 1, lost) == (True, 2), (enqueued, again, lost)
    await world.check()
    world.clock.advance(60)
    for _ in range(8):
        await world.passes()
        await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*await world.pop())))
        await world.check()
    explained = await store.explain_task("0-k2")
    assert explained is not None
    assert explained.record.status is Status.SUCCESS
    counts = await store.counts(LAMBDA)
    assert {status: count for status, count in counts.items() if count} == {Status.SUCCESS: 9, Status.CANCELLED: 2}
    query = TaskQuery(LAMBDA, statuses=[Status.SUCCESS])
    page = await store.list_tasks(query, 5)
    rest = await store.list_tasks(query, 5, page.next)
    assert len({each.id for each in page.tasks + rest.tasks}) == 9
    spec = RestoredTask("old", LAMBDA, 1, b"s", b"d", world.clock.us, 0, "", "", 1, 0, 1, 7, "rain")
    assert await store.restore([spec]) == [1]
    assert await store.restore([spec]) == [0]
    await world.check()
    world.clock.advance(DEFAULT_RETENTION_US / US + 600)
    while await store.sweep(0, 1000):
        await world.check()
    assert await world.statuses(ids) == [""] * 6
    await world.check()
    for task_id in ids:
        assert await store.watch_log(task_id, 10) == await store.get_log(task_id)


@pytest.mark.parametrize("order", [OLD_FIRST, NEW_FIRST])
async def test_each_version_works_on_what_the_other_did(open_store: OpenStore, clock: Clock, order: str) -> None:
    """Who makes the next call is left to chance; over all seeds each verb is called by both."""
    both = await open_both(open_store, order)
    assert {OTHER.name, CURRENT.name} == await libraries(both[0])
    calls: Counter[tuple[str, int]] = Counter()
    for seed in range(SEEDS):
        await both[0].link.command("FLUSHALL")
        relay = Relay(both, seed)
        await whole_life(World(cast("Store", relay), clock))
        calls += relay.calls
    assert {verb for verb, which in calls if which == 0} == {verb for verb, which in calls if which == 1}


@pytest.mark.parametrize("who", ["old", "new"])
@pytest.mark.parametrize("order", [OLD_FIRST, NEW_FIRST])
async def test_a_role_of_one_version_goes_on_while_the_other_is_loaded(
    open_store: OpenStore, clock: Clock, order: str, who: str
) -> None:
    """What it held before the other came it holds afterwards."""
    first = await (open_old(open_store) if order == OLD_FIRST else open_store())
    (claim,) = await World(first, clock).run("a")
    await World(first, clock).schedule("b")
    second = await (open_store() if order == OLD_FIRST else open_old(open_store))
    role = first if (who == "old") == (order == OLD_FIRST) else second
    world = World(role, clock)
    assert await world.beat(claim) == [Verdict.OK]
    assert await world.finish(Outcome.SUCCEEDED, claim) == [Verdict.OK]
    await world.passes()
    assert await world.pop() == ["0-b"]
    await world.finish(Outcome.SUCCEEDED, *held(await world.claim("0-b")))
    await world.check()


async def test_the_old_version_keeps_to_a_pause_of_claims_that_the_new_one_asked_for(
    open_store: OpenStore, clock: Clock
) -> None:
    old, new = await open_both(open_store, OLD_FIRST)
    await World(old, clock).schedule("a")
    await World(old, clock).passes()
    assert await new.pause_claims() == clock.us + LEASE_US
    with pytest.raises(ClaimsPaused, match="at least another 16 s"):
        await take(old, QUEUE)
    clock.advance(LEASE_US / US)
    await World(new, clock).passes()  # a store consumer sees it go by
    assert len(await World(old, clock).claim("0-a")) == 1


async def test_a_removed_library_comes_back_with_the_next_call_of_a_role_that_uses_it(open_store: OpenStore) -> None:
    old, new = await open_both(open_store, OLD_FIRST)
    await new.link.command("FUNCTION", "DELETE", OTHER.name)
    assert await libraries(new) == {CURRENT.name}
    assert await old.get_tasks(["0-none"]) == [None]
    assert await libraries(new) == {CURRENT.name, OTHER.name}


async def test_data_of_another_version_are_refused(open_store: OpenStore) -> None:
    store = await open_store()
    await store.link.command("HSET", "atf:{0}", "data", "2")
    with pytest.raises(FailedPrecondition, match="holds data of version 2, and this role's release works on version 1"):
        await open_store()


class MixedMachine(test_model.StoreMachine):
    """The model of the store, with each verb called by either version."""

    async def _open(self) -> Store:
        new = await super()._open()
        with in_place(OTHER):
            old = await Store.open(StoreSettings(partitions=1), Timing(), SystemRuntime(), fake=self.fake)
        old.now = self.clock
        self.opened.append(old)
        return cast("Store", Relay([new, old], seed=7))


TestMixedVersions = MixedMachine.TestCase
TestMixedVersions.settings = settings(test_model.TestStore.settings, max_examples=test_model.EXAMPLES or 10)
