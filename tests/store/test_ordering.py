"""Ordering keys: the tasks of one key run one after another, as they were accepted, whatever becomes of each; or they stop."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.store.values.claims import HeldClaim, Outcome
from atf.store.values.keys import KeyAnswer
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.lists import TaskQuery
from atf.task import US, Status

from .world import BACKOFF_US, ENQUEUE_TIMEOUT_US, LAMBDA, Dump, World, held

KEY = "customer-7"


async def line_up(world: World, *names: str) -> list[str]:
    """Schedules tasks of one key, each accepted after the one before."""
    return await world.schedule(*names, ordering_key=KEY)


async def start(world: World) -> HeldClaim:
    """Claims the one task that is due."""
    await world.passes()
    ids = await world.pop()
    assert len(ids) == 1
    (claim,) = held(await world.claim(*ids))
    await world.check()
    return claim


async def due(world: World) -> list[str]:
    await world.passes()
    await world.check()
    return await world.pop()


async def test_they_run_in_the_order_in_which_they_were_accepted(world: World) -> None:
    ids = await line_up(world, "c", "a", "b")
    for task_id in ids:
        claim = await start(world)
        assert claim.task_id == task_id
        assert await due(world) == []
        await world.finish(Outcome.SUCCEEDED, claim)
    assert await due(world) == []


async def test_an_earlier_instant_does_not_overtake(world: World) -> None:
    await world.schedule("late", ordering_key=KEY, delay_us=60 * US)
    await world.schedule("soon", ordering_key=KEY)
    assert await due(world) == []
    world.clock.advance(60)
    claim = await start(world)
    assert claim.task_id == "0-late"
    await world.finish(Outcome.SUCCEEDED, claim)
    assert await due(world) == ["0-soon"]


async def test_the_next_one_still_waits_for_its_own_instant(world: World) -> None:
    await line_up(world, "now")
    await world.schedule("later", ordering_key=KEY, delay_us=60 * US)
    await world.finish(Outcome.SUCCEEDED, await start(world))
    assert await due(world) == []
    world.clock.advance(59)
    assert await due(world) == []
    world.clock.advance(1)
    assert await due(world) == ["0-later"]


@pytest.mark.parametrize("end", ["success", "fatal", "cancel", "lost for good", "cancelled before it ran"])
async def test_the_next_one_is_released_by(world: World, end: str) -> None:
    await world.schedule("first", ordering_key=KEY, max_losses=1)
    await line_up(world, "second")
    match end:
        case "success":
            await world.finish(Outcome.SUCCEEDED, await start(world))
        case "fatal":
            await world.finish(Outcome.FAILED_FATAL, await start(world))
        case "cancel":
            claim = await start(world)
            await world.store.cancel_tasks(["0-first"])
            assert await due(world) == []  # it runs until it is stopped
            await world.finish(Outcome.STOPPED, claim)
        case "lost for good":
            await world.store.report_loss([await start(world)], "killed")
        case _:
            await world.store.cancel_tasks(["0-first"])
    assert await due(world) == ["0-second"]


async def test_a_head_in_backoff_holds_the_others_back(world: World) -> None:
    await line_up(world, "first", "second")
    await world.fail(await start(world))
    world.clock.advance(59)
    assert await due(world) == []
    world.clock.advance(1)
    claim = await start(world)
    assert claim.task_id == "0-first"


async def test_a_lost_head_runs_again_before_the_others(world: World) -> None:
    await line_up(world, "first", "second")
    claim = await start(world)
    await world.store.report_loss([claim], "killed")
    assert await due(world) == ["0-first"]


async def test_cancelling_one_in_the_middle_keeps_the_order(world: World) -> None:
    await line_up(world, "a", "b", "c")
    claim = await start(world)
    await world.store.cancel_tasks(["0-b"])
    assert await due(world) == []
    await world.finish(Outcome.SUCCEEDED, claim)
    assert await due(world) == ["0-c"]


async def test_a_retried_task_joins_the_end(world: World) -> None:
    await line_up(world, "a", "b", "c")
    await world.finish(Outcome.FAILED_FATAL, await start(world))
    await world.store.retry_tasks(["0-a"])
    order = []
    for _ in range(3):
        claim = await start(world)
        order.append(claim.task_id)
        await world.finish(Outcome.SUCCEEDED, claim)
    assert order == ["0-b", "0-c", "0-a"]


async def test_a_retried_task_alone_is_due_at_once(world: World) -> None:
    await line_up(world, "a")
    await world.store.cancel_tasks(["0-a"])
    await world.store.retry_tasks(["0-a"])
    assert await due(world) == ["0-a"]


async def test_a_whole_batch_may_be_cancelled_at_once(world: World) -> None:
    ids = await line_up(world, "a", "b", "c", "d")
    await world.store.cancel_tasks([ids[1], ids[0], ids[3]])
    assert await due(world) == ["0-c"]


async def test_keys_of_different_lambdas_are_different_keys(world: World) -> None:
    await world.schedule("a", "b", ordering_key=KEY, lambda_name="shop/charge")
    await world.schedule("c", "d", ordering_key=KEY, lambda_name="shop/ship")
    await world.schedule("e", ordering_key="customer-8", lambda_name="shop/ship")
    await world.passes()
    assert await world.pop("shop/charge:1", "shop/ship:1") == ["0-a", "0-c", "0-e"]
    await world.finish(Outcome.SUCCEEDED, *held(await world.claim("0-c")))
    await world.passes()
    assert await world.pop("shop/charge:1", "shop/ship:1") == ["0-d"]
    assert (await world.get("0-d")).ordering_key == KEY


async def test_tasks_of_several_priorities_keep_the_order(world: World) -> None:
    await world.schedule("low", ordering_key=KEY, priority=2)
    await world.schedule("high", ordering_key=KEY, priority=0)
    await world.passes()
    assert await world.pop(f"{LAMBDA}:0", f"{LAMBDA}:2") == ["0-low"]


async def test_a_record_that_somebody_deleted_holds_up_nobody(world: World) -> None:
    await line_up(world, "a", "b", "c")
    claim = await start(world)
    await world.store.link.command("DEL", "atf:{0}:t:0-b", key="atf:{0}")
    await world.finish(Outcome.SUCCEEDED, claim)
    await world.passes()
    assert await world.pop() == ["0-c"]


async def test_keys_whose_tasks_have_all_ended_leave_nothing(world: World) -> None:
    await world.store.register_lambdas(
        [LambdaRecord(LAMBDA, b"", 10_000, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")]
    )
    await world.finish(Outcome.SUCCEEDED, *(await world.run("without-a-key")))
    before = await swept(world)
    names = [f"customer-{number}" for number in range(250)]
    names = [each for each in names if world.store.partition_for(each) == 0][:100]
    for each in names:
        await world.schedule(f"{each}-a", f"{each}-b", f"{each}-c", ordering_key=each)
    await world.store.cancel_tasks([f"0-{each}-b" for each in names[::3]])
    assert sum(":o:" in key for key in (await world.check()).data) == 100
    await end(world, mixed=True)
    while await end(world):
        pass
    after = await swept(world)
    assert set(after.data) == set(before.data)
    assert "customer-" not in str(after.data)


async def end(world: World, *, mixed: bool = False) -> int:
    """Runs what is due to its end; mixed: a quarter of it fails, one fails for good and one is lost. No key stays stopped. How many ran."""
    world.clock.advance(BACKOFF_US / US)
    await world.passes()
    ids = await world.pop()
    claims = held(await world.claim(*ids)) if ids else []
    done, failed, fatal, lost = [claims[turn::4] for turn in range(4)] if mixed else [claims, [], [], []]
    await world.finish(Outcome.SUCCEEDED, *done)
    await world.fail(*failed)
    await world.finish(Outcome.FAILED_FATAL, *fatal, error="no such account")
    await world.store.report_loss(lost, "killed")
    stopped, _ = await world.store.list_keys(LAMBDA, 256, "")
    assert len(stopped) == len(fatal)
    for each in stopped:
        await world.store.skip_key(LAMBDA, each.key)
    return len(claims)


async def swept(world: World) -> Dump:
    """What is in the store once all that has ended was removed, and all queues were looked at."""
    world.clock.advance(100_000)
    await world.passes()
    while await world.store.sweep(0, 1000):
        pass
    found = await world.check()
    assert found.tasks() == {}
    for key in [key for key in found.data if ":ask:" in key]:  # these expire by themselves
        del found.data[key]
    return found


# --- keys that stop ---------------------------------------------------------------------------------------------------


async def stopped(world: World, *behind: str) -> HeldClaim:
    """A key that has stopped at its task `bad`; answers the claim under which that failed."""
    await world.store.register_lambdas(
        [LambdaRecord(LAMBDA, b"", 10, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")]
    )
    await line_up(world, "bad", *behind)
    claim = await start(world)
    await world.finish(Outcome.FAILED_FATAL, claim, error="no such account")
    await world.check()
    return claim


async def keys_of(world: World) -> list[tuple[str, str, int]]:
    """The stopped keys: key, task, unfinished tasks."""
    found, token = await world.store.list_keys(LAMBDA, 256, "")
    assert token == ""
    return [(each.key, each.task_id, each.unfinished) for each in found]


async def test_a_key_stops_at_a_task_that_fails_for_good(world: World) -> None:
    await stopped(world, "a", "b")
    await line_up(world, "c")
    await world.schedule("other", ordering_key="customer-8")
    assert await due(world) == ["0-other"]
    ((record,), _) = await world.store.list_keys(LAMBDA, 10, "")
    assert record == (KEY, world.clock.us, "0-bad", "no such account", 3)
    around = await world.store.explain_task("0-b")
    assert around is not None
    assert (around.stopped_at, around.behind, around.position) == ("0-bad", "", 2)


@pytest.mark.parametrize("end", ["attempts", "losses"])
async def test_a_key_stops_when_attempts_or_losses_are_used_up(world: World, end: str) -> None:
    await world.store.register_lambdas(
        [LambdaRecord(LAMBDA, b"", 10, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")]
    )
    await world.schedule("bad", ordering_key=KEY, max_attempts=1, max_losses=1)
    await line_up(world, "a")
    claim = await start(world)
    if end == "attempts":
        await world.fail(claim)
    else:
        await world.store.report_loss([claim], "killed")
    assert await due(world) == []
    assert await keys_of(world) == [(KEY, "0-bad", 1)]


async def test_a_cancelled_task_stops_no_key(world: World) -> None:
    await world.store.register_lambdas(
        [LambdaRecord(LAMBDA, b"", 10, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")]
    )
    await line_up(world, "bad", "a")
    await world.store.cancel_tasks(["0-bad"])
    assert await due(world) == ["0-a"]


async def test_a_resumed_key_runs_the_task_that_stopped_it_first(world: World) -> None:
    await stopped(world, "a", "b")
    assert await world.store.resume_key(LAMBDA, KEY) == (KeyAnswer.DONE, "0-bad")
    assert await keys_of(world) == []
    order = []
    for _ in range(3):
        claim = await start(world)
        order.append(claim.task_id)
        await world.finish(Outcome.SUCCEEDED, claim)
    assert order == ["0-bad", "0-a", "0-b"]


async def test_a_retry_of_the_task_that_stopped_a_key_resumes_it(world: World) -> None:
    await stopped(world, "a")
    await world.store.retry_tasks(["0-bad"])
    assert await keys_of(world) == []
    assert await due(world) == ["0-bad"]


async def test_a_resumed_key_stops_again_where_the_task_fails_again(world: World) -> None:
    await stopped(world, "a")
    await world.store.resume_key(LAMBDA, KEY)
    world.clock.advance(1)
    await world.finish(Outcome.FAILED_FATAL, await start(world), error="still none")
    assert await keys_of(world) == [(KEY, "0-bad", 1)]


async def test_a_skipped_key_goes_on_without_the_task_that_stopped_it(world: World) -> None:
    await stopped(world, "a")
    assert await world.store.skip_key(LAMBDA, KEY, "0-bad") == (KeyAnswer.DONE, "0-bad")
    assert await keys_of(world) == []
    assert await due(world) == ["0-a"]
    assert (await world.get("0-bad")).status is Status.FATAL_FAILURE


@pytest.mark.parametrize("verb", ["resume_key", "skip_key"])
async def test_nothing_is_mended_that_nobody_has_seen(world: World, verb: str) -> None:
    """A call that is repeated when the key has stopped anew must not take the next task for the one before."""
    mend = getattr(world.store, verb)
    assert await mend(LAMBDA, KEY) == (KeyAnswer.NOT_STOPPED, "")
    await stopped(world, "a")
    assert await mend(LAMBDA, KEY, "0-a") == (KeyAnswer.ANOTHER, "0-bad")
    assert await keys_of(world) == [(KEY, "0-bad", 1)]


async def test_a_key_goes_on_when_the_record_of_the_task_that_stopped_it_is_gone(world: World) -> None:
    await stopped(world, "a")
    world.clock.advance(100_000)
    await world.store.sweep(0, 1000)
    assert await keys_of(world) == [(KEY, "0-bad", 1)]
    assert await world.store.resume_key(LAMBDA, KEY) == (KeyAnswer.WITHOUT, "0-bad")
    assert await due(world) == ["0-a"]


async def test_a_stopped_key_without_other_tasks_holds_back_those_to_come(world: World) -> None:
    await stopped(world)
    await line_up(world, "a")
    assert await due(world) == []
    await world.store.skip_key(LAMBDA, KEY)
    assert await due(world) == ["0-a"]


async def test_stopped_keys_are_paged_over_all_partitions(world: World) -> None:
    await world.store.register_lambdas(
        [LambdaRecord(LAMBDA, b"", 10, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")]
    )
    names = [f"key-{number}" for number in range(7)]
    for name in names:
        partition = world.store.partition_for(name)
        claims = await world.run(name, ordering_key=name, partition=partition)
        await world.finish(Outcome.FAILED_FATAL, *claims)
        world.clock.advance(0.5)
    found, token, pages = [], "", 0
    while pages == 0 or token:
        page, token = await world.store.list_keys(LAMBDA, 2, token)
        found += [each.key for each in page]
        pages += 1
    assert sorted(found) == names
    assert pages >= 4
    for bad in ("x", "7.0.", "0.1", "0.1.a b"):
        with pytest.raises(InvalidArgument, match="page_token"):
            await world.store.list_keys(LAMBDA, 2, bad)


ODD_KEYS = ("order:2024/17.3", "anna müller {1}", "a%20b", "a b", "https://shop.example/a?b=c d#e:f", "日" * 255, "~")
"""Such as users have; the store's own names are made of `:` and `{`, and its records of words and lines."""


async def test_keys_of_any_characters_are_each_a_key_of_their_own(world: World) -> None:
    await world.store.register_lambdas(
        [LambdaRecord(LAMBDA, b"", 10, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")]
    )
    found: list[str] = []
    token = None
    for number, key in enumerate(ODD_KEYS):
        where: dict[str, Any] = {"partition": world.store.partition_for(key), "ordering_key": key}
        claims = await world.run(f"first-{number}", **where)
        await world.finish(Outcome.FAILED_FATAL, *claims)
        await world.schedule(f"second-{number}", **where)
    while token != "":
        page, token = await world.store.list_keys(LAMBDA, 2, token or "")
        found += [each.key for each in page]
    assert sorted(found) == sorted(ODD_KEYS)
    for number, key in enumerate(ODD_KEYS):
        partition = world.store.partition_for(key)
        told = await world.store.get_key(LAMBDA, key)
        assert told is not None
        assert (told.key, told.task_id, told.unfinished) == (key, f"{partition}-first-{number}", 1)
        assert (await world.get(f"{partition}-second-{number}")).ordering_key == key
    assert (await world.store.resume_key(LAMBDA, ODD_KEYS[0])).mended is KeyAnswer.DONE
    assert (await world.store.skip_key(LAMBDA, ODD_KEYS[1])).mended is KeyAnswer.DONE
    await world.check()


async def test_one_key_is_shown_as_it_stands(world: World) -> None:
    await line_up(world, "a", "b")
    assert await world.store.get_key(LAMBDA, KEY) == (KEY, 0, "0-a", "", 2)
    assert await world.store.get_key(LAMBDA, "none") is None
    assert await world.store.get_key("shop/none", KEY) is None


async def test_what_waits_is_listed_counted_and_explained(world: World) -> None:
    await line_up(world, "a", "b", "c")
    query = TaskQuery("shop/mail", statuses=[Status.NEW], oldest_first=True)
    assert [task.id for task in (await world.store.list_tasks(query, 10)).tasks] == ["0-a", "0-b", "0-c"]
    assert (await world.get("0-c")).next_at_us == 0
    around = await world.store.explain_task("0-c")
    assert around is not None
    assert (around.behind, around.position, around.in_queue) == ("0-a", 2, False)
    await world.passes()
    head = await world.store.explain_task("0-a")
    assert head is not None
    assert (head.behind, head.position, head.in_queue) == ("", 0, True)
