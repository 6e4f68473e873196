"""Asks: what each is given, when, and how little the store is asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from atf.intake.takes import MOST_REST_S
from atf.task import Status
from tests.virtual import virtual

from .world import BILL, MAIL, World, all_of, ids_of, world


@virtual(world())
async def test_an_answer_holds_claims_in_the_name_of_who_asked(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    answer = await w.ask("e1", nonce="mine")
    assert ids_of(answer) == [task_id]
    assert (answer.claims[0].spec, answer.claims[0].nonce, answer.again) == (b"spec", "mine", False)
    record = await w.record(task_id)
    assert (record.status, record.owner) == (Status.CLAIMED, "e1")


@virtual(world(partitions=4))
async def test_an_ask_that_waits_is_answered_at_the_moment_a_task_is_enqueued(w: World) -> None:
    asking = w.asking(wait=60)
    await asyncio.sleep(20.5)
    (task_id,) = await w.enqueue(1, partition=3)
    assert ids_of(await asking) == [task_id]
    assert w.runtime.monotonic() == 20.5


@virtual(world(wakeups=False))
async def test_without_wake_ups_a_task_is_found_within_the_poll_interval(w: World) -> None:
    asking = w.asking(wait=60)
    await asyncio.sleep(7.3)
    (task_id,) = await w.enqueue(1)
    assert ids_of(await asking) == [task_id]
    assert w.runtime.monotonic() == pytest.approx(8.0)


@virtual(world())
async def test_an_ask_without_work_is_answered_empty_when_its_time_is_over(w: World) -> None:
    assert not (await w.ask(wait=3)).claims
    assert w.runtime.monotonic() == 3


@virtual(world(partitions=4))
async def test_nothing_is_asked_of_the_store_while_nobody_waits(w: World) -> None:
    await w.ask(wait=1)
    seen = w.calls.total()
    await asyncio.sleep(100)
    await w.enqueue(5)
    await asyncio.sleep(100)
    assert w.calls.total() == seen


@virtual(world(partitions=4))
async def test_while_somebody_waits_without_work_each_partition_is_scanned_once_per_poll_interval(w: World) -> None:
    asking = w.asking(wait=60)
    await asyncio.sleep(0.5)
    before = w.by_partition.copy()
    await asyncio.sleep(10)
    assert w.by_partition - before == dict.fromkeys(range(4), 10)
    assert w.calls["next_claims"] == 0
    asking.cancel()


@virtual(world(partitions=16))
async def test_a_notification_has_only_its_own_partition_asked(w: World) -> None:
    asking = w.asking(wait=60)
    await asyncio.sleep(0.5)
    before = w.by_partition.copy()
    await w.enqueue(1, partition=9)
    await asking
    assert w.by_partition - before == {9: 1}


@virtual(world())
async def test_an_answer_holds_no_more_tasks_than_were_asked_for(w: World) -> None:
    ids = await w.enqueue(7)
    assert ids_of(await w.ask(room=5)) == ids[:5]
    assert ids_of(await w.ask(room=5)) == ids[5:]


@virtual(world())
async def test_what_is_too_large_for_one_answer_comes_with_the_next_at_once(w: World) -> None:
    ids = await w.enqueue(6, spec=b"x" * (1 << 20))
    answers = [await w.ask(max_bytes=3 << 20) for _ in range(6)]
    assert [task_id for each in answers for task_id in ids_of(each)] == ids
    assert max(sum(len(claim.spec) for claim in each.claims) for each in answers) < 3 << 20
    assert w.runtime.monotonic() == 0


@virtual(world())
async def test_two_idle_executors_of_a_host_share_what_there_is(w: World) -> None:
    asks = [w.asking("e1", host="one"), w.asking("e2", host="one")]
    await asyncio.sleep(0.1)
    await w.enqueue(10)
    first, second = await all_of(asks)
    assert (len(first.claims), len(second.claims)) == (5, 5)
    assert not set(ids_of(first)) & set(ids_of(second))
    assert w.calls["next_claims"] == 1


@virtual(world())
async def test_executors_get_only_lambdas_that_they_announced(w: World) -> None:
    mail, bill = w.asking("e1", lambdas=[MAIL]), w.asking("e2", lambdas=[BILL, "shop/pack"])
    await asyncio.sleep(0.1)
    (bill_id,) = await w.enqueue(1, BILL)
    assert ids_of(await bill) == [bill_id]
    (mail_id,) = await w.enqueue(1, MAIL)
    assert ids_of(await mail) == [mail_id]


@virtual(world())
async def test_nothing_is_given_of_what_an_ask_does_without(w: World) -> None:
    both = (MAIL, BILL)
    asking = w.asking("e1", lambdas=both, without=[MAIL], wait=5)
    await asyncio.sleep(0.1)
    (mail_id,) = await w.enqueue(1, MAIL)
    await asyncio.sleep(1)
    assert not asking.done()
    (bill_id,) = await w.enqueue(1, BILL)
    assert ids_of(await asking) == [bill_id]
    assert ids_of(await w.ask("e2", lambdas=both)) == [mail_id]


# --- order ------------------------------------------------------------------------------------------------------------


@virtual(world(partitions=2))
async def test_urgent_tasks_come_first_wherever_they_are(w: World) -> None:
    await w.ask(wait=0.2)  # it has looked once; from here it knows what was notified
    low = await w.enqueue(4, priority=2, partition=0)
    high = await w.enqueue(4, priority=0, partition=1)
    await asyncio.sleep(0.1)
    assert ids_of(await w.ask(room=4)) == high
    assert ids_of(await w.ask(room=4)) == low


@virtual(world())
async def test_lambdas_of_one_priority_get_equal_shares(w: World) -> None:
    await w.enqueue(100, MAIL)
    await w.enqueue(10, BILL)
    answer = await w.ask(room=16, lambdas=[MAIL, BILL])
    records = [await w.record(each) for each in ids_of(answer)]
    assert sum(each.lambda_name == BILL for each in records) == 8


@virtual(world())
async def test_one_at_a_time_lambdas_take_turns(w: World) -> None:
    await w.enqueue(6, MAIL)
    await w.enqueue(6, BILL)
    names = []
    for _ in range(6):
        answer = await w.ask(room=1, lambdas=[MAIL, BILL])
        names.append((await w.record(ids_of(answer)[0])).lambda_name)
        await asyncio.sleep(0.001)
    assert names[::2] == [names[0]] * 3
    assert names[1::2] == [names[1]] * 3
    assert names[0] != names[1]


@virtual(world(ageing=1.0))
async def test_a_queue_that_waits_gains_a_priority_each_ageing_period_so_that_none_starves(w: World) -> None:
    await w.enqueue(1, BILL, priority=3)
    await w.enqueue(500, MAIL, priority=0)
    got_at = None
    for _ in range(400):
        answer = await w.ask(room=1, lambdas=[MAIL, BILL])
        if (await w.record(ids_of(answer)[0])).lambda_name == BILL:
            got_at = w.runtime.monotonic()
            break
        await asyncio.sleep(0.01)
    assert got_at == pytest.approx(3.0, abs=0.05)


@virtual(world(partitions=2, wakeups=False))
async def test_a_busy_partition_does_not_hide_the_other_one_even_without_wake_ups(w: World) -> None:
    await w.enqueue(1000, partition=0, priority=0)
    await w.ask(room=1)
    (hidden,) = await w.enqueue(1, partition=1, priority=0)
    for _ in range(250):
        if hidden in ids_of(await w.ask(room=1)):
            break
        await asyncio.sleep(0.01)
    assert (await w.record(hidden)).status == Status.CLAIMED
    assert w.runtime.monotonic() < 1.2


# --- beside a flood ---------------------------------------------------------------------------------------------------


@virtual(world())
async def test_a_call_takes_little_while_a_lambda_that_does_not_flood_is_busy(w: World) -> None:
    both = (MAIL, BILL)
    await w.ask(lambdas=both, wait=1)  # it listens by now
    await w.enqueue(200)
    assert len((await w.ask(lambdas=both)).claims) == 200
    await w.enqueue(200)
    await w.enqueue(1, BILL)
    assert len((await w.ask(lambdas=both)).claims) == 16
    await asyncio.sleep(2)
    assert len((await w.ask(lambdas=both)).claims) == 185


@virtual(world())
async def test_a_lambda_whose_long_queue_is_no_longer_notified_is_busy_while_its_tasks_are_taken(w: World) -> None:
    both = (MAIL, BILL)
    await w.ask(lambdas=both, wait=1)  # it listens by now
    await w.enqueue(200)
    await asyncio.sleep(2)
    assert (await w.ask(lambdas=both, room=1)).claims
    await w.enqueue(1, BILL)
    assert len((await w.ask(lambdas=both)).claims) == 16


@virtual(world())
async def test_a_host_that_took_much_while_a_quiet_lambda_is_busy_rests(w: World) -> None:
    """Six times as long as the call took, up to a bound, and for the same lambdas alone: whoever floods leaves the store to others."""
    took, begun, take = 0.0, list[float](), w.store.next_claims

    async def slow(*args: Any, **more: Any) -> Any:
        begun.append(w.runtime.monotonic())
        await asyncio.sleep(took)
        return await take(*args, **more)

    async def until_taken(owner: str, lambdas: Sequence[str], room: int = 256, host: str = "one") -> float:
        asked, before = w.runtime.monotonic(), len(begun)
        assert (await w.ask(owner, lambdas=lambdas, room=room, host=host)).claims
        return round(begun[before] - asked, 4)

    w.store.next_claims = slow  # type: ignore[method-assign]
    flood, quiet = (MAIL,), (BILL,)
    await w.ask(lambdas=(MAIL, BILL), wait=1)  # it listens by now
    await w.enqueue(300)
    await w.enqueue(2, BILL)
    for slowly, rest in ((0.004, 0.024), (0.5, 0.03)):
        took = slowly
        assert await until_taken("e1", flood) == 0
        took = 0.0
        assert await until_taken("e2", quiet, room=1) == 0
        assert await until_taken("e4", flood, room=1, host="two") == 0, "another host does not rest"
        assert await until_taken("e3", flood, room=1) == rest
        assert await until_taken("e4", flood, room=1) == 0
    took = 0.004
    await w.enqueue(300, BILL)
    await until_taken("e5", quiet, room=32)  # from here on both flood, and neither spares the other
    for number in range(3):
        assert await until_taken(f"f{number}", flood, room=32) == 0
    assert len((await w.ask("e6", lambdas=(*flood, *quiet))).claims) == 256


@virtual(world())
async def test_calls_are_large_where_many_lambdas_have_few_tasks_each(w: World) -> None:
    """The first one is small and shows that none floods; one that begins to makes them small again."""
    many = tuple(f"shop/l{number}" for number in range(200))
    every = (*many, MAIL)
    await w.ask(lambdas=every, wait=1)  # it listens by now
    for name in many:
        await w.enqueue(1, name)
    assert [len((await w.ask(lambdas=every)).claims) for _ in range(2)] == [16, 184]
    await w.enqueue(400)
    await w.enqueue(1, "shop/l0")
    found = [len((await w.ask(lambdas=every)).claims) for _ in range(2)]
    assert found[0] > 100
    assert found[1] == 16


@virtual(world(partitions=2))
async def test_while_a_host_rests_nobody_looks_for_another_call(w: World) -> None:
    """Also where another partition is to be scanned, as each is at the beginning."""
    looks, calls, take = 0, list[tuple[float, float]](), w.store.next_claims

    async def slow(*args: Any, **more: Any) -> Any:
        began = w.runtime.monotonic()
        await asyncio.sleep(0.02)
        calls.append((began, w.runtime.monotonic()))
        return await take(*args, **more)

    served = w.intake.takes.serve

    def counted(line: Any) -> None:
        nonlocal looks
        looks += 1
        assert looks < 500, "it goes round"
        served(line)

    w.intake.takes.serve = counted  # type: ignore[method-assign]
    w.store.next_claims = slow  # type: ignore[method-assign]
    both = (MAIL, BILL)
    await w.ask(lambdas=both, wait=1, host="one")
    await w.enqueue(200)
    for number in range(6):
        await w.enqueue(1, BILL)
        assert (await w.ask(f"e{number}", lambdas=both, room=32, host="one")).claims
        if number == 2:
            await asyncio.sleep(0.9)  # the next scans are due
    ends = [ended for _, ended in calls]
    assert sum(later - ended > MOST_REST_S * 0.9 for (later, _), ended in zip(calls[1:], ends, strict=False)) > 2


# --- what it costs ----------------------------------------------------------------------------------------------------


@virtual(world())
async def test_what_lambdas_without_tasks_cost_does_not_depend_on_their_number(w: World) -> None:
    many = [MAIL, *(f"shop/l{number}" for number in range(3_000))]
    await w.ask(lambdas=many, wait=10)
    assert w.taken == []
    assert 10 <= w.calls["filled_queues"] <= 12
    await w.enqueue(1)
    assert len((await w.ask(lambdas=many, wait=2)).claims) == 1
    assert w.taken == [["shop/mail:1"]]


@virtual(world())
async def test_a_call_under_way_holds_up_asks_for_the_same_lambdas_alone(w: World) -> None:
    under_way, most, take = 0, 0, w.store.next_claims

    async def slow(partition: int, groups: Any, *args: Any, **more: Any) -> Any:
        nonlocal under_way, most
        if any("shop/mail:1" in group for group in groups):
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.5)
            under_way -= 1
        return await take(partition, groups, *args, **more)

    await w.ask(lambdas=(MAIL,), wait=1)  # it has scanned, and listens by now
    await w.ask(lambdas=(BILL,), wait=1)
    w.store.next_claims = slow  # type: ignore[method-assign]
    await w.enqueue(200)
    await w.enqueue(1, BILL)
    slowly = [w.asking(f"e{number}", lambdas=(MAIL,), wait=3) for number in range(2)]
    await asyncio.sleep(0.1)
    began = w.runtime.monotonic()
    assert (await w.ask("e3", lambdas=(BILL,))).claims
    assert w.runtime.monotonic() - began < 0.1
    assert [len((await each).claims) for each in slowly] == [16, 16]
    assert most == 1


@virtual(world(running=False))
async def test_what_no_call_should_end_with_ends_the_intake(w: World) -> None:
    running = asyncio.create_task(w.intake.run())
    await w.ask(wait=1)

    async def take(*_: Any, **__: Any) -> Any:
        return [None]

    w.store.next_claims = take  # type: ignore[method-assign]
    await w.enqueue(1)
    asking = w.asking(wait=1)
    with pytest.raises(AttributeError, match="served"):
        await running
    assert not (await asking).claims
