"""What is due is pushed by the call that makes it due, unless something holds it, or older tasks of its queue are due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from atf.errors import Internal
from atf.store import keys
from atf.store.library import STRETCH
from atf.store.values.claims import Outcome
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, US
from tests.known import know

from .conftest import OpenStore
from .test_concurrency import QUEUE as IN_LINE
from .test_job_tasks import ticks
from .test_permits import declare
from .test_queues import limit_to, notified
from .world import LAMBDA, QUEUE, Clock, World, dump, held, labelled

OTHER = f"{LAMBDA}:2"
LIST = "rq:queue:{0}" + QUEUE
KEYED = keys.concurrency(LAMBDA, "anna", 1, IN_LINE)


@pytest.fixture
async def pushing(open_store: OpenStore, clock: Clock) -> World:
    """A world whose calls push."""
    return World(await open_store(1, push_when_scheduled=True), clock)


async def test_a_due_task_stands_in_its_queue_when_its_call_is_answered(pushing: World, clock: Clock) -> None:
    ids = await pushing.schedule("a", "b", "c")
    assert await pushing.queued() == ids
    record = await pushing.get(ids[0])
    assert record.status.name == "ENQUEUED"
    assert record.next_at_us == clock.us + DEFAULT_ENQUEUE_TIMEOUT_US
    await pushing.check()
    ids += await pushing.schedule("d")
    assert await pushing.passes() == (0, 0, 0)
    assert await pushing.pop() == ids
    await pushing.finish(Outcome.SUCCEEDED, *held(await pushing.claim(*ids)))
    await pushing.check()


async def test_a_task_of_a_later_instant_waits_for_it(pushing: World, clock: Clock) -> None:
    ids = await pushing.schedule("a", delay_us=1)
    assert await pushing.statuses(ids) == ["NEW"]
    clock.advance(1e-6)
    assert await pushing.passes() == (1, 0, 0)


async def test_what_is_pushed_and_lost_is_pushed_again(pushing: World, clock: Clock) -> None:
    ids = await pushing.schedule("a")
    await pushing.pop()
    clock.advance(DEFAULT_ENQUEUE_TIMEOUT_US / US)
    assert await pushing.passes() == (0, 1, 0)
    assert await pushing.pop() == ids
    await pushing.check()


async def test_what_stands_far_from_the_front_is_looked_at_less_often(pushing: World, clock: Clock) -> None:
    await pushing.store.link.command("RPUSH", LIST, *["0-gone"] * 2 * STRETCH, key="atf:{0}")
    ids = await pushing.schedule("a")
    assert (await pushing.get(ids[0])).next_at_us == clock.us + 3 * DEFAULT_ENQUEUE_TIMEOUT_US
    clock.advance(3 * DEFAULT_ENQUEUE_TIMEOUT_US / US)
    await pushing.store.link.command("LTRIM", LIST, "1", "-1", key="atf:{0}")
    assert await pushing.passes() == (0, 0, 0)
    assert (await pushing.get(ids[0])).next_at_us == clock.us + 2 * DEFAULT_ENQUEUE_TIMEOUT_US, (
        "only so many stand before it now"
    )
    late = await pushing.schedule("b", delay_us=1)
    clock.advance(1e-6)
    assert await pushing.passes() == (1, 0, 0)
    assert (await pushing.get(late[0])).next_at_us == clock.us + 3 * DEFAULT_ENQUEUE_TIMEOUT_US, "a pass says the same"


# --- what leaves it to a pass -----------------------------------------------------------------------------------------


async def _paused(world: World) -> None:
    await world.store.pause_lambda(LAMBDA)


async def _unknown(world: World) -> None:
    await world.store.link.command("DEL", f"atf:{{0}}:l:{LAMBDA}", key="atf:{0}")


async def _full(world: World) -> None:
    await limit_to(world, 1)
    assert await world.statuses(await world.schedule("first")) == ["ENQUEUED"]


async def _misfits(world: World) -> None:
    await world.store.serve("", 60, "", None, [f"{LAMBDA} aaa"])
    (claim,) = await world.run("unfit")
    await world.finish(Outcome.MISFIT, claim, error="no", signature="aaa", grace_us=US)


async def _older(world: World) -> None:
    await world.schedule("older", delay_us=US)
    world.clock.advance(1)


async def _older_retry(world: World) -> None:
    (claim,) = await world.run("older")
    await world.finish(Outcome.FAILED, claim, error="no", retry_in_us=US)
    world.clock.advance(1)


async def _gated(world: World) -> None:
    await world.gate("pause", team="web")


async def _limited(world: World) -> None:
    await declare(world, "running=1")
    await world.schedule("first")


async def _rated(world: World) -> None:
    await declare(world, "rate=1 burst=1")
    await world.schedule("first")


async def _ordered(world: World) -> None:
    await world.schedule("first", ordering_key="k")


async def _keyed(world: World) -> None:
    await world.schedule("first", concurrency=KEYED)


HOLDS: dict[str, tuple[Callable[[World], Awaitable[None]], dict[str, Any]]] = {
    "the lambda is paused": (_paused, {}),
    "the partition does not know the lambda": (_unknown, {}),
    "the queue is full": (_full, {}),
    "misfits are looked for": (_misfits, {}),
    "an older task is due": (_older, {}),
    "an older retry is due": (_older_retry, {}),
    "a gate": (_gated, {"labels": labelled(team="web")}),
    "max_running": (_limited, {}),
    "the rate": (_rated, {}),
    "an ordering key": (_ordered, {"ordering_key": "k"}),
    "a concurrency key": (_keyed, {"concurrency": KEYED}),
}


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["single", "batch"])
@pytest.mark.parametrize("hold", HOLDS)
async def test_what_is_held_is_stored_as_new(pushing: World, hold: str, names: list[str]) -> None:
    prepare, options = HOLDS[hold]
    await prepare(pushing)
    before = len(await pushing.queued())
    ids = await pushing.schedule(*names, **options)
    assert await pushing.statuses(ids) == ["NEW"] * len(ids)
    assert len(await pushing.queued()) == before
    await pushing.check()


@pytest.mark.parametrize(("settings", "most"), [("running=2", 2), ("rate=1 burst=1", 1)])
async def test_a_limit_lets_in_as_many_as_it_may(pushing: World, settings: str, most: int) -> None:
    await declare(pushing, settings)
    ids = await pushing.schedule("a", "b", "c")
    assert await pushing.queued() == ids[:most]
    assert await pushing.statuses(ids[most:]) == ["NEW"] * (3 - most)
    await pushing.check()


async def test_a_gate_keeps_only_what_it_is_for(pushing: World) -> None:
    await _gated(pushing)
    made = [pushing.task(each, labels=labelled(team=team)) for each, team in (("a", "db"), ("b", "web"), ("c", "db"))]
    ids = [each.id for each in await pushing.store.schedule(made)]
    assert await pushing.queued() == [ids[0], ids[2]]
    await pushing.check()


@pytest.mark.parametrize("hold", ["an ordering key", "a concurrency key"])
async def test_a_key_keeps_only_its_own_tasks(pushing: World, hold: str) -> None:
    prepare, options = HOLDS[hold]
    await prepare(pushing)
    held_back, free = await pushing.schedule("a", **options), await pushing.schedule("b")
    assert await pushing.queued() == ["0-first", *free]
    assert await pushing.statuses(held_back) == ["NEW"]
    await pushing.check()


async def test_a_call_pushes_no_more_than_its_queue_holds(pushing: World) -> None:
    await limit_to(pushing, 2)
    ids = await pushing.schedule("a", "b", "c")
    assert await pushing.queued() == ids[:2]
    assert await pushing.statuses(ids) == ["ENQUEUED", "ENQUEUED", "NEW"]
    assert await pushing.pop() == ids[:2]
    later = await pushing.schedule("d")
    await pushing.passes()
    assert await pushing.queued() == [ids[2], *later]
    await pushing.check()


async def test_tasks_keep_their_order_whoever_pushes_them(pushing: World, clock: Clock) -> None:
    ids = await pushing.schedule("a")
    ids += await pushing.schedule("b", delay_us=US)
    ids += await pushing.schedule("c", delay_us=2 * US)
    clock.advance(2)
    ids += await pushing.schedule("d", "e")
    assert await pushing.queued() == ids[:1]
    await pushing.passes()
    ids += await pushing.schedule("f")
    assert await pushing.queued() == ids
    await pushing.check()


async def test_tasks_with_keys_and_without_keep_their_order(pushing: World) -> None:
    made = [pushing.task(each, concurrency=KEYED if each == "b" else "") for each in "abcd"]
    ids = [each.id for each in await pushing.store.schedule(made)]
    assert await pushing.queued() == ids
    await pushing.check()


async def test_priorities_that_wait_for_a_limit_are_dealt_by_a_pass(pushing: World) -> None:
    await declare(pushing, "running=1")
    (first,) = await pushing.schedule("first")
    urgent = await pushing.schedule("urgent", priority=0)
    await pushing.pop()
    (claim,) = held(await pushing.claim(first))
    await pushing.finish(Outcome.SUCCEEDED, claim)
    late = await pushing.schedule("late", priority=2)
    await pushing.passes()
    assert await pushing.statuses([*urgent, *late]) == ["ENQUEUED", "NEW"]


async def test_the_setting_leaves_all_to_passes(open_store: OpenStore, clock: Clock) -> None:
    """Whoever calls decides: roles may be set differently while the setting is changed."""
    one = World(await open_store(1, push_when_scheduled=False), clock)
    other = World(await open_store(1, push_when_scheduled=True), clock)
    ids = await one.schedule("a", "b")
    ids += await other.schedule("c")
    assert await one.statuses(ids) == ["NEW"] * 3
    assert await one.passes() == (3, 0, 0)
    ids += await other.schedule("d")
    assert await one.queued() == ids


# --- other ways to become due -----------------------------------------------------------------------------------------


async def test_a_retry_without_a_wait_is_pushed(pushing: World) -> None:
    claims = await pushing.run("a", "b", max_attempts=9)
    await pushing.finish(Outcome.FAILED, claims[0], error="no", retry_in_us=0)
    await pushing.finish(Outcome.FAILED, claims[1], error="no", retry_in_us=1)
    assert await pushing.queued() == [claims[0].task_id]
    assert await pushing.statuses([each.task_id for each in claims]) == ["ENQUEUED", "RETRIABLE_FAILURE"]
    await pushing.check()
    (again,) = await pushing.claim(*await pushing.pop())
    assert (again.attempt, again.run) == (2, 2)


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED_FATAL])
async def test_the_next_of_an_ordering_key_is_pushed_when_the_one_before_has_ended(
    pushing: World, outcome: Outcome
) -> None:
    ids = await pushing.schedule("a", "b", "c", ordering_key="k")
    for number, task_id in enumerate(ids):
        assert await pushing.queued() == [task_id]
        assert await pushing.statuses(ids[number + 1 :]) == ["NEW"] * (2 - number)
        await pushing.finish(outcome, *held(await pushing.claim(*await pushing.pop())))
        await pushing.check()


async def test_the_next_of_a_concurrency_key_is_pushed_when_a_slot_is_free(pushing: World) -> None:
    ids = await pushing.schedule("a", "b", "c", concurrency=KEYED)
    assert await pushing.queued() == ids[:1]
    await pushing.finish(Outcome.SUCCEEDED, *held(await pushing.claim(*await pushing.pop())))
    assert await pushing.queued() == ids[1:2]
    await pushing.store.cancel_tasks(ids[1:2])
    assert await pushing.queued() == ids[1:]
    await pushing.check()


async def test_what_starts_afresh_is_pushed(pushing: World, clock: Clock) -> None:
    claims = await pushing.run("a", "b", "c")
    await pushing.finish(Outcome.FAILED_FATAL, *claims, error="no")
    a, b, c = (each.task_id for each in claims)
    await pushing.store.retry_tasks([a])
    assert await pushing.store.redrive([(b, 0), (c, US)], clock.us) == [True, True]
    assert await pushing.queued() == [a, b]
    assert await pushing.statuses([c]) == ["NEW"]
    await pushing.check()


async def test_items_are_pushed(pushing: World) -> None:
    await know(pushing.store, "shop/items")
    await pushing.items("b1", 0, 1, 2)
    ids = await pushing.queued("shop/items:1")
    assert [(await pushing.get(each)).status.name for each in ids] == ["ENQUEUED"] * 3
    await pushing.check()
    assert await pushing.items("b1", 0, 1, 2) == [True] * 3
    assert await pushing.queued("shop/items:1") == ids


async def test_a_run_of_a_job_beside_its_ticks_is_pushed(pushing: World) -> None:
    await pushing.store.schedule_jobs([pushing.job("shop/daily")])
    await pushing.store.run_job_now("shop/daily", pushing.task("extra"))
    assert await pushing.queued() == ["0-extra"]
    await pushing.check()


async def test_a_tick_is_pushed(pushing: World) -> None:
    await ticks(pushing, "one")
    assert await pushing.queued() == ["0-one"]
    await pushing.check()


# --- who is notified --------------------------------------------------------------------------------------------------


async def test_those_that_wait_for_the_queues_are_notified_and_no_store_consumer_is(pushing: World) -> None:
    await pushing.schedule("first")
    await pushing.schedule("first-too", priority=2)

    async def two() -> None:
        await pushing.store.schedule([pushing.task("a"), pushing.task("b", priority=2), pushing.task("c")])

    one: Callable[[], Awaitable[Any]] = lambda: pushing.schedule("d")  # noqa: E731
    assert await notified(pushing, "ready", [0], two, one) == [{"{0}" + QUEUE, "{0}" + OTHER}, {"{0}" + QUEUE}]
    assert await notified(pushing, "due", [0], lambda: pushing.schedule("e")) == [set()]


async def test_the_first_entries_of_a_queue_have_it_made_known_to_rq(pushing: World) -> None:
    assert await notified(pushing, "due", [0], lambda: pushing.schedule("a")) == [{"{0}" + QUEUE}]
    await pushing.passes()
    assert [(each.name, each.depth) for each in await pushing.store.queues()] == [("{0}" + QUEUE, 1)]


async def test_what_a_broken_call_has_made_due_is_found(pushing: World) -> None:
    """A key that somebody has overwritten fails the call in its middle."""
    await pushing.schedule("before")
    made = f"atf:{{0}}:n:{LAMBDA}"
    await pushing.store.link.command("RENAME", made, "atf:{0}:aside", key="atf:{0}")
    await pushing.store.link.command("SET", made, "x", key="atf:{0}")
    with pytest.raises(Internal):
        await pushing.store.schedule([pushing.task("a"), pushing.task("b")])
    await pushing.store.link.command("DEL", made, key="atf:{0}")
    await pushing.store.link.command("RENAME", "atf:{0}:aside", made, key="atf:{0}")
    found = await dump(pushing.store)
    assert QUEUE in found.zset("atf:{0}:due")
    stored = {each for each, task in found.tasks().items() if task["s"] == "ENQUEUED"}
    assert set(await pushing.queued()) >= stored - {"0-a", "0-b"}
