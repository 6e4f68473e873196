"""Time: the store's clock alone decides, nothing starts early by it, and a jump of it costs no lease and no token."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import pytest

from atf.store.library import CLOCK_APART_US, CLOCK_STEP_US, UNBELIEVED_REVISIT_US
from atf.store.values.claims import ClaimRenewal, HeldClaim, Verdict
from atf.task import US, Status

from .world import EPOCH_US, LEASE_US, World, dump, held

DAY_S = 86_400


@pytest.mark.parametrize("delay_us", [1, 999_999, US, 3600 * US])
async def test_a_task_is_never_enqueued_before_its_instant(world: World, delay_us: int) -> None:
    await world.schedule("by-delay", delay_us=delay_us)
    await world.schedule("by-instant", at_us=world.clock.us + delay_us)
    assert (await world.store.enqueue(0, 0)).next_in_us == delay_us
    world.clock.us += delay_us - 1
    passed = await world.store.enqueue(0, 0)
    assert (passed.enqueued, passed.next_in_us) == (0, 1)
    world.clock.us += 1
    assert (await world.store.enqueue(0, 0)).enqueued == 2


async def test_a_retry_is_never_enqueued_before_its_backoff_is_over(world: World) -> None:
    await world.fail(*await world.run("a"))
    world.clock.us += 60 * US - 1
    assert await world.passes() == (0, 0, 0)
    world.clock.us += 1
    assert await world.passes() == (1, 0, 0)


async def test_an_instant_in_the_past_is_now(world: World) -> None:
    (scheduled,) = await world.store.schedule([world.task("a", at_us=world.clock.us - DAY_S * US)])
    assert scheduled.scheduled_at_us == world.clock.us
    assert await world.passes() == (1, 0, 0)


async def test_ten_years_ahead_keep_their_microseconds(world: World) -> None:
    at = world.clock.us + 10 * 366 * DAY_S * US + 1
    (scheduled,) = await world.store.schedule([world.task("a", at_us=at)])
    assert scheduled.scheduled_at_us == at
    record = await world.get("0-a")
    assert (record.scheduled_at_us, record.next_at_us) == (at, at)


async def test_a_lease_ends_with_its_last_microsecond(world: World) -> None:
    await world.run("a")
    world.clock.us += LEASE_US - 1
    assert await world.passes() == (0, 0, 0)
    world.clock.us += 1
    assert await world.passes() == (0, 1, 1)


async def test_no_lease_ends_after_the_instant_that_is_believed(world: World) -> None:
    """The store's clock has jumped ahead by a day; the consumer knows that only a second has passed."""
    (claim,) = await world.run("a")
    believed = world.clock.us + US
    world.clock.advance(DAY_S)
    passed = await world.store.enqueue(0, believed)
    assert passed.lost == 0
    assert passed.next_in_us == UNBELIEVED_REVISIT_US
    assert await world.beat(claim) == [Verdict.OK]  # by now the lease is dated by the clock as it is
    assert (await world.store.enqueue(0, believed + LEASE_US)).lost == 0
    await world.check()


async def test_a_lease_ends_when_the_belief_reaches_its_end(world: World) -> None:
    await world.run("a")
    ends = world.clock.us + LEASE_US
    world.clock.advance(DAY_S)
    passed = await world.store.enqueue(0, ends - 1)
    assert (passed.lost, passed.next_in_us) == (0, 1)
    world.clock.us += 1
    assert (await world.store.enqueue(0, ends)).lost == 1


async def test_a_belief_ahead_of_the_clock_ends_no_lease_early(world: World) -> None:
    await world.run("a")
    world.clock.us += LEASE_US - 1
    assert (await world.store.enqueue(0, world.clock.us + DAY_S * US)).lost == 0


async def test_an_unbelieved_clock_does_not_make_the_pass_spin_or_hold_up_others(world: World) -> None:
    await world.run("a")
    believed = world.clock.us
    world.clock.advance(DAY_S)
    await world.schedule("b")
    passed = await world.store.enqueue(0, believed)
    assert (passed.enqueued, passed.lost) == (1, 0)
    assert passed.next_in_us is not None
    assert passed.next_in_us > 0


async def test_a_lease_that_ended_while_no_consumer_ran_is_lost_soon_after_one_has_started(world: World) -> None:
    await world.run("a")
    world.clock.advance(LEASE_US / US + 60)
    passed = await world.store.enqueue(0, believed_us=1)  # as a consumer's first pass: it believes no clock yet
    assert passed.lost == 0
    assert passed.next_in_us is not None
    assert 0 < passed.next_in_us <= UNBELIEVED_REVISIT_US
    world.clock.advance(passed.next_in_us / US)
    assert (await world.store.enqueue(0, world.clock.us)).lost == 1
    assert await world.queued() == ["0-a"]


async def test_a_lease_renewed_after_the_clock_went_back_ends_by_the_clock_as_it_is(world: World) -> None:
    (claim,) = await world.run("a")
    world.clock.advance(-DAY_S)
    assert await world.beat(claim) == [Verdict.OK]
    await world.check()
    world.clock.us += LEASE_US
    passed = await world.store.enqueue(0, 0, step_back="0")
    assert passed.lost == 0, "not before this consumer has seen a heartbeat timeout go by"
    world.clock.us += UNBELIEVED_REVISIT_US
    assert (await world.store.enqueue(0, 0, step_back=passed.step_back)).lost == 1


async def beats(world: World, claim: HeldClaim) -> None:
    await world.beat(claim)


async def claims_another(world: World, _claim: HeldClaim) -> None:
    await world.claim("0-b")


@pytest.mark.parametrize("calls", [beats, claims_another])
async def test_a_lease_given_while_the_clock_was_back_does_not_end_by_the_clock_of_before(
    world: World, calls: Callable[[World, HeldClaim], Awaitable[None]]
) -> None:
    """A consumer that had no answer meanwhile finds the clock where it believes it to be."""
    await world.schedule("b")
    (claim,) = await world.run("a")
    world.clock.advance(-40)
    await calls(world, claim)
    world.clock.advance(41)

    passed = await world.store.enqueue(0, world.clock.us, step_back="0")
    assert (passed.lost, passed.stepped_over) == (0, False)
    assert passed.next_in_us == UNBELIEVED_REVISIT_US
    starts = await world.store.enqueue(0, world.clock.us)
    assert (starts.lost, starts.stepped_over) == (0, False), "one that has just started can't know either"

    world.clock.us += LEASE_US
    other = await world.store.enqueue(0, world.clock.us, step_back="0")
    assert (other.lost, other.stepped_over) == (0, False)
    world.clock.us += UNBELIEVED_REVISIT_US
    passed = await world.store.enqueue(0, world.clock.us, step_back=passed.step_back)
    assert (passed.lost, passed.stepped_over) == (1 if calls is beats else 2, True)
    assert (await world.store.enqueue(0, world.clock.us)).stepped_over, "now one that starts may end leases"
    other = await world.store.enqueue(0, world.clock.us, step_back="0")
    assert not other.stepped_over, "one that had no answer meanwhile may not"


async def test_a_consumer_that_finds_the_clock_behind_what_it_believes_says_so_to_the_others(world: World) -> None:
    """Nothing has been claimed or renewed for so long that the store itself has not noted how far its clock had come."""
    await world.run("a")
    world.clock.advance(9)
    believed = world.clock.us
    world.clock.advance(-5)
    assert (await world.store.enqueue(0, 0, step_back="0")).stepped_over
    assert not (await world.store.enqueue(0, believed, step_back="0")).stepped_over
    assert not (await world.store.enqueue(0, 0, step_back="0")).stepped_over


async def test_a_consumer_whose_answers_are_lost_does_not_say_so_again_and_again(world: World) -> None:
    """Each time would have the others wait anew."""
    believed = world.clock.us
    world.clock.advance(-5)
    first = await world.store.enqueue(0, believed, step_back="0")
    world.clock.advance(1)
    again = await world.store.enqueue(0, believed + US, step_back="0")
    assert (first.stepped_over, again.stepped_over) == (False, False)
    assert again.step_back == first.step_back


async def test_a_step_within_the_drift_is_none(world: World) -> None:
    (claim,) = await world.run("a")
    world.clock.us -= CLOCK_STEP_US
    await world.beat(claim)
    passed = await world.store.enqueue(0, world.clock.us + CLOCK_APART_US, step_back="0")
    assert (passed.step_back, passed.stepped_over) == ("0", True)
    world.clock.us -= 1
    await world.beat(claim)
    assert not (await world.store.enqueue(0, 0, step_back="0")).stepped_over


async def test_passes_that_find_nothing_write_once_in_ten_seconds(world: World) -> None:
    """Each write is one of the disk."""
    await world.passes()
    world.clock.advance(4)
    await world.store.heartbeat(
        [ClaimRenewal(HeldClaim("0-x", 1, "n"), started=True)]
    )  # notes the clock, out of step with the passes
    before, writes = await dump(world.store), 0
    for _ in range(40):
        world.clock.advance(1)
        await world.store.enqueue(0, world.clock.us, step_back="0")
        after = await dump(world.store)
        writes += after.data != before.data
        before = after
    assert writes == 3


async def test_a_token_grows_although_the_clock_goes_back(world: World) -> None:
    (claim,) = await world.run("a", started=False)
    counters = [claim.counter]
    assert claim.counter == world.clock.us
    for jump in (-3600, -1, 10):
        await world.store.hand_back([claim])
        world.clock.advance(jump)
        (claim,) = held(await world.claim("0-a"))
        counters.append(claim.counter)
    assert counters == sorted(set(counters))
    world.clock.us = EPOCH_US + DAY_S * US
    await world.store.hand_back([claim])
    (claim,) = held(await world.claim("0-a"))
    assert claim.counter == world.clock.us  # it follows the clock once that is ahead again


async def test_a_store_that_forgot_a_claim_gives_a_larger_token(world: World) -> None:
    """The last second of a store is lost, the counter in it too: the clock keeps a token from being given twice."""
    (claim,) = await world.run("a", started=False)
    client = world.store.link.client
    await client.hdel("atf:{0}:t:0-a", "c", "n")
    await client.hset("atf:{0}:t:0-a", "s", "ENQUEUED")
    world.clock.advance(1)
    (again,) = held(await world.claim("0-a"))
    assert again.counter > claim.counter
    assert await world.beat(claim) == [Verdict.LOST]


async def test_a_store_that_forgot_a_claim_gives_a_larger_token_also_once_its_clock_is_set_back(world: World) -> None:
    """As far as its time was noted to have come, no number is below."""
    (claim,) = await world.run("a", started=False)
    client = world.store.link.client
    await client.hdel("atf:{0}:t:0-a", "c", "n")
    await client.hset("atf:{0}:t:0-a", "s", "ENQUEUED")
    world.clock.advance(11)
    await world.run("b", started=False)  # which notes the time
    for back in (3600, 1):
        world.clock.advance(-back)
        (again,) = held(await world.claim("0-a"))
        assert again.counter > claim.counter
        claim = again
        await world.store.hand_back([again])


async def test_a_clock_that_goes_back_enqueues_nothing_early(world: World) -> None:
    await world.schedule("a", delay_us=5 * US)
    world.clock.advance(-3600)
    await world.schedule("b", delay_us=5 * US)
    world.clock.advance(5)
    assert await world.passes() == (1, 0, 0)
    assert await world.statuses(["0-a", "0-b"]) == ["NEW", "ENQUEUED"]


async def test_outside_of_tests_the_servers_time_counts(world: World) -> None:
    world.store.now = None
    before = time.time_ns() // 1000
    (scheduled,) = await world.store.schedule([world.task("a")])
    after = time.time_ns() // 1000
    assert before - US <= scheduled.scheduled_at_us <= after + US
    passed = await world.store.enqueue(0, 0)
    assert passed.now_us >= scheduled.scheduled_at_us
    await world.claim("0-a")
    record = await world.get("0-a")
    assert record.status is Status.CLAIMED
    assert record.next_at_us == record.moved_at_us[Status.CLAIMED] + LEASE_US
