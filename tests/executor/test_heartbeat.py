"""Heartbeats: what they say, what they renew, and what follows from their answers and their failures."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

from atf.errors import Unavailable
from atf.executor.deadlines import Due
from atf.executor.held import HeldTask
from atf.executor.table import SlotState
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from tests.executor.world import HeldWorld, World, claim, held, inline, job, ran
from tests.virtual import virtual


@virtual(inline)
async def test_nothing_is_said_while_nothing_is_held(world: World) -> None:
    await asyncio.sleep(20)
    assert world.hsc.beats == []


@virtual(held)
async def test_one_call_lists_every_claim_and_says_which_have_started(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-{n}") for n in range(3)))
    await asyncio.sleep(0.1)
    await world.heartbeats.once()
    [beat] = world.hsc.beats
    assert beat.executor_id == "e1"
    assert beat.heartbeat_timeout_us == 16_000_000
    assert {each.claim.task_id: each.started for each in beat.claims} == {"0-0": True, "0-1": True, "0-2": False}
    assert {each.claim.token.counter for each in beat.claims} == {1}


@virtual(inline)
async def test_the_last_claim_is_released_while_a_heartbeat_begins(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":9}'))
    await world.settle()
    ledger = world.executor.ledger
    snapshot = ledger.snapshot

    def released() -> list[HeldTask]:
        held = snapshot()
        ledger.release(held)  # by another thread, at this very moment
        return held

    ledger.snapshot = released  # type: ignore[method-assign]
    await world.heartbeats.once()
    assert world.ended == []


@virtual(inline)
async def test_progress_is_carried_once(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":9}'))
    await world.settle()
    world.executor.ledger.tasks["0-a"].say("half")
    await asyncio.sleep(5)
    assert [beat.claims[0].progress for beat in world.hsc.beats] == ["half", "", ""]


@virtual(inline)
async def test_progress_of_a_failed_heartbeat_is_said_again(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":9}'))
    await world.settle()
    world.executor.ledger.tasks["0-a"].say("half")
    world.hsc.failing["heartbeat"] = Unavailable("gone")
    await asyncio.sleep(2.5)
    del world.hsc.failing["heartbeat"]
    await asyncio.sleep(2)
    assert [beat.claims[0].progress for beat in world.hsc.beats] == ["half", "half", "half"]


@virtual(inline)
async def test_progress_is_said_again_until_the_claims_part_of_the_store_is_there(world: World) -> None:
    world.controller.give(*(claim(f"0-{name}", "t/nap", b'{"seconds":9}') for name in "ab"))
    await world.settle()
    for task in world.executor.ledger.tasks.values():
        task.say("half")
    world.hsc.verdicts["0-a"] = h.UNKNOWN
    await world.heartbeats.once()
    await world.heartbeats.once()
    del world.hsc.verdicts["0-a"]
    await world.heartbeats.once()
    await world.heartbeats.once()
    told = [{each.claim.task_id: each.progress for each in beat.claims} for beat in world.hsc.beats]
    assert [each["0-a"] for each in told] == ["half", "half", "half", ""]
    assert [each["0-b"] for each in told] == ["half", "", "", ""]


@virtual(inline)
async def test_a_lease_is_dated_from_the_sending_of_the_request(world: World) -> None:
    world.hsc.slow = 0.5
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":30}'), age=0.25)
    await world.settle()
    held = world.executor.ledger.tasks["0-a"]
    assert held.lease_us == world.table.oldest_lease_us
    assert world.runtime.boottime_us() - held.lease_us >= 250_000
    sent_us = world.runtime.boottime_us()
    await world.heartbeats.once()
    assert held.lease_us == world.table.oldest_lease_us == sent_us
    assert world.runtime.boottime_us() == sent_us + 500_000


@virtual(inline)
async def test_the_table_shows_the_oldest_lease_of_all(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":30}'), age=0.1)
    await world.settle()
    oldest = world.table.oldest_lease_us
    world.controller.give(claim("0-b", "t/nap", b'{"seconds":30}'))
    await world.settle()
    assert world.table.oldest_lease_us == oldest
    world.controller.give(claim("0-c", "t/nap", b'{"seconds":30}'), age=0.5)
    await world.settle()
    assert world.table.oldest_lease_us < oldest


@virtual(inline)
async def test_a_claim_that_arrives_during_a_heartbeat_is_not_renewed_by_it(world: World) -> None:
    world.hsc.slow = 0.8
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":30}'))
    await world.settle()
    beat = world.runtime.spawn(world.heartbeats.once(), name="beat")
    await asyncio.sleep(0.1)
    world.controller.give(claim("0-b", "t/nap", b'{"seconds":30}'), age=0.5)
    await beat
    ledger = world.executor.ledger.tasks
    assert ledger["0-b"].lease_us < ledger["0-a"].lease_us
    assert world.table.oldest_lease_us == ledger["0-b"].lease_us


@virtual(inline)
async def test_three_failures_in_a_row_end_the_process(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}'))
    await asyncio.sleep(2.5)
    world.hsc.failing["heartbeat"] = Unavailable("gone")
    began = world.runtime.monotonic()
    assert await world.run == 75
    assert world.ended[0][0] == 75
    timing = world.timing
    assert world.runtime.monotonic() - began <= 3 * (timing.heartbeat_interval + timing.rpc_deadline)
    assert world.slots(SlotState.STARTED) == ["0-a"], "the guard will find what it held"


@virtual(inline)
async def test_a_process_that_stood_still_past_its_leases_ends_without_another_word(world: World) -> None:
    """Its guard stood still too, or it would be dead. What it ran may run elsewhere by now."""
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}'))
    await asyncio.sleep(2.5)
    beats = len(world.hsc.beats)
    timing = world.timing
    last_us = round((timing.heartbeat_timeout - timing.kill_time - timing.drift) * 1e6)
    world.table.oldest_lease_us = world.runtime.boottime_us() - last_us + 1_200_000
    await asyncio.sleep(1)
    assert world.ended == []
    assert await world.run == 75
    assert len(world.hsc.beats) == beats
    assert "stood still" in world.ended[0][1]


@virtual(inline)
async def test_an_answer_that_takes_too_long_is_a_failure(world: World) -> None:
    world.hsc.slow = 5
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}'))
    began = world.runtime.monotonic()
    assert await world.run == 75
    assert len(world.hsc.beats) == 4, "the first has said that it started, and was no strike"
    assert world.runtime.monotonic() - began <= 9.1


@virtual(inline)
async def test_runs_that_last_tell_their_start_together_and_at_once(world: World) -> None:
    """Those that end sooner tell it with their results."""
    world.controller.give(*(claim(f"0-{name}", "t/nap", b'{"seconds":9}') for name in "ab"))
    world.controller.give(claim("0-short", "t/nap", b'{"seconds":0.1}'))
    await asyncio.sleep(0.25)
    [beat] = world.hsc.beats
    assert {each.claim.task_id: each.started for each in beat.claims} == {"0-a": True, "0-b": True}
    await asyncio.sleep(1.6)
    assert len(world.hsc.beats) == 1, "once"
    await asyncio.sleep(0.3)
    assert len(world.hsc.beats) == 2
    assert 95_000 <= world.hsc.results[0].ran_us <= 105_000


@virtual(inline)
async def test_starts_that_come_one_by_one_cost_few_calls_and_few_looks(world: World) -> None:
    """However many begin in a second, at most five calls tell of them."""
    looks, look = [0], world.executor.deadlines.look

    def counted() -> Due:
        looks[0] += 1
        return look()

    world.executor.deadlines.look = counted  # type: ignore[method-assign]
    for number in range(90):
        world.controller.give(claim(f"0-{number}", "t/nap", b'{"seconds":0.9}'))
        await asyncio.sleep(0.01)
    told = [each.claim.task_id for beat in world.hsc.beats for each in beat.claims]
    assert len(told) == len(set(told))
    assert 40 <= len(told) <= 75
    assert len(world.hsc.beats) <= 5
    assert looks[0] <= 12
    await asyncio.sleep(3)
    before = looks[0]
    await asyncio.sleep(60)
    assert looks[0] == before, "it holds nothing, and sleeps"


@virtual(inline)
async def test_a_start_that_nobody_hears_holds_up_no_heartbeat(world: World) -> None:
    """It has the time that is left before the next one, which says it as well; and it is no strike."""
    await asyncio.sleep(1.5)
    world.hsc.slow = 5
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}'))
    await asyncio.sleep(0.55)
    assert [each.started for beat in world.hsc.beats for each in beat.claims] == [True, True]
    assert await world.run == 75
    assert len(world.ended) == 1


@virtual(inline)
async def test_two_failures_and_a_success_start_the_count_again(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}'))
    for _ in range(3):
        world.hsc.failing["heartbeat"] = Unavailable("gone")
        while len(world.hsc.beats) % 3 != 2:
            await asyncio.sleep(0.5)
        del world.hsc.failing["heartbeat"]
        while len(world.hsc.beats) % 3:
            await asyncio.sleep(0.5)
    assert world.ended == []
    assert not world.run.done()


@virtual(held)
async def test_nudges_while_the_hsc_is_away_are_no_strikes(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await asyncio.sleep(0.1)
    world.hsc.failing["heartbeat"] = Unavailable("gone")
    for _ in range(20):
        world.heartbeats.nudge()
        await asyncio.sleep(0.05)
    assert len(world.hsc.beats) == 1


@virtual(held)
async def test_a_task_starts_only_with_enough_of_its_lease_left_and_a_heartbeat_comes_first(world: HeldWorld) -> None:
    world.hsc.slow = 0.01
    world.controller.give(job("0-a"), age=1)  # 15 s are left, 15.1 are needed
    await world.settle()
    assert world.slots(SlotState.HELD) == ["0-a"]
    assert len(world.hsc.beats) == 1, "at once, not at the next interval"
    assert not world.hsc.beats[0].claims[0].started
    await asyncio.sleep(0.02)
    assert world.slots(SlotState.STARTED) == ["0-a"]


@virtual(held)
async def test_a_task_with_too_little_of_its_lease_left_waits_while_the_hsc_is_away(world: HeldWorld) -> None:
    world.hsc.failing["heartbeat"] = Unavailable("gone")
    world.controller.give(job("0-a"), age=1)
    await asyncio.sleep(3)
    assert world.slots(SlotState.HELD) == ["0-a"]
    del world.hsc.failing["heartbeat"]
    await asyncio.sleep(2)
    assert world.slots(SlotState.STARTED) == ["0-a"]


# --- what an answer says ------------------------------------------------------------------------------------------------


@virtual(inline)
async def test_a_lost_coroutine_is_cancelled_and_reports_nothing(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}'), claim("0-b", "t/nap", b'{"seconds":3}'))
    world.hsc.verdicts["0-a"] = h.LOST
    await asyncio.sleep(10)
    assert ran == ["cancelled"]
    assert world.outcomes() == {"0-b": t.SUCCEEDED}
    assert world.entries() == []
    assert not world.run.done()


@virtual(inline)
async def test_a_lost_coroutine_that_goes_on_ends_the_process(world: World) -> None:
    world.controller.give(claim("0-a", "t/stubborn", b'{"seconds":60}'))
    world.hsc.verdicts["0-a"] = h.LOST
    assert await world.run == 75
    assert world.hsc.results == []


@virtual(held)
async def test_a_lost_def_ends_the_process_at_once(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await world.settle()
    world.hsc.verdicts["0-a"] = h.LOST
    await world.heartbeats.once()
    assert await world.run == 75
    assert world.slots(SlotState.STARTED) == ["0-a"]


@virtual(held)
async def test_a_lost_claim_that_has_not_started_never_does(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-{n}") for n in range(3)))
    await world.settle()
    world.hsc.verdicts["0-2"] = h.LOST
    await world.heartbeats.once()
    world.held.end("0-0")
    await world.settle()
    assert list(world.held.running) == ["0-1"]
    assert world.hsc.returned == []
    assert "0-2" not in world.outcomes()
    assert [each.task_id for each in world.entries()] == ["0-1"]


@virtual(held)
async def test_lost_is_no_alarm_for_a_run_whose_result_is_on_the_way(world: HeldWorld) -> None:
    world.hsc.failing["set_results"] = Unavailable("gone")
    world.controller.give(job("0-a"))
    await world.settle()
    world.held.end("0-a")
    world.hsc.verdicts["0-a"] = h.LOST
    await world.heartbeats.once()
    await asyncio.sleep(0.1)
    assert not world.run.done()


@virtual(inline)
async def test_a_cancelled_coroutine_stops(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}'))
    world.hsc.verdicts["0-a"] = h.CANCEL
    await asyncio.sleep(2.5)
    assert ran == ["cancelled"]
    assert world.outcomes() == {"0-a": t.STOPPED}
    assert not any(each.never_began for each in world.hsc.results)


@virtual(held)
async def test_a_cancelled_def_sees_it_and_is_reported_when_its_body_has_ended(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await world.settle()
    world.hsc.verdicts["0-a"] = h.CANCEL
    await asyncio.sleep(4)
    assert world.executor.ledger.tasks["0-a"].is_set(), "what ctx.cancelled reads"
    assert world.hsc.results == []
    world.held.end("0-a")
    await world.settle()
    assert world.outcomes() == {"0-a": t.SUCCEEDED}, "it ended in time, with a result"


@virtual(held)
async def test_a_cancelled_claim_that_has_not_started_never_does(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-{n}") for n in range(3)))
    await world.settle()
    world.hsc.verdicts["0-2"] = h.CANCEL
    await world.heartbeats.once()
    world.held.end("0-0")
    await world.settle()
    assert world.outcomes() == {"0-0": t.SUCCEEDED, "0-2": t.STOPPED}
    assert {each.claim.task_id: each.never_began for each in world.hsc.results} == {"0-0": False, "0-2": True}


@virtual(held)
async def test_a_cancel_that_comes_right_before_the_body_is_called_is_no_attempt(world: HeldWorld) -> None:
    plain = world.executor.ledger.start

    def start(task: HeldTask) -> None:
        plain(task)
        world.executor.interrupts.stop(task, timed_out=False)

    with patch.object(world.executor.ledger, "start", start):
        world.controller.give(job("0-a"))
        await world.settle()
    assert [(each.outcome, each.never_began, each.ran_us) for each in world.hsc.results] == [(t.STOPPED, True, 0)]


@virtual(held)
async def test_a_new_claim_of_a_task_whose_old_run_still_goes_on_is_handed_back(world: HeldWorld) -> None:
    """The store has expired the old lease: that run must end, and the new one must not start beside it."""
    world.controller.give(job("0-a", counter=1))
    await world.settle()
    world.controller.give(job("0-a", counter=2))
    assert await world.run == 75


@virtual(inline)
async def test_a_new_claim_of_a_coroutine_that_still_runs_is_handed_back(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}', counter=1))
    await world.settle()
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}', counter=2))
    await world.settle()
    assert ran == ["cancelled"]
    assert world.hsc.returned == ["0-a"]
    assert world.entries() == []


@virtual(inline)
async def test_whoever_kept_none_of_its_claims_asks_again_only_after_a_while(world: World) -> None:
    """They may come again at once, from the queue to which they went."""
    world.controller.give(claim("0-a", "t/stubborn", b'{"seconds":60}', counter=1))
    await world.settle()
    asked = len(world.controller.async_requests)
    world.controller.give(claim("0-a", "t/stubborn", b'{"seconds":60}', counter=2))
    for _ in range(50):
        await asyncio.sleep(0)
    assert world.hsc.returned == ["0-a"]
    assert len(world.controller.async_requests) == asked
    await asyncio.sleep(0.1)
    assert len(world.controller.async_requests) == asked + 1
