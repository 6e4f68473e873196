"""Queues: bounded, never doubled by a backlog, repaired when something is lost, visited in turns, and paused."""

from __future__ import annotations

import itertools

import pytest

from atf.store import keys, library
from atf.store.servers.notifications import place_of
from atf.store.values.claims import Outcome
from atf.store.values.lambdas import LambdaRecord
from atf.task import MAX_BATCH, US, Status
from tests.claiming import claim_ids, serve_queues

from .conftest import OpenStore
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, World, dump, held, to


async def limit_to(world: World, limit: int, name: str = LAMBDA, enqueue_timeout_us: int = ENQUEUE_TIMEOUT_US) -> None:
    await world.store.register_lambdas([LambdaRecord(name, b"", limit, enqueue_timeout_us, paused=False)])


# --- the bound --------------------------------------------------------------------------------------------------------


async def test_a_queue_is_never_longer_than_its_limit(world: World) -> None:
    await limit_to(world, 5)
    await world.schedule(*(f"t{number:02}" for number in range(12)))
    assert await world.passes() == (5, 0, 0)
    assert len(await world.queued()) == 5
    await world.check()
    await world.take(want=2)
    assert await world.passes() == (2, 0, 0)
    assert len(await world.queued()) == 5


@pytest.mark.parametrize("by", ["the code", "an operator"])
async def test_a_limit_below_what_is_queued_loses_nothing_and_lets_nothing_in_before_there_is_room(
    world: World, by: str
) -> None:
    await limit_to(world, 30)
    ids = await world.schedule(*(f"t{number:02}" for number in range(40)))
    assert await world.passes() == (30, 0, 0)
    await (limit_to(world, 4) if by == "the code" else world.store.set_lambda(LAMBDA, to("limit=4")))
    assert await world.passes() == (0, 0, 0)
    assert await world.queued() == ids[:30]
    await world.check()
    taken = []
    for want, left, pushed in ((10, 20, 0), (16, 4, 0), (1, 3, 1), (4, 0, 4), (4, 0, 4), (1, 3, 1)):
        taken += await world.take(want=want)
        assert len(await world.queued()) == left
        assert await world.passes() == (pushed, 0, 0)
    assert taken + await world.queued() == ids
    await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*ids)))
    await world.check()
    assert await world.statuses(ids) == ["SUCCESS"] * 40


async def test_what_comes_back_waits_for_room_too(world: World) -> None:
    await limit_to(world, 3)
    (claim,) = await world.run("early", started=False)
    await world.schedule("a", "b", "c")
    await world.passes()
    await world.store.hand_back([claim])
    assert await world.passes() == (0, 0, 0)
    assert len(await world.queued()) == 3
    await world.check()
    await world.take(want=1)
    assert await world.passes() == (0, 1, 0)
    assert (await world.queued())[0] == claim.task_id  # it waited before the others


async def test_tasks_are_queued_in_the_order_in_which_they_are_due(world: World) -> None:
    for name, delay in (("c", 3), ("a", 1), ("b", 2)):
        await world.schedule(name, delay_us=delay * US)
    world.clock.advance(3)
    await world.passes()
    assert await world.queued() == ["0-a", "0-b", "0-c"]


async def test_a_pass_takes_no_more_than_a_batch(world: World) -> None:
    await world.schedule(*(f"t{number}" for number in range(MAX_BATCH + 10)))
    first = await world.store.enqueue(0, 0)
    assert (first.enqueued, first.next_in_us) == (MAX_BATCH, 0)
    second = await world.store.enqueue(0, 0)
    assert second.enqueued == 10
    assert second.next_in_us == ENQUEUE_TIMEOUT_US
    third = await world.store.enqueue(0, 0)
    assert (third.enqueued, third.next_in_us) == (0, ENQUEUE_TIMEOUT_US)


async def test_nothing_scheduled_is_nothing_to_wait_for(world: World) -> None:
    assert (await world.store.enqueue(0, 0)).next_in_us is None


async def test_a_full_queue_is_left_alone_until_a_pop_makes_room(world: World) -> None:
    await limit_to(world, 20)
    await world.schedule(*(f"t{number}" for number in range(30)))
    await world.passes()
    assert (await world.store.enqueue(0, 0)).next_in_us == library.FULL_REVISIT_US
    await world.take(want=1)  # less than a tenth of it
    assert (await world.store.enqueue(0, 0)).next_in_us == library.FULL_REVISIT_US
    await world.take(want=1)
    passed = await world.store.enqueue(0, 0)
    assert passed.enqueued == 2


async def test_a_full_queue_is_looked_at_again_by_itself(world: World) -> None:
    """Somebody else may have taken ids out of it, so its pop is not the only way to room."""
    await limit_to(world, 2)
    await world.schedule("a", "b", "c")
    await world.passes()
    await world.store.link.client.ltrim("rq:queue:{0}" + QUEUE, 1, -1)
    world.clock.advance(library.FULL_REVISIT_US / US)
    assert (await world.store.enqueue(0, 0)).enqueued == 1


async def test_a_full_queue_with_many_astray_does_not_spin(world: World) -> None:
    """A batch of ids that were popped and lost, none of which fits: the pass must not come back at once for ever."""
    await limit_to(world, MAX_BATCH)
    await world.schedule(*(f"a{number}" for number in range(MAX_BATCH)))
    await world.passes()
    assert len(await world.pop(want=MAX_BATCH)) == MAX_BATCH  # and never claimed
    await world.schedule(*(f"b{number}" for number in range(MAX_BATCH)))
    await world.passes()
    world.clock.advance(10)
    waits = [(await world.store.enqueue(0, 0)).next_in_us for _ in range(6)]
    assert waits[-1] == library.FULL_REVISIT_US
    await world.check()
    for _ in range(2):  # the ones astray first, then the others: nobody is left
        assert len(set(await world.pop())) == MAX_BATCH
        world.clock.advance(1)
        await world.passes()


async def test_a_full_queue_still_has_its_leases_ended(world: World) -> None:
    await limit_to(world, 1)
    (claim,) = await world.run("running")
    await world.schedule("a", "b")
    await world.passes()
    world.clock.advance(16)
    assert (await world.store.enqueue(0, 0)).lost == 1
    assert (await world.get(claim.task_id)).losses == 1


# --- no duplicates, nothing lost --------------------------------------------------------------------------------------


async def test_a_backlog_older_than_every_timeout_grows_no_duplicates(world: World) -> None:
    ids = await world.schedule(*(f"t{number:03}" for number in range(300)))
    await world.passes()
    for _ in range(5):
        world.clock.advance(60)
        assert await world.passes() == (0, 0, 0)
    assert await world.queued() == ids
    await world.check()


async def test_an_id_popped_and_lost_is_pushed_again_at_the_front(world: World) -> None:
    await world.schedule("a", "b", "c")
    await world.passes()
    assert await world.pop(want=1) == ["0-a"]
    world.clock.advance(9)
    assert await world.passes() == (0, 0, 0)
    world.clock.advance(1)
    assert await world.passes() == (0, 1, 0)
    assert await world.queued() == ["0-a", "0-b", "0-c"]


async def test_several_astray_come_back_in_their_order(world: World) -> None:
    ids = await world.schedule(*(f"t{number}" for number in range(8)))
    await world.passes()
    assert await world.pop(want=3) == ids[:3]
    world.clock.advance(10)
    assert await world.passes() == (0, 3, 0)
    assert await world.queued() == ids
    for round_trip in range(3):  # numbers given at the front are given again after a pop
        assert await world.pop(want=2) == ids[:2], round_trip
        world.clock.advance(10)
        await world.passes()
    assert sorted(await world.queued()) == ids


async def test_a_wiped_queue_is_filled_again(world: World) -> None:
    ids = await world.schedule("a", "b", "c")
    await world.passes()
    await world.store.link.client.delete("rq:queue:{0}" + QUEUE)
    world.clock.advance(10)
    assert await world.passes() == (0, 3, 0)
    assert await world.queued() == ids
    world.clock.advance(10)
    assert await world.passes() == (0, 0, 0)
    assert await world.pop() == ids


@pytest.mark.parametrize("status", [Status.NEW, Status.ENQUEUED, Status.CLAIMED, Status.PROCESSING])
async def test_a_record_that_somebody_deleted_holds_up_no_other_task(world: World, status: Status) -> None:
    if status in {Status.CLAIMED, Status.PROCESSING}:
        await world.run("gone", started=status is Status.PROCESSING)
    else:
        await world.schedule("gone")
    if status is Status.ENQUEUED:
        await world.passes()
        await world.pop()
    await world.schedule("other")
    await world.store.link.client.delete("atf:{0}:t:0-gone")
    world.clock.advance(20)
    assert await world.passes() == (1, 0, 0)
    assert [each.task_id for each in await world.claim(*await world.pop())] == ["0-other"]
    await world.check()


async def test_two_store_consumers_in_a_row_push_an_id_once(open_store: OpenStore, world: World) -> None:
    peer = await open_store()
    await world.schedule("a")
    assert (await world.store.enqueue(0, 0)).enqueued == 1
    assert (await peer.enqueue(0, 0)).enqueued == 0
    await world.pop()
    world.clock.advance(10)
    assert (await peer.enqueue(0, 0)).enqueued_again == 1
    assert (await world.store.enqueue(0, 0)).enqueued_again == 0
    assert await world.queued() == ["0-a"]


async def test_a_cancelled_task_in_a_queue_is_lost_on_its_claimant(world: World) -> None:
    ids = await world.schedule("a", "b")
    await world.passes()
    await world.store.cancel_tasks(ids[:1])
    popped = await world.pop()
    batch = await claim_ids(world.store, "executor-1", "n", popped, 1 << 20)
    assert (batch.lost, [each.task_id for each in batch.claims]) == (ids[:1], ids[1:])


# --- leases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [False, True])
async def test_an_expired_lease_is_found_before_a_longer_enqueue_timeout(world: World, started: bool) -> None:
    await limit_to(world, 100, enqueue_timeout_us=3600 * US)
    await world.run("a", started=started)
    await world.check()
    wait = (await world.store.enqueue(0, 0)).next_in_us
    assert wait == 16 * US
    world.clock.advance(16)
    assert (await world.store.enqueue(0, 0)).lost == 1


async def test_a_task_of_a_lambda_that_is_paused_still_has_a_lease(world: World) -> None:
    await limit_to(world, 100)
    ids = await world.schedule("a")
    await world.passes()
    await world.claim(*ids)
    await world.store.pause_lambda(LAMBDA)
    await world.passes()
    await world.check()
    world.clock.advance(16)
    assert await world.passes() == (0, 0, 1)


async def test_a_heartbeat_keeps_a_lease_from_ending(world: World) -> None:
    (claim,) = await world.run("a")
    for _ in range(5):
        world.clock.advance(15)
        assert await world.passes() == (0, 0, 0)
        await world.beat(claim)
    world.clock.advance(16)
    assert await world.passes() == (0, 1, 1)


# --- turns ------------------------------------------------------------------------------------------------------------


async def test_a_quiet_task_passes_a_thousand_full_queues(world: World) -> None:
    """Every queue full with more behind it; the quiet lambda's task is enqueued within a few passes of its instant."""
    count = 100 if world.store.link.in_process else 1000
    noisy = [f"noisy/n{number:04}" for number in range(count)]
    await world.store.register_lambdas([LambdaRecord(name, b"", 1, ENQUEUE_TIMEOUT_US, paused=False) for name in noisy])
    await world.passes(0)
    items = [world.task(f"{number}-{each}", lambda_name=name) for number, name in enumerate(noisy) for each in "ab"]
    await world.store.schedule(items)
    world.clock.advance(0.001)
    await world.passes()
    (quiet,) = await world.schedule("quiet", lambda_name="z/quiet", delay_us=US)
    world.clock.advance(1)
    passes = 0
    while (await world.get(quiet)).status is Status.NEW:
        await world.store.enqueue(0, 0)
        world.clock.advance(0.001)
        passes += 1
    assert passes <= count // library.VISITS_PER_PASS + 2


async def test_a_quiet_task_passes_sixteen_floods(world: World) -> None:
    for number in range(16):
        await world.store.schedule(
            [world.task(f"{number}-{each}", lambda_name=f"noisy/n{number}") for each in range(300)]
        )
    world.clock.advance(0.001)
    (quiet,) = await world.schedule("quiet", lambda_name="z/quiet")
    passes = 0
    while (await world.get(quiet)).status is Status.NEW:
        await world.store.enqueue(0, 0)
        world.clock.advance(0.001)
        passes += 1
    assert passes <= 18


# --- paused -----------------------------------------------------------------------------------------------------------


async def test_a_paused_lambda_is_neither_pushed_nor_taken(world: World) -> None:
    await limit_to(world, 100)
    await world.schedule("a")
    await world.passes()
    await world.store.pause_lambda(LAMBDA)
    await world.schedule("b")
    assert await world.passes() == (0, 0, 0)
    assert (await world.store.enqueue(0, 0)).next_in_us is None  # and nobody wakes up for it
    assert await world.take() == []
    await world.check()
    await world.store.resume_lambda(LAMBDA)
    assert await world.passes() == (1, 0, 0)
    assert await world.take() == ["0-a", "0-b"]
    await world.check()


async def test_a_pause_reaches_every_partition(world: World) -> None:
    await limit_to(world, 100)
    await world.store.pause_lambda(LAMBDA)
    await world.schedule("a", partition=1)
    assert await world.passes(1) == (0, 0, 0)
    await world.store.resume_lambda(LAMBDA)
    assert await world.passes(1) == (1, 0, 0)


async def test_leases_of_a_paused_lambda_still_end(world: World) -> None:
    await limit_to(world, 100)
    (claim,) = await world.run("a")
    await world.store.pause_lambda(LAMBDA)
    assert await world.passes() == (0, 0, 0)
    assert (await world.store.enqueue(0, 0)).next_in_us == 16 * US
    world.clock.advance(16)
    assert await world.passes() == (0, 0, 1)
    assert (await world.get(claim.task_id)).status is Status.ENQUEUED
    assert await world.queued() == []


async def test_what_came_back_during_a_pause_is_pushed_at_once_when_it_ends(world: World) -> None:
    await limit_to(world, 100)
    first, second = await world.run("a", "b", started=False)
    await world.store.pause_lambda(LAMBDA)
    await world.store.hand_back([first])
    await world.passes()
    world.clock.advance(20)
    await world.passes()  # the second one's lease ends
    await world.store.resume_lambda(LAMBDA)
    assert await world.passes() == (0, 2, 0)
    assert await world.queued() == [first.task_id, second.task_id]


async def test_a_backlog_of_a_paused_lambda_grows_no_duplicates(world: World) -> None:
    await limit_to(world, 100)
    ids = await world.schedule("a", "b")
    await world.passes()
    await world.store.pause_lambda(LAMBDA)
    world.clock.advance(600)
    await world.passes()
    await world.store.resume_lambda(LAMBDA)
    assert await world.passes() == (0, 0, 0)
    assert await world.queued() == ids


# --- pop --------------------------------------------------------------------------------------------------------------


async def fill(world: World, **sizes: int) -> None:
    for name, size in sizes.items():
        await world.schedule(*(f"{name}{number}" for number in range(size)), lambda_name=f"x/{name}")
    await world.passes()


async def test_queues_of_a_group_share_evenly(world: World) -> None:
    await fill(world, a=50, b=50, c=2)
    popped = await serve_queues(world.store, 0, [["x/a:1", "x/b:1", "x/c:1"]], 20)
    assert {queue: len(ids) for queue, ids in popped} == {"x/a:1": 9, "x/b:1": 9, "x/c:1": 2}


async def test_less_than_one_each_goes_to_the_first_named(world: World) -> None:
    """Whoever pops little turns the names round between calls."""
    await fill(world, a=5, b=5, c=5)
    popped = await serve_queues(world.store, 0, [["x/b:1", "x/c:1", "x/a:1", "x/d:1"]], 2)
    assert sorted(popped) == [("x/a:1", []), ("x/b:1", ["0-b0"]), ("x/c:1", ["0-c0"])]


async def test_a_group_is_emptied_before_the_next_one(world: World) -> None:
    await fill(world, a=3, b=5)
    popped = await serve_queues(world.store, 0, [["x/a:1"], ["x/b:1"]], 4)
    assert popped == [("x/a:1", ["0-a0", "0-a1", "0-a2"]), ("x/b:1", ["0-b0"])]
    assert await serve_queues(world.store, 0, [["x/a:1"], ["x/b:1"]], 10) == [
        ("x/b:1", ["0-b1", "0-b2", "0-b3", "0-b4"])
    ]
    assert await serve_queues(world.store, 0, [["x/a:1"], ["x/b:1"], []], 10) == []


async def test_a_priority_is_a_queue_of_its_own(world: World) -> None:
    await world.schedule("low", priority=2)
    await world.schedule("high", priority=0)
    await world.passes()
    popped = await serve_queues(world.store, 0, [[f"{LAMBDA}:0"], [f"{LAMBDA}:1"], [f"{LAMBDA}:2"]], 10)
    assert popped == [(f"{LAMBDA}:0", ["0-high"]), (f"{LAMBDA}:2", ["0-low"])]


# --- notifications ------------------------------------------------------------------------------------------------------


async def notified(world: World, kind: str, partitions: list[int], *happenings: object) -> list[set[str]]:
    """What is notified after each of some awaitables."""
    heard, words = [], itertools.count()
    async with world.store.listen(kind, partitions) as notifications:

        async def until_heard(partition: int) -> set[str]:
            """Says a word there, again until it is heard: on a Cluster one node's subscription is there before another's."""
            word, channel = f"word-{next(words)}.", keys.channel(partition, kind)
            messages: set[str] = set()
            while not any(each.endswith(word) for each in messages):
                await world.store.link.command("SPUBLISH", channel, word, key=channel)
                messages |= await notifications.wait(1)
            return {each for each in messages if "word-" not in each}

        for partition in partitions:
            await until_heard(partition)
        for happening in happenings:
            await happening()  # type: ignore[operator]
            heard.append(await until_heard(partitions[-1]))
    return heard


async def test_due_rings_when_the_earliest_instant_is_lowered(world: World) -> None:
    heard = await notified(
        world,
        "due",
        [0],
        lambda: world.schedule("a", delay_us=10 * US),
        lambda: world.schedule("b", delay_us=20 * US),
        lambda: world.schedule("c", delay_us=5 * US),
        lambda: world.schedule("d", delay_us=1 * US, partition=1),
    )
    assert heard == [{"{0}" + QUEUE}, set(), {"{0}" + QUEUE}, set()]


async def test_ready_names_the_queue_that_got_entries(world: World) -> None:
    await limit_to(world, 100)
    await world.schedule("a", partition=1)
    heard = await notified(
        world,
        "ready",
        [0, 1],
        lambda: world.store.enqueue(1, 0),
        lambda: world.store.enqueue(1, 0),
        lambda: world.store.pause_lambda(LAMBDA),
        lambda: world.store.resume_lambda(LAMBDA),
    )
    assert heard[:3] == [{"{1}" + QUEUE}, set(), set()]
    assert "{1}" + QUEUE in heard[3]
    assert place_of("{1}" + QUEUE) == (1, QUEUE)


@pytest.mark.parametrize("end", ["finish", "cancel", "lose", "hand_back"])
async def test_done_rings_for_those_that_are_watched_alone(world: World, end: str) -> None:
    claims = await world.run("watched", "unwatched", started=end != "hand_back", max_losses=1)
    ids = [each.task_id for each in claims]
    assert await world.store.watch_tasks(ids[:1]) == [Status.PROCESSING if end != "hand_back" else Status.CLAIMED]
    if end in {"cancel", "hand_back"}:
        await world.store.cancel_tasks(ids)
    ends = {
        "finish": lambda: world.finish(Outcome.SUCCEEDED, *claims),
        "cancel": lambda: world.finish(Outcome.STOPPED, *claims),
        "lose": lambda: world.store.report_loss(claims, "killed"),
        "hand_back": lambda: world.store.hand_back(claims),
    }
    assert await notified(world, "done", [0], ends[end]) == [set(ids[:1])]
    assert await world.store.watch_tasks([*ids, "0-nobody"]) == [*[(await world.get(ids[0])).status] * 2, None]
    await world.check()


async def test_a_watched_task_that_fails_rings_only_at_its_end(world: World) -> None:
    claims = await world.run("a")
    await world.store.watch_tasks(["0-a"])

    async def again() -> None:
        world.clock.advance(60)
        await world.passes()
        await world.finish(Outcome.SUCCEEDED, *held(await world.claim("0-a")))

    assert await notified(world, "done", [0], lambda: world.fail(*claims), again) == [set(), {"0-a"}]


async def test_without_wakeups_nothing_is_notified(open_store: OpenStore, world: World) -> None:
    quiet = await open_store(wakeups=False)
    async with quiet.listen("due", [0]) as notifications:
        await world.schedule("a")
        assert await notifications.wait(0.001) == set()


async def test_queues_are_what_rq_sees(world: World) -> None:
    await world.schedule("a", "b")
    await world.schedule("c", partition=1, priority=2)
    await world.passes(0)
    await world.passes(1)
    await world.store.link.client.sadd("rq:queues", "rq:queue:somebody-else")
    depths = [
        (each.name, each.partition, each.lambda_name, each.priority, each.depth) for each in await world.store.queues()
    ]
    assert depths == [("{0}shop/mail:1", 0, LAMBDA, 1, 2), ("{1}shop/mail:2", 1, LAMBDA, 2, 1)]
    found = await dump(world.store)
    assert found.list("rq:queue:{0}shop/mail:1") == ["0-a", "0-b"]


async def test_a_pass_pushes_little_of_one_queue_where_others_have_live_tasks(world: World) -> None:
    await world.schedule(*(f"a{each}" for each in range(200)))
    await world.schedule("b", lambda_name="shop/bill", delay_us=US)
    assert (await world.store.enqueue(0, 0)).enqueued == 64
    assert (await world.store.enqueue(0, 0)).enqueued == 64
    world.clock.advance(1)
    assert (await world.store.enqueue(0, 0)).enqueued == 33  # half of a pass for each that is due
    assert await world.queued("shop/bill:1") == ["0-b"]


async def test_a_pass_pushes_much_of_a_queue_whose_neighbours_have_nothing_to_do_before_long(world: World) -> None:
    await world.schedule("b", lambda_name="shop/bill", delay_us=30 * 86_400 * US)
    await world.schedule(*(f"a{each}" for each in range(200)))
    assert (await world.store.enqueue(0, 0)).enqueued == 200


async def test_tasks_that_come_one_by_one_leave_no_instant_behind_in_the_due_index(world: World) -> None:
    """What a visit learns of the next one while it reads the one that is due."""
    await world.schedule("late", delay_us=7 * US)
    await world.schedule("now")
    assert (await world.store.enqueue(0, 0)).enqueued == 1
    assert (await world.store.enqueue(0, 0)).next_in_us == 7 * US
    world.clock.advance(7)
    last = await world.store.enqueue(0, 0)
    assert (last.enqueued, last.next_in_us) == (1, ENQUEUE_TIMEOUT_US - 7 * US)
    assert await world.queued() == ["0-now", "0-late"]


async def test_a_pass_pushes_much_of_a_queue_that_is_alone(world: World) -> None:
    await world.schedule(*(f"a{each}" for each in range(200)))
    assert (await world.store.enqueue(0, 0)).enqueued == 200


# --- what a controller looks for ----------------------------------------------------------------------------------------


async def test_all_queues_that_hold_something_are_named(world: World) -> None:
    names = [f"many/w{number}" for number in range(150)]
    await world.store.register_lambdas(
        [LambdaRecord(name, b"", 100, ENQUEUE_TIMEOUT_US, paused=False) for name in names]
    )
    for name in (names[0], names[70], names[149]):
        await world.schedule(f"of-{name[5:]}", lambda_name=name)
    await world.schedule("later", lambda_name=names[1], delay_us=US)
    filled = [f"{name}:1" for name in (names[0], names[149], names[70])]
    assert await world.store.filled_queues(0) == []
    await world.passes()
    assert sorted(await world.store.filled_queues(0)) == filled
    assert await world.pop(f"{names[70]}:1") == ["0-of-w70"]
    assert sorted(await world.store.filled_queues(0)) == filled[:2]
