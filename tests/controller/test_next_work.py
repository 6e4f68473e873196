"""NextWork: what an executor gets, when, and how little the queues are asked for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import pytest

from atf.config.settings import ControllerSettings
from atf.controller.poller import MOST_REST_S
from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import controller_pb2 as c
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests.virtual import virtual

from .world import World, ids_of, world


@virtual(world())
async def test_an_answer_holds_claims_in_the_name_of_the_executor_that_asked(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    await asyncio.sleep(5)
    asked_us = w.runtime.boottime_us()
    reply = await w.ask("e1")
    assert ids_of(reply) == [task_id]
    assert (reply.number, reply.draining) == (1, False)
    assert reply.claims[0].spec == b"spec"
    assert reply.claim_sent_us == asked_us
    record = await w.record(task_id)
    assert (record.status, record.owner) == (Status.CLAIMED, "e1")


@virtual(world(partitions=4))
async def test_a_call_that_waits_is_answered_at_the_moment_a_task_is_enqueued(w: World) -> None:
    asking = w.asking(wait=60)
    await asyncio.sleep(20.5)
    (task_id,) = await w.enqueue(1, partition=3)
    reply = await asking
    assert ids_of(reply) == [task_id]
    assert w.runtime.monotonic() == 20.5


@virtual(world(wakeups=False))
async def test_without_wake_ups_a_task_is_found_within_the_poll_interval(w: World) -> None:
    asking = w.asking(wait=60)
    await asyncio.sleep(7.3)
    (task_id,) = await w.enqueue(1)
    assert ids_of(await asking) == [task_id]
    assert w.runtime.monotonic() == pytest.approx(8.0)


@virtual(world())
async def test_a_call_without_work_is_answered_empty_when_its_time_is_over(w: World) -> None:
    reply = await w.ask(wait=3)
    assert (reply.number, len(reply.claims)) == (0, 0)
    assert w.runtime.monotonic() == 3


@virtual(world(partitions=4))
async def test_queues_are_not_asked_while_no_call_is_open(w: World) -> None:
    await w.ask(wait=1)
    seen = w.pops.total()
    await asyncio.sleep(100)
    await w.enqueue(5)
    await asyncio.sleep(100)
    assert w.pops.total() == seen


@virtual(world(partitions=4))
async def test_an_open_call_without_work_asks_each_partition_once_per_poll_interval(w: World) -> None:
    await w.ask(wait=0.5)
    before = w.pops.copy()
    await w.ask(wait=10)
    assert w.pops - before == dict.fromkeys(range(4), 10)


@virtual(world(partitions=16))
async def test_a_ring_has_only_its_own_partition_asked(w: World) -> None:
    asking = w.asking(wait=60)
    await asyncio.sleep(0.5)
    before = w.pops.copy()
    await w.enqueue(1, partition=9)
    await asking
    assert w.pops - before == {9: 1}


@virtual(world())
async def test_an_answer_holds_no_more_tasks_than_were_asked_for(w: World) -> None:
    ids = await w.enqueue(7)
    first = await w.ask(most=5)
    second = await w.ask(ack=1, most=5)
    assert (ids_of(first), ids_of(second)) == (ids[:5], ids[5:])


@virtual(world())
async def test_what_is_too_large_for_one_answer_comes_with_the_next_at_once(w: World) -> None:
    ids = await w.enqueue(6, spec=b"x" * (1 << 20))
    first = await w.ask()
    assert 0 < len(first.claims) < 6
    assert first.ByteSize() < 4 << 20
    second = await w.ask(ack=1)
    assert [*ids_of(first), *ids_of(second)] == ids
    assert w.runtime.monotonic() == 0


@virtual(world())
async def test_two_idle_executors_share_what_there_is(w: World) -> None:
    calls = [w.asking("e1"), w.asking("e2")]
    await asyncio.sleep(0.1)
    await w.enqueue(10)
    first, second = await asyncio.gather(*calls)
    assert (len(first.claims), len(second.claims)) == (5, 5)
    assert not set(ids_of(first)) & set(ids_of(second))


@virtual(world())
async def test_executors_get_only_lambdas_that_they_announced(w: World) -> None:
    mail, bill = w.asking("e1", lambdas=["shop/mail"]), w.asking("e2", lambdas=["shop/bill", "shop/pack"])
    await asyncio.sleep(0.1)
    (bill_id,) = await w.enqueue(1, "shop/bill")
    assert ids_of(await bill) == [bill_id]
    (mail_id,) = await w.enqueue(1, "shop/mail")
    assert ids_of(await mail) == [mail_id]


@virtual(world())
async def test_an_id_that_another_controller_claimed_first_is_dropped(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    await w.store.claim("elsewhere", "nonce", [task_id], 1 << 22)
    reply = await w.ask(wait=2)
    assert not reply.claims
    assert (await w.record(task_id)).owner == "elsewhere"


# --- order ------------------------------------------------------------------------------------------------------------


@virtual(world(partitions=2))
async def test_urgent_tasks_come_first_wherever_they_are(w: World) -> None:
    await w.ask(wait=0.2)  # the controller has looked once; from here it knows what rang
    low = await w.enqueue(4, priority=2, partition=0)
    high = await w.enqueue(4, priority=0, partition=1)
    await asyncio.sleep(0.1)
    assert ids_of(await w.ask(most=4)) == high
    assert ids_of(await w.ask(most=4, ack=1)) == low


@virtual(world())
async def test_lambdas_of_one_priority_get_equal_shares(w: World) -> None:
    await w.enqueue(100, "shop/mail")
    await w.enqueue(10, "shop/bill")
    reply = await w.ask(most=16, lambdas=["shop/mail", "shop/bill"])
    records = [await w.record(each) for each in ids_of(reply)]
    assert sum(each.lambda_name == "shop/bill" for each in records) == 8


@virtual(world())
async def test_one_at_a_time_lambdas_take_turns(w: World) -> None:
    await w.enqueue(6, "shop/mail")
    await w.enqueue(6, "shop/bill")
    names = []
    for ack in range(6):
        reply = await w.ask(most=1, ack=ack, lambdas=["shop/mail", "shop/bill"])
        names.append((await w.record(ids_of(reply)[0])).lambda_name)
        await asyncio.sleep(0.001)
    assert names[::2] == [names[0]] * 3
    assert names[1::2] == [names[1]] * 3
    assert names[0] != names[1]


@virtual(world(ageing=1.0))
async def test_a_queue_that_waits_gains_a_priority_each_ageing_period_so_that_none_starves(w: World) -> None:
    await w.enqueue(1, "shop/bill", priority=3)
    await w.enqueue(500, "shop/mail", priority=0)
    got_at = None
    for ack in range(400):
        reply = await w.ask(most=1, ack=ack, lambdas=["shop/mail", "shop/bill"])
        if (await w.record(ids_of(reply)[0])).lambda_name == "shop/bill":
            got_at = w.runtime.monotonic()
            break
        await asyncio.sleep(0.01)
    assert got_at == pytest.approx(3.0, abs=0.05)


@virtual(world(partitions=2, wakeups=False))
async def test_a_busy_partition_does_not_hide_the_other_one_even_without_wake_ups(w: World) -> None:
    await w.enqueue(1000, partition=0, priority=0)
    await w.ask(most=1)
    (hidden,) = await w.enqueue(1, partition=1, priority=0)
    for ack in range(1, 250):
        if hidden in ids_of(await w.ask(most=1, ack=ack)):
            break
        await asyncio.sleep(0.01)
    assert (await w.record(hidden)).status == Status.CLAIMED
    assert w.runtime.monotonic() < 1.2


# --- bad calls --------------------------------------------------------------------------------------------------------


@virtual(world())
async def test_an_executor_of_another_host_is_refused(w: World) -> None:
    request = c.NextWorkRequest(
        executor_id="e1", max_tasks=1, lambdas=["shop/mail"], signatures=["d"], boot_id="another"
    )
    with pytest.raises(FailedPrecondition, match="another host"):
        await w.controller.next_work(request)


@virtual(world())
async def test_a_call_that_breaks_a_rule_is_refused_with_the_rule(w: World) -> None:
    with pytest.raises(InvalidArgument, match="max_tasks 257"):
        await w.ask(most=257)
    with pytest.raises(InvalidArgument, match="wait_us"):
        await w.ask(wait=61)
    with pytest.raises(InvalidArgument, match="name at least one"):
        await w.ask(lambdas=[])
    with pytest.raises(InvalidArgument, match="namespace/name"):
        await w.ask(lambdas=["mail"])
    with pytest.raises(InvalidArgument, match="executor_id"):
        await w.ask("")


# --- failures of the store --------------------------------------------------------------------------------------------


@virtual(world(partitions=2))
async def test_a_partition_that_fails_does_not_hold_up_the_other_and_is_found_again(w: World) -> None:
    w.broken = {0}
    (lost,) = await w.enqueue(1, partition=0)
    (good,) = await w.enqueue(1, partition=1)
    assert ids_of(await w.ask(wait=1)) == [good]
    failing = w.asking(ack=1, wait=60)
    await asyncio.sleep(30)
    assert w.pops[0] < 15, "a store that is down must not be asked without pause"
    w.broken = set()
    assert ids_of(await failing) == [lost]
    assert w.runtime.monotonic() < 36


@virtual(world())
async def test_popped_ids_that_nobody_takes_are_handed_back(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    w.controller.poller.put_back({task_id: "shop/mail:1"})  # as a call that went away leaves them
    await w.store.pop(0, [["shop/mail:1"]], 1)
    assert await w.consume() == 0
    await asyncio.sleep(1.1)
    assert await w.consume() == 1
    assert w.runtime.wall_us() < (await w.record(task_id)).next_at_us <= w.runtime.wall_us() + 10 * US


@virtual(world())
async def test_an_executor_that_counts_on_other_leases_gets_no_task(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    for seconds in (15, 17):
        with pytest.raises(FailedPrecondition, match=rf"heartbeat_timeout = {seconds} s, and this controller to 16 s"):
            await w.ask("e1", heartbeat_timeout_us=seconds * US)
    assert (await w.record(task_id)).status is Status.ENQUEUED
    assert ids_of(await w.ask("e1", heartbeat_timeout_us=16 * US)) == [task_id]
    (other,) = await w.enqueue(1)
    assert ids_of(await w.ask("e2")) == [other]  # an executor of a release that does not say


@virtual(world())
async def test_claims_tell_how_long_the_controller_takes_a_lease_to_last(w: World) -> None:
    await w.enqueue(1)
    await w.ask("e1")
    assert {each.heartbeat_timeout_us for each in w.hsc.requests["claim_tasks"]} == {16 * US}


@virtual(world())
async def test_it_says_that_its_pool_has_live_workers(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    await w.store.register_lambdas([LambdaRecord("shop/mail", b"x", 5, 10 * US, paused=False, settings="pool=gpu")])

    async def unserved() -> str:
        found = await w.store.explain_task(task_id)
        assert found is not None
        return found.unserved

    await w.ask("e1", wait=1)
    assert await unserved() == "gpu"
    other = w.another_controller(ControllerSettings(pool="gpu"))
    running = asyncio.create_task(other.run())
    await asyncio.sleep(1)
    assert await unserved() == ""
    await asyncio.sleep(60)
    assert await unserved() == ""
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await asyncio.sleep(31)
    assert await unserved() == "gpu"


@virtual(world())
async def test_an_executor_of_another_pool_is_refused(w: World) -> None:
    with pytest.raises(FailedPrecondition, match="the executor belongs to the pool 'gpu', and this controller to ''"):
        await w.ask(pool="gpu")


@virtual(world())
async def test_a_pop_takes_little_while_a_lambda_that_does_not_flood_is_busy(w: World) -> None:
    running = asyncio.create_task(w.controller.run())
    both = ("shop/mail", "shop/bill")
    await w.ask(lambdas=both, wait=1, call=1)  # it listens by now
    await w.enqueue(200)
    assert len((await w.ask(lambdas=both, call=2)).claims) == 200
    await w.enqueue(200)
    await w.enqueue(1, "shop/bill")
    reply = await w.ask(lambdas=both, call=3, ack=1)
    assert len(reply.claims) == 16
    await asyncio.sleep(2)
    assert len((await w.ask(lambdas=both, call=4, ack=2)).claims) == 185
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@virtual(world())
async def test_a_lambda_whose_long_queue_no_longer_rings_is_busy_while_its_tasks_are_popped(w: World) -> None:
    running = asyncio.create_task(w.controller.run())
    both = ("shop/mail", "shop/bill")
    await w.ask(lambdas=both, wait=1, call=1)  # it listens by now
    await w.enqueue(200)
    await asyncio.sleep(2)
    assert (await w.ask(lambdas=both, call=2, most=1)).claims
    await w.enqueue(1, "shop/bill")
    assert len((await w.ask(lambdas=both, call=3, ack=1)).claims) == 16
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@virtual(world())
async def test_a_pop_that_brought_much_while_a_quiet_lambda_is_busy_is_followed_by_a_rest(w: World) -> None:
    """Six times as long as the pop took, up to a bound, and for the same lambdas alone: whoever floods leaves the store to others."""
    took, begun, pop = 0.0, list[float](), w.store.pop

    async def slow(*words: Any) -> Any:
        begun.append(w.runtime.monotonic())
        await asyncio.sleep(took)
        return await pop(*words)

    async def until_popped(executor_id: str, lambdas: Sequence[str], most: int = 256) -> float:
        asked, before = w.runtime.monotonic(), len(begun)
        assert (await w.ask(executor_id, lambdas=lambdas, most=most)).claims
        return round(begun[before] - asked, 4)

    w.store.pop = slow  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(w.controller.run())
    flood, quiet = ("shop/mail",), ("shop/bill",)
    await w.ask(lambdas=("shop/mail", "shop/bill"), wait=1)  # it listens by now
    await w.enqueue(300)
    await w.enqueue(2, "shop/bill")
    for slowly, rest in ((0.004, 0.024), (0.5, 0.03)):
        took = slowly
        assert await until_popped("e1", flood) == 0
        took = 0.0
        assert await until_popped("e2", quiet, most=1) == 0
        assert await until_popped("e3", flood, most=1) == rest
        assert await until_popped("e4", flood, most=1) == 0
    took = 0.004
    await w.enqueue(300, "shop/bill")
    await until_popped("e5", quiet, most=32)  # from here on both flood, and neither spares the other
    for number in range(3):
        assert await until_popped(f"f{number}", flood, most=32) == 0
    assert len((await w.ask("e6", lambdas=(*flood, *quiet))).claims) == 256
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@virtual(world())
async def test_pops_are_large_where_many_lambdas_have_few_tasks_each(w: World) -> None:
    """The first one is small and shows that none floods; one that begins to makes them small again."""
    running = asyncio.create_task(w.controller.run())
    many = tuple(f"shop/l{number}" for number in range(200))
    every = (*many, "shop/mail")
    await w.ask(lambdas=every, wait=1, call=1)  # it listens by now
    for name in many:
        await w.enqueue(1, name)
    found = [len((await w.ask(lambdas=every, call=2 + number, ack=number)).claims) for number in range(3)]
    assert found[0] == 16
    assert found[1] > 100
    assert sum(found) == 200
    await w.enqueue(400)
    await w.enqueue(1, "shop/l0")
    found = [len((await w.ask(lambdas=every, call=5 + number, ack=3 + number)).claims) for number in range(2)]
    assert found[0] > 100
    assert found[1] == 16
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@virtual(world())
async def test_what_lambdas_without_tasks_cost_does_not_depend_on_their_number(w: World) -> None:
    """Ten idle seconds are as many pops, which name no queue; a task is popped by its own queue alone."""
    asked: list[list[str]] = []
    pop = w.store.pop

    async def noted(partition: int, groups: Sequence[Sequence[str]], *more: Any) -> list[tuple[str, list[str]]]:
        asked.append([queue for group in groups for queue in group])
        return await pop(partition, groups, *more)

    w.store.pop = noted  # type: ignore[assignment]
    many = ["shop/mail", *(f"shop/l{number}" for number in range(3_000))]
    await w.ask(lambdas=many, wait=10)
    assert asked == [[]] * len(asked)
    assert 10 <= len(asked) <= 12
    asked.clear()
    await w.enqueue(1)
    assert len((await w.ask(lambdas=many, wait=2, call=1)).claims) == 1
    assert [each for each in asked if each] == [["shop/mail:1"]]


@virtual(world())
async def test_a_pop_under_way_holds_up_calls_for_the_same_lambdas_alone(w: World) -> None:
    under_way, most, pop = 0, 0, w.store.pop

    async def slow(partition: int, groups: Any, *words: Any) -> Any:
        nonlocal under_way, most
        if any("shop/mail:1" in group for group in groups):
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.5)
            under_way -= 1
        return await pop(partition, groups, *words)

    running = asyncio.create_task(w.controller.run())
    await w.ask(lambdas=("shop/mail",), wait=1)  # it has scanned, and listens by now
    await w.ask(lambdas=("shop/bill",), wait=1)
    w.store.pop = slow  # type: ignore[method-assign, assignment]
    await w.enqueue(200)
    await w.enqueue(1, "shop/bill")
    slowly = [asyncio.create_task(w.ask(f"e{number}", lambdas=("shop/mail",))) for number in range(2)]
    await asyncio.sleep(0.1)
    began = w.runtime.monotonic()
    assert (await w.ask("e3", lambdas=("shop/bill",))).claims
    assert w.runtime.monotonic() - began < 0.1
    assert [len((await each).claims) for each in slowly] == [16, 16]
    assert most == 1
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@virtual(world())
async def test_what_no_pop_should_end_with_ends_the_controller(w: World) -> None:
    running = asyncio.create_task(w.controller.run())
    await w.ask(wait=1)

    async def pop(*_: Any) -> Any:
        return [("shop/mail:1", None)]

    w.store.pop = pop  # type: ignore[method-assign, assignment]
    await w.enqueue(1)
    asking = asyncio.create_task(w.ask(wait=1))
    with pytest.raises(TypeError, match="NoneType"):
        await running
    assert not (await asking).claims


@virtual(world(partitions=2))
async def test_while_a_pop_rests_nobody_looks_for_another_one(w: World) -> None:
    """Also where another partition is to be scanned, as each is at the beginning."""
    looks, pop, may_pop = 0, w.store.pop, w.controller.poller.may_pop
    pops: list[tuple[float, float]] = []

    class Counted(asyncio.Event):
        async def wait(self) -> Literal[True]:
            nonlocal looks
            looks += 1
            assert looks < 500, "it goes round"
            return await may_pop.wait()

    async def slow(*words: Any) -> Any:
        began = w.runtime.monotonic()
        await asyncio.sleep(0.02)
        pops.append((began, w.runtime.monotonic()))
        return await pop(*words)

    w.controller.poller.may_pop = Counted()
    w.store.pop = slow  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(w.controller.run())
    both = ("shop/mail", "shop/bill")
    await w.ask(lambdas=both, wait=1)
    await w.enqueue(200)
    for number in range(6):
        await w.enqueue(1, "shop/bill")
        assert (await w.ask(f"e{number}", lambdas=both, most=32)).claims
        if number == 2:
            await asyncio.sleep(0.9)  # the next scans are due
    assert sum(later - ended > MOST_REST_S * 0.9 for (_, ended), (later, _) in pairwise(pops)) > 2, "none rested"
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
