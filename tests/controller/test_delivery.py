"""What becomes of claims when an answer, a call, the HSC or an executor goes astray: they run again, and never twice at once."""

from __future__ import annotations

import asyncio

from atf.controller.losses import parse_death
from atf.rpc import hsc_pb2 as h
from atf.task import US, Status
from tests.virtual import virtual

from .world import AFTER, BEFORE, World, ids_of, refs_of, until, world

DEAD = {"event": "dead", "executor": "e1", "pid": 7, "code": 137, "why": "killed"}


async def is_free(w: World, task_id: str) -> bool:
    record = await w.record(task_id)
    return record.status == Status.ENQUEUED and record.owner == ""


# --- answers ----------------------------------------------------------------------------------------------------------


@virtual(world())
async def test_claims_of_an_answer_that_was_not_acknowledged_are_handed_back(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    assert (await w.ask("e1", ack=0)).number == 1  # the answer is lost on its way
    await w.ask("e1", ack=0, wait=1)
    assert await is_free(w, task_id)
    await w.consume()
    again = await w.ask("e1", ack=0)
    assert (ids_of(again), again.number) == ([task_id], 2)
    assert (await w.record(task_id)).losses == 0


@virtual(world())
async def test_an_acknowledged_answer_stays_the_executor_s(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    reply = await w.ask("e1")
    await w.ask("e1", ack=reply.number, wait=1)
    assert (await w.record(task_id)).owner == "e1"
    assert not w.hsc.requests["hand_back"]


@virtual(world())
async def test_each_call_stream_of_an_executor_calls_and_acknowledges_by_itself(w: World) -> None:
    waiting = w.asking("e1", stream="async", lambdas=["shop/other"], wait=30)
    await asyncio.sleep(0.1)
    (task_id,) = await w.enqueue(1)
    assert (await w.ask("e1")).number == 1
    assert not waiting.done(), "a call of another call stream does not send it away"
    (other,) = await w.enqueue(1, "shop/other")
    assert (await waiting).number == 1
    await w.ask("e1", ack=1)
    assert not w.hsc.requests["hand_back"]
    await w.ask("e1", stream="async", lambdas=["shop/other"])
    await until(lambda: is_free(w, other), 1)
    assert (await w.record(task_id)).owner == "e1"


@virtual(world())
async def test_a_death_frees_the_answers_of_all_call_streams(w: World) -> None:
    ids = [*await w.enqueue(1), *await w.enqueue(1, "shop/other")]
    await w.ask("e1")
    await w.ask("e1", stream="async", lambdas=["shop/other"])
    late = w.asking("e1", stream="third", wait=30)
    await asyncio.sleep(0.1)
    w.controller.executor_died(parse_death(DEAD))
    assert not (await late).claims
    for task_id in ids:
        await until(lambda task_id=task_id: is_free(w, task_id), 1)  # type: ignore[misc]
    assert not (await w.ask("e1", stream="async", lambdas=["shop/other"], wait=10)).claims


@virtual(world())
async def test_a_late_copy_of_an_old_call_takes_nothing_back(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    await w.ask("e1", call=1, ack=0)
    await w.ask("e1", call=1, ack=0)  # the same call once more, after its answer has arrived
    await asyncio.sleep(5)
    assert (await w.record(task_id)).owner == "e1"
    assert not w.hsc.requests["hand_back"]


@virtual(world())
async def test_a_controller_that_was_restarted_goes_on_where_the_executor_left_off(w: World) -> None:
    first, second = await w.enqueue(2)
    assert (await w.ask("e1", ack=57, most=1)).number == 58
    await w.ask("e1", ack=57, wait=0.1)  # 58 is lost: without the executor's own number this would look acknowledged
    await until(lambda: is_free(w, first), 0.1)
    assert (await w.record(second)).owner == "e1"


@virtual(world())
async def test_a_second_call_of_an_executor_ends_its_first(w: World) -> None:
    first = w.asking("e1", wait=60)
    await asyncio.sleep(1)
    second = w.asking("e1", wait=60)
    assert not (await first).claims
    (task_id,) = await w.enqueue(1)
    assert ids_of(await second) == [task_id]
    assert w.runtime.monotonic() == 1


# --- calls that are given up ------------------------------------------------------------------------------------------


@virtual(world())
async def test_a_call_given_up_while_it_waits_loses_nothing(w: World) -> None:
    asking = w.asking("e1", wait=60)
    await asyncio.sleep(1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    (task_id,) = await w.enqueue(1)
    assert ids_of(await w.ask("e2")) == [task_id]


@virtual(world())
async def test_a_call_given_up_while_its_answer_is_on_its_way_is_its_executor_s_to_give_up(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    w.hsc.frozen.set()
    asking = w.asking("e1", wait=60)
    await asyncio.sleep(1)
    assert (await w.record(task_id)).status == Status.CLAIMED
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    (asked,) = w.hsc.requests["next_claims"]
    assert not await is_free(w, task_id)
    await w.hsc.hand_back(h.HandBackRequest(executor_id="e1", nonces=[asked.nonce]))
    assert await is_free(w, task_id)


# --- the HSC fails ----------------------------------------------------------------------------------------------------


@virtual(world())
async def test_a_claim_whose_answer_was_lost_is_asked_again_with_the_same_nonce(w: World) -> None:
    ids = await w.enqueue(3)
    w.hsc.faults["next_claims"].extend([AFTER, BEFORE, AFTER])
    reply = await w.ask("e1", wait=10)
    assert ids_of(reply) == ids
    assert len({each.nonce for each in w.hsc.requests["next_claims"]}) == 1
    assert {(await w.record(each)).runs for each in ids} == {1}


@virtual(world())
async def test_while_the_hsc_is_down_tasks_wait_in_the_store_and_then_work_goes_on(w: World) -> None:
    ids = await w.enqueue(20)
    w.hsc.down = True
    for number in range(3):
        assert not (await w.ask(f"e{number}", most=5, wait=2)).claims
    w.hsc.down = False
    got = []
    for ack in range(8):
        got += ids_of(await w.ask("e9", ack=ack, most=5, wait=2))
    assert sorted(got) == sorted(ids)


# --- executors die ----------------------------------------------------------------------------------------------------


@virtual(world())
async def test_each_claim_of_a_dead_executor_goes_the_way_of_its_state(w: World) -> None:
    await w.enqueue(4)
    reply = await w.ask("e1")
    held, started, late, stopped = reply.claims
    await w.start("e1", [started, late, stopped])
    await w.store.cancel_tasks([stopped.task_id])
    w.controller.executor_died(
        parse_death(
            DEAD
            | {
                "held": refs_of([held]),
                "started": refs_of([started]),
                "timed_out": [[*refs_of([late])[0], 60 * US, "timed out after 5 s"]],
                "stopped": refs_of([stopped]),
            }
        )
    )
    await asyncio.sleep(0.1)
    records = {each.task_id: await w.record(each.task_id) for each in reply.claims}
    assert (records[held.task_id].status, records[held.task_id].losses) == (Status.ENQUEUED, 0)
    assert (records[started.task_id].status, records[started.task_id].losses) == (Status.ENQUEUED, 1)
    assert records[started.task_id].ended_runs[-1].why == "lost: killed"
    assert records[late.task_id].status == Status.RETRIABLE_FAILURE
    assert (records[late.task_id].attempts, records[late.task_id].losses) == (1, 0)
    assert records[late.task_id].error == "timed out after 5 s"
    assert records[late.task_id].next_at_us == w.runtime.wall_us() + 60 * US - 100_000
    assert records[stopped.task_id].status == Status.CANCELLED


@virtual(world())
async def test_an_answer_that_never_reached_the_dead_executor_is_handed_back(w: World) -> None:
    first, second = await w.enqueue(2)
    reply = await w.ask("e1")
    w.controller.executor_died(parse_death(DEAD | {"started": refs_of(reply.claims[:1])}))
    await asyncio.sleep(0.1)
    assert ((await w.record(first)).losses, (await w.record(second)).losses) == (1, 0)
    assert await is_free(w, second)


@virtual(world())
async def test_what_is_claimed_for_an_executor_that_dies_meanwhile_is_handed_back(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    w.hsc.faults["next_claims"].append(AFTER)
    asking = w.asking("e1", wait=10)
    await asyncio.sleep(0.01)
    assert (await w.record(task_id)).owner == "e1"
    w.controller.executor_died(parse_death(DEAD))
    assert not (await asking).claims
    await until(lambda: is_free(w, task_id), 1)
    assert not (await w.ask("e1", wait=10)).claims, "a late call of a dead executor gets nothing"


@virtual(world())
async def test_a_death_is_reported_until_the_hsc_has_heard_of_it(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    reply = await w.ask("e1")
    await w.start("e1", reply.claims)
    w.hsc.down = True
    w.controller.executor_died(parse_death(DEAD | {"started": refs_of(reply.claims)}))
    await asyncio.sleep(60)
    assert (await w.record(task_id)).status == Status.PROCESSING
    w.hsc.down = False
    w.hsc.faults["report_loss"].append(AFTER)  # and once more, though it had its effect
    await asyncio.sleep(5)
    record = await w.record(task_id)
    assert (record.status, record.losses) == (Status.ENQUEUED, 1)


@virtual(world())
async def test_of_several_suspects_in_a_dead_executor_none_is_charged(w: World) -> None:
    first, second, third = await w.enqueue(3)
    for number, (suspects, losses) in enumerate(
        (
            ([], (1, 1, 1)),  # a first loss counts for each
            ([first, second], (1, 1, 2)),  # neither of two can be blamed
            ([first], (2, 1, 2)),  # the only suspect is
        )
    ):
        executor_id = f"e{number}"
        claims = (await w.ask(executor_id)).claims
        await w.start(executor_id, claims)
        started = [each for each in claims if number < 2 or each.task_id == first]
        event = DEAD | {"executor": executor_id, "started": refs_of(started), "suspects": suspects}
        w.controller.executor_died(parse_death(event))
        await asyncio.sleep(0.1)
        await w.consume()
        assert tuple([(await w.record(each)).losses for each in (first, second, third)]) == losses


# --- drain ------------------------------------------------------------------------------------------------------------


@virtual(world())
async def test_a_draining_controller_answers_all_calls_at_once_and_takes_no_more(w: World) -> None:
    asking = w.asking("e1", wait=60)
    await asyncio.sleep(1)
    await w.controller.drain()
    assert (await asking).draining
    await w.enqueue(1)
    reply = await w.ask("e1", wait=60)
    assert (reply.draining, len(reply.claims)) == (True, 0)
    assert w.runtime.monotonic() == 1


@virtual(world())
async def test_claims_that_arrive_while_it_drains_are_handed_back(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    w.hsc.faults["next_claims"].append(AFTER)
    asking = w.asking("e1", wait=60)
    await asyncio.sleep(0.01)
    await w.controller.drain()
    reply = await asking
    assert (reply.draining, len(reply.claims)) == (True, 0)
    await until(lambda: is_free(w, task_id), 1)


@virtual(world())
async def test_a_drain_ends_though_the_hsc_is_down(w: World) -> None:
    await w.enqueue(1)
    w.hsc.down = True
    asking = w.asking("e1", wait=60)
    await asyncio.sleep(0.5)
    await w.controller.drain(seconds=5)
    assert w.runtime.monotonic() <= 6
    assert (await asking).draining
