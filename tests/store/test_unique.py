"""Unique keys: one task of a key within a window."""

from __future__ import annotations

from typing import Any

from atf.store import keys
from atf.store.values.claims import Outcome
from atf.store.values.keys import KeyAnswer
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import RetryResult, Scheduled
from atf.task import TOMBSTONE_US, US, Status

from .world import LAMBDA, World, held

THROTTLE, DEBOUNCE = range(2)
WINDOW_S = 10


async def ask(
    world: World, name: str, policy: int = THROTTLE, key: str = "anna", *, joins: bool = False, **options: Any
) -> Scheduled:
    options.setdefault("digest", name.encode())
    unique = keys.unique(LAMBDA, key, WINDOW_S * US, policy)
    (answer,) = await world.store.schedule([world.task(name, unique=unique, **options)._replace(joins=joins)])
    await world.check()
    return answer


async def due(world: World) -> list[str]:
    await world.passes()
    await world.check()
    return await world.pop()


async def test_the_first_of_a_window_is_the_task_and_later_ones_find_it(world: World) -> None:
    assert await ask(world, "a") == Scheduled("0-a", False, False, world.clock.us)
    begun = world.clock.us
    world.clock.advance(WINDOW_S - 1)
    assert await ask(world, "b") == Scheduled("0-a", True, False, begun)
    assert await due(world) == ["0-a"]
    world.clock.advance(1)
    assert (await ask(world, "c")).id == "0-c"


async def test_the_window_lasts_longer_than_its_task(world: World) -> None:
    await ask(world, "a")
    await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*await due(world))))
    assert (await ask(world, "b")).id == "0-a"
    assert await due(world) == []


async def test_a_key_is_free_again_when_its_task_was_cancelled_before_it_ran(world: World) -> None:
    begun = world.clock.us
    await ask(world, "new")
    await world.store.cancel_tasks(["0-new"])
    assert await ask(world, "queued") == Scheduled("0-queued", False, False, begun)
    assert await due(world) == ["0-queued"]
    await world.store.cancel_tasks(["0-queued"])
    assert (await ask(world, "claimed")).id == "0-claimed"
    (claim,) = held(await world.claim(*await due(world)))
    await world.store.cancel_tasks(["0-claimed"])
    assert (await ask(world, "meanwhile")).id == "0-claimed", "its executor has not answered yet"
    await world.finish(Outcome.STOPPED, claim, error="cancelled before it started", began=False)
    assert (await ask(world, "free")).id == "0-free"
    world.clock.advance(WINDOW_S - 1)
    assert (await ask(world, "late")).id == "0-free", "it has a window of its own"


async def test_a_task_that_was_stopped_or_had_failed_keeps_its_window(world: World) -> None:
    for number, outcome in enumerate((Outcome.STOPPED, Outcome.FAILED, Outcome.HANDED_BACK)):
        await ask(world, f"a{number}", key=f"key-{number}")
        claims = held(await world.claim(*await due(world)))
        if outcome is Outcome.STOPPED:
            await world.store.cancel_tasks([f"0-a{number}"])
        await world.finish(outcome, *claims, error="x", ran_us=US, retry_in_us=US)
        await world.store.cancel_tasks([f"0-a{number}"])
        assert (await world.get(f"0-a{number}")).status is Status.CANCELLED
        assert (await ask(world, f"b{number}", key=f"key-{number}")).id == f"0-a{number}"


async def test_a_cancelled_task_that_starts_afresh_has_its_window_again(world: World) -> None:
    await ask(world, "a")
    await world.store.cancel_tasks(["0-a"])
    await world.store.retry_tasks(["0-a"])
    assert (await ask(world, "b")).id == "0-a"


async def test_a_retry_is_refused_while_another_task_holds_the_key(world: World) -> None:
    await ask(world, "a")
    await world.store.cancel_tasks(["0-a"])
    assert (await ask(world, "b")).id == "0-b"
    assert await world.store.retry_tasks(["0-a"]) == [RetryResult(Status.CANCELLED, False, "0-b", LAMBDA)]
    await world.check()
    assert await due(world) == ["0-b"]


async def test_a_retry_takes_the_key_again_when_its_holder_has_ended(world: World) -> None:
    """Else the next call made a task beside the one that was retried."""
    await ask(world, "a")
    await world.store.cancel_tasks(["0-a"])
    await ask(world, "b")
    await world.store.cancel_tasks(["0-b"])
    assert await world.store.retry_tasks(["0-a"]) == [RetryResult(Status.NEW, True, "", LAMBDA)]
    assert (await ask(world, "c")).id == "0-a"
    assert await world.store.retry_tasks(["0-b"]) == [RetryResult(Status.CANCELLED, False, "0-a", LAMBDA)]


async def test_a_dead_letter_stays_one_while_a_task_of_a_later_window_holds_its_key(world: World) -> None:
    await ask(world, "a")
    await world.finish(Outcome.FAILED_FATAL, *held(await world.claim(*await due(world))), error="x")
    world.clock.advance(WINDOW_S)
    await ask(world, "b")
    assert await world.store.retry_tasks(["0-a"]) == [RetryResult(Status.FATAL_FAILURE, False, "0-b", LAMBDA)]
    assert await world.store.redrive([("0-a", 0)], 0) == [False]
    world.clock.advance(WINDOW_S)
    assert await world.store.retry_tasks(["0-a"]) == [RetryResult(Status.NEW, True, "", LAMBDA)], "the window is over"


async def test_a_stopped_key_is_not_resumed_beside_the_holder(world: World) -> None:
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 10, US, paused=False, settings="stop=1")])
    await ask(world, "a", ordering_key="customer-7")
    await world.finish(Outcome.FAILED_FATAL, *held(await world.claim(*await due(world))), error="x")
    world.clock.advance(WINDOW_S)
    await ask(world, "b", ordering_key="customer-7")
    assert await world.store.resume_key(LAMBDA, "customer-7") == (KeyAnswer.HELD, "0-b")
    assert await world.store.skip_key(LAMBDA, "customer-7") == (KeyAnswer.DONE, "0-a")
    await world.check()


async def test_keys_do_not_meet(world: World) -> None:
    assert [(await ask(world, name, key=name)).id for name in "abc"] == ["0-a", "0-b", "0-c"]


async def test_a_repeated_request_finds_what_it_found(world: World) -> None:
    """Also when its window is over: its first answer was lost."""
    await ask(world, "a")
    await ask(world, "b")
    world.clock.advance(WINDOW_S)
    assert (await ask(world, "b")).id == "0-a"
    assert (await ask(world, "b", digest=b"another")).conflict
    world.clock.advance(TOMBSTONE_US / US)
    await world.store.sweep(0, 1000)
    await world.check()
    assert (await ask(world, "b")).id == "0-b"


async def test_each_request_puts_the_task_off_and_the_last_one_counts(world: World) -> None:
    for name in ("a", "b", "c"):
        answer = await ask(world, name, DEBOUNCE, spec=name.encode(), max_attempts=1 + ord(name[0]) - ord("a"))
        assert (answer.id, answer.scheduled_at_us) == ("0-a", world.clock.us + WINDOW_S * US)
        assert await due(world) == []
        world.clock.advance(WINDOW_S - 1)
    assert await due(world) == []
    world.clock.advance(1)
    (claim,) = await world.claim(*await due(world))
    assert claim.spec == b"c"
    assert (await world.get("0-a")).limits.startswith("3 ")
    assert (await ask(world, "d", DEBOUNCE)).id == "0-d"


async def test_requests_of_one_call_are_put_off_too(world: World) -> None:
    unique = keys.unique(LAMBDA, "anna", WINDOW_S * US, DEBOUNCE)
    tasks = [
        world.task(name, unique=unique, spec=name.encode(), delay_us=delay)
        for name, delay in (("a", 0), ("b", 60 * US))
    ]
    assert [each.id for each in await world.store.schedule(tasks)] == ["0-a", "0-a"]
    await world.check()
    world.clock.advance(59)
    assert await due(world) == []
    world.clock.advance(1)
    (claim,) = await world.claim(*await due(world))
    assert claim.spec == b"b"


async def test_a_task_that_is_put_off_may_change_its_priority(world: World) -> None:
    await ask(world, "a", DEBOUNCE)
    await ask(world, "b", DEBOUNCE, priority=0)
    world.clock.advance(WINDOW_S)
    await world.passes()
    await world.check()
    assert await world.pop(f"{LAMBDA}:0") == ["0-a"]


async def test_a_cancelled_task_is_put_off_no_more(world: World) -> None:
    await ask(world, "a", DEBOUNCE)
    await world.store.cancel_tasks(["0-a"])
    assert (await ask(world, "b", DEBOUNCE)).id == "0-b"


async def test_one_behind_its_ordering_key_is_put_off_where_it_is(world: World) -> None:
    await world.schedule("first", ordering_key="anna")
    await ask(world, "a", DEBOUNCE, ordering_key="anna")
    world.clock.advance(1)
    await ask(world, "b", DEBOUNCE, ordering_key="anna")
    await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*await due(world))))
    world.clock.advance(WINDOW_S - 1)
    assert await due(world) == []
    world.clock.advance(1)
    assert await due(world) == ["0-a"]


async def test_a_window_that_is_over_leaves_nothing_behind(world: World) -> None:
    await ask(world, "a")
    world.clock.advance(WINDOW_S)
    await world.store.sweep(0, 1000)
    found = await world.check()
    assert not [key for key in found.data if ":uniques" in key]


async def test_what_may_only_join_makes_no_task(world: World) -> None:
    left_out = await ask(world, "a", joins=True)
    assert left_out.left_out
    assert not left_out.new
    assert await world.store.get_tasks(["0-a"]) == [None]
    await ask(world, "b")
    assert await ask(world, "a", joins=True) == Scheduled("0-b", True, False, world.clock.us)
    world.clock.advance(WINDOW_S)
    assert await due(world) == ["0-b"]
    assert (await ask(world, "c", joins=True)).left_out, "the window is over"


async def test_what_may_only_join_puts_a_debounced_task_off(world: World) -> None:
    await ask(world, "a", DEBOUNCE)
    world.clock.advance(WINDOW_S - 1)
    assert (await ask(world, "b", DEBOUNCE, joins=True)).id == "0-a"
    world.clock.advance(WINDOW_S - 1)
    assert await due(world) == []
    world.clock.advance(1)
    assert await due(world) == ["0-a"]
    assert (await ask(world, "c", DEBOUNCE, joins=True)).left_out, "a new one would be another task"
