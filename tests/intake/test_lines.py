"""Lines: who has waited longest is served first, asks are given something only while they are fresh, and a thousand who wait cost little."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.intake.asks import FRESH_S, RENEW, Answer
from atf.intake.line import EXPECTED_S, NEAR
from atf.runtime import end
from tests.virtual import virtual

from .world import AFTER, BEFORE, BILL, MAIL, World, all_of, ids_of, world

# --- who is next ------------------------------------------------------------------------------------------------------


@virtual(world())
async def test_across_hosts_who_has_waited_longest_is_served_first(w: World) -> None:
    asks = []
    for number in range(20):
        asks.append(w.asking(f"e{number}", room=1, wait=60))
        await asyncio.sleep(0.3)
    for number in range(20):
        await w.enqueue(1)
        await asyncio.sleep(0.4)
        assert [each.done() for each in asks] == [True] * (number + 1) + [False] * (19 - number)


@virtual(world())
async def test_a_call_takes_for_one_host_alone_so_that_others_have_their_turn(w: World) -> None:
    one = [w.asking(name, host="one", room=2) for name in ("e1", "e2")]
    await asyncio.sleep(0.01)
    other = w.asking("e3", host="two", room=2)
    await asyncio.sleep(0.01)
    await w.enqueue(6)
    assert [len(each.claims) for each in await all_of([*one, other])] == [2, 2, 2]
    assert w.calls["next_claims"] == 2


@virtual(world())
async def test_an_ask_that_is_asked_again_keeps_its_place(w: World) -> None:
    first = w.asking("e1", room=1, wait=60)
    await asyncio.sleep(0.1)
    second = w.asking("e2", room=1, wait=60)
    await asyncio.sleep(10)
    assert w.renewals > 10
    await w.enqueue(1)
    await asyncio.sleep(0.01)
    assert (first.done(), second.done()) == (True, False)
    second.cancel()


@virtual(world())
async def test_an_ask_that_comes_from_another_hsc_keeps_its_place(w: World) -> None:
    here = w.asking("e1", room=1, wait=60)
    await asyncio.sleep(5)
    moved = w.runtime.spawn(w.once("e2", room=1, waited=20), name="moved")
    await asyncio.sleep(0.01)
    await w.enqueue(1)
    assert ids_of(await moved)
    here.cancel()


@virtual(world())
async def test_asks_of_different_hosts_are_not_served_by_one_call(w: World) -> None:
    asks = [w.asking(name, host=name, room=1) for name in ("one", "two")]
    await asyncio.sleep(0.01)
    await w.enqueue(1)
    await asyncio.sleep(0.1)
    assert sorted(each.done() for each in asks) == [False, True]
    assert w.calls["next_claims"] == 1
    asks[1].cancel()


# --- freshness --------------------------------------------------------------------------------------------------------


@virtual(world())
async def test_an_ask_near_the_front_is_told_to_ask_again_before_it_is_stale(w: World) -> None:
    answer = await w.once(wait=60)
    assert answer == Answer(again=True)
    assert RENEW * FRESH_S <= w.runtime.monotonic() < FRESH_S


@virtual(world(running=False))
async def test_an_old_ask_is_given_nothing(w: World) -> None:
    """As one is whose call stood in a buffer, or where this process stood still."""
    ask = w.ask_of()
    await asyncio.sleep(FRESH_S)
    (task_id,) = await w.enqueue(1)
    running = w.runtime.spawn(w.intake.run(), name="intake")
    assert (await w.intake.ask(ask, 5)).again
    assert (await w.record(task_id)).owner == ""
    assert ids_of(await w.ask()) == [task_id]
    await end([running])


@virtual(world())
async def test_only_the_first_of_a_line_are_kept_fresh(w: World) -> None:
    asks = [w.asking(f"e{number}", room=1, wait=60) for number in range(100)]
    await asyncio.sleep(0.1)
    await asyncio.sleep(20)
    assert NEAR * 20 <= w.renewals <= NEAR * 20 / RENEW * FRESH_S
    assert not any(each.done() for each in asks)
    for each in asks:
        each.cancel()


@virtual(world())
async def test_more_are_renewed_when_calls_bring_all_that_they_may(w: World) -> None:
    asks = [w.asking(f"e{number}", room=1, wait=60) for number in range(200)]
    await asyncio.sleep(5)
    assert not any(each.done() for each in asks)
    began = w.runtime.monotonic()
    await w.enqueue(200)
    assert all(each.claims for each in await all_of(asks))
    assert w.runtime.monotonic() - began < 0.1
    assert w.calls["next_claims"] <= 201


@virtual(world())
async def test_the_place_of_one_that_does_not_come_back_is_given_up(w: World) -> None:
    gone = [w.runtime.spawn(w.once(f"g{number}", room=1, wait=60), name="gone") for number in range(NEAR)]
    await asyncio.sleep(0.01)
    stays = w.asking("e1", room=1, wait=60)
    await asyncio.sleep(FRESH_S + EXPECTED_S)
    assert all(each.again for each in await all_of(gone))
    await asyncio.sleep(FRESH_S)
    began = w.runtime.monotonic()
    await w.enqueue(1)
    assert ids_of(await stays)
    assert w.runtime.monotonic() == began


# --- what it costs ----------------------------------------------------------------------------------------------------


@virtual(world())
async def test_one_task_among_a_thousand_hosts_costs_one_call_and_wakes_one(w: World) -> None:
    asks = [w.asking(f"e{number}", host=f"h{number // 4}", room=4, wait=60) for number in range(4_000)]
    await asyncio.sleep(2)
    for _ in range(5):
        calls, renewals = w.calls["next_claims"], w.renewals
        before = sum(each.done() for each in asks)
        await w.enqueue(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert w.calls["next_claims"] - calls == 1
        assert sum(each.done() for each in asks) - before == 1
        assert w.renewals - renewals <= NEAR
        await asyncio.sleep(0.5)
    for each in asks:
        each.cancel()


@virtual(world(partitions=2))
async def test_a_notification_looks_at_no_line_but_those_of_its_lambda(w: World) -> None:
    many = [w.asking(f"e{number}", lambdas=[f"shop/l{number}"], wait=60) for number in range(300)]
    await asyncio.sleep(5)
    looked, serve = [0], w.intake.takes.serve

    def counted(line: Any) -> None:
        looked[0] += 1
        serve(line)

    w.intake.takes.serve = counted  # type: ignore[method-assign]
    await w.enqueue(1, "shop/l7")
    await asyncio.sleep(0)
    assert many[7].done() or ids_of(await many[7])
    assert looked[0] <= 3
    for each in many:
        each.cancel()


@virtual(world())
async def test_calls_of_many_lines_are_made_bit_by_bit_the_longest_wait_first(w: World) -> None:
    under_way, most, order, take = 0, 0, list[str](), w.store.next_claims

    async def slow(partition: int, groups: Any, *args: Any, **more: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        order.append(groups[0][0])
        await asyncio.sleep(0.01)
        under_way -= 1
        return await take(partition, groups, *args, **more)

    names = [f"shop/l{number:03}" for number in range(100)]
    for name in names:
        await w.enqueue(1, name)
    w.store.next_claims = slow  # type: ignore[method-assign]
    asks = [w.asking(name, lambdas=[name], wait=10) for name in names]
    assert all(each.claims for each in await all_of(asks))
    assert most == 32
    assert [each.partition(":")[0] for each in order] == names


# --- a call whose outcome is unknown ----------------------------------------------------------------------------------


@virtual(world())
async def test_what_a_call_has_claimed_whose_answer_was_lost_is_found_by_its_nonce(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    w.faults[0] = [AFTER]
    answer = await w.once()
    assert ids_of(answer) == [task_id]
    assert w.runtime.monotonic() < 0.5
    assert (await w.record(task_id)).owner == "e1"


@virtual(world(partitions=2))
async def test_while_the_outcome_is_unknown_nothing_else_is_given_to_that_ask(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    w.faults[0] = [AFTER]
    asking = w.runtime.spawn(w.once(), name="ask")
    await asyncio.sleep(0.01)
    w.away = {0}
    (other,) = await w.enqueue(1, partition=1)
    await asyncio.sleep(0.5)
    assert not asking.done()
    assert (await w.record(other)).owner == ""
    w.away = set()
    assert ids_of(await asking) == [task_id]
    assert ids_of(await w.ask("e2")) == [other]


@virtual(world())
async def test_an_ask_of_which_that_is_not_known_in_time_is_to_be_repeated(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    w.faults[0] = [AFTER]
    asking = w.runtime.spawn(w.once(nonce="n"), name="ask")
    await asyncio.sleep(0.01)
    w.away = {0}
    with pytest.raises(Unavailable, match="as repeated"):
        await asking
    assert w.runtime.monotonic() == pytest.approx(FRESH_S, abs=0.01)
    w.away = set()
    answer = await w.once(nonce="n", repeated=True)
    assert ids_of(answer) == [task_id]
    assert ids_of(await w.once(nonce="n", repeated=True)) == [task_id], "whoever asks it"


@virtual(world())
async def test_a_repeated_ask_that_had_claimed_nothing_is_an_ask_like_any_other(w: World) -> None:
    asking = w.runtime.spawn(w.once(repeated=True), name="ask")
    await asyncio.sleep(0.1)
    (task_id,) = await w.enqueue(1)
    assert ids_of(await asking) == [task_id]


@virtual(world())
async def test_a_repeated_ask_whose_claims_are_over_ends_and_keeps_nobody_from_the_queue(w: World) -> None:
    await w.enqueue(1)
    await w.finish(await w.once(nonce="n"))
    (other,) = await w.enqueue(1)
    before = w.calls["next_claims"]
    assert await w.once(nonce="n", repeated=True, wait=60) == Answer(over=True)
    assert w.calls["next_claims"] - before == 1
    assert ids_of(await w.ask("e2")) == [other]


@virtual(world())
async def test_a_repeated_ask_ends_the_one_before_and_has_its_claims(w: World) -> None:
    take = w.store.next_claims

    async def slow(*args: Any, **more: Any) -> Any:
        taken = await take(*args, **more)
        await asyncio.sleep(0.3)
        return taken

    w.store.next_claims = slow  # type: ignore[method-assign]
    (task_id,) = await w.enqueue(1)
    earlier = w.runtime.spawn(w.once(nonce="n"), name="earlier")
    await asyncio.sleep(0.1)
    assert ids_of(await w.once(nonce="n", repeated=True)) == [task_id]
    assert await earlier == Answer()


@virtual(world())
async def test_nothing_is_claimed_any_more_for_who_has_gone_or_given_its_nonce_up(w: World) -> None:
    gone, given_up = w.asking("e1", wait=60), w.asking("e2", nonce="n", wait=60)
    await asyncio.sleep(0.1)
    gone.cancel()
    w.intake.give_up(["n"])
    await asyncio.sleep(0.1)
    (task_id,) = await w.enqueue(1)
    await asyncio.sleep(0.1)
    assert (await w.record(task_id)).owner == ""
    assert await given_up == Answer()
    assert w.calls["next_claims"] == 0


# --- pauses -----------------------------------------------------------------------------------------------------------


@virtual(world(partitions=2))
async def test_a_partition_that_fails_does_not_hold_up_the_other_and_is_found_again_soon(w: World) -> None:
    w.away = {0}
    (lost,) = await w.enqueue(1, partition=0)
    (good,) = await w.enqueue(1, partition=1)
    assert ids_of(await w.ask(wait=1)) == [good]
    failing = w.asking(wait=60)
    await asyncio.sleep(30)
    assert w.by_partition[0] < 30 / 0.15 + 5, "a store that is down must not be asked without pause"
    w.away = set()
    began = w.runtime.monotonic()
    assert ids_of(await failing) == [lost]
    assert w.runtime.monotonic() - began <= 0.3


@virtual(world())
async def test_a_store_that_is_away_for_long_is_asked_seldom(w: World) -> None:
    w.away = {0}
    asking = w.asking(wait=1000)
    await asyncio.sleep(200)
    before = w.by_partition[0]
    await asyncio.sleep(100)
    assert w.by_partition[0] - before <= 100
    asking.cancel()


@virtual(world())
async def test_no_ask_is_risked_on_a_partition_before_it_has_answered(w: World) -> None:
    await w.enqueue(3)
    w.faults[0] = [BEFORE]
    asks = [w.asking(f"e{number}", room=1, wait=10) for number in range(3)]
    await asyncio.sleep(0.01)
    w.away = {0}
    await asyncio.sleep(5)
    assert len(w.taken) == 1
    w.away = set()
    assert all(each.claims for each in await all_of(asks))


@virtual(world(partitions=2))
async def test_while_claims_are_paused_nothing_is_taken_and_it_goes_on_soon_after(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    await w.store.pause_claims()
    asks = [w.asking(f"e{number}", wait=60) for number in range(20)]
    await asyncio.sleep(8)
    assert len(w.taken) == 1
    assert w.calls["claim_pauses"] <= 17
    assert not any(each.done() for each in asks)

    async def paused() -> bool:
        for partition in range(2):
            await w.consume(partition)
        return any(each is not None for each in await w.store.claim_pauses())

    while await paused():
        await asyncio.sleep(0.05)
    ended = w.runtime.monotonic()
    while (await w.record(task_id)).owner == "":
        await asyncio.sleep(0.01)
    assert w.runtime.monotonic() - ended <= 0.6
    for each in asks:
        each.cancel()


# --- the end ----------------------------------------------------------------------------------------------------------


@virtual(world())
async def test_one_that_ends_sends_away_who_waits_and_answers_what_it_has_claimed(w: World) -> None:
    take = w.store.next_claims

    async def slow(*args: Any, **more: Any) -> Any:
        await asyncio.sleep(0.3)
        return await take(*args, **more)

    await w.ask(lambdas=[MAIL, BILL], wait=0.1)
    w.store.next_claims = slow  # type: ignore[method-assign]
    waits = w.runtime.spawn(w.once("e1", lambdas=[BILL], wait=60), name="waits")
    served = w.runtime.spawn(w.once("e2", wait=60), name="served")
    await asyncio.sleep(0.1)
    (task_id,) = await w.enqueue(1)
    await asyncio.sleep(0.1)
    await w.intake.close()
    with pytest.raises(Unavailable, match="ask another one"):
        await waits
    assert ids_of(await served) == [task_id]
    with pytest.raises(Unavailable, match="ask another one"):
        await w.once("e3")
