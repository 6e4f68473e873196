"""Permits: never more of a lambda's tasks in its queues and at work than max_running, never more pushed in a second than its burst."""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.store.values.claims import HeldClaim, Outcome
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.passes import OutboxRecord
from atf.task import US
from tests.store_calls import call_function, list_outbox

from .conftest import OpenStore
from .world import BACKOFF_US, ENQUEUE_TIMEOUT_US, LAMBDA, LEASE_US, QUEUE, Clock, Dump, World, dump, held, to


async def limited(open_store: OpenStore, clock: Clock, settings: str, partitions: int = 1) -> World:
    world = World(await open_store(partitions), clock)
    await declare(world, settings)
    return world


async def declare(world: World, settings: str) -> None:
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 1000, ENQUEUE_TIMEOUT_US, False, settings)])


async def names(world: World, count: int, prefix: str = "t", **options: int) -> list[str]:
    return await world.schedule(*(f"{prefix}{number}" for number in range(count)), **options)


async def test_a_home_whose_data_are_lost_hears_nothing_before_it_is_opened(
    open_store: OpenStore, clock: Clock
) -> None:
    world = await limited(open_store, clock, "running=2", 2)
    await world.deliver()
    store = world.store
    owed = []
    for partition in (0, 1):
        await names(world, 2, partition=partition)
        await store.enqueue(partition, 0)
        owed += await list_outbox(store, partition)
    (asked,) = [each for each in owed if b"ask_permits" in each.body]
    record = f"atf:{{{asked.target}}}"
    await store.link.command("DEL", record, key=record)
    with pytest.raises(Unavailable, match=f"partition {asked.target} of the task store has lost its data"):
        await store.apply_outbox(asked)
    assert await list_outbox(store, asked.partition)

    await open_store(2)
    await store.apply_outbox(asked)
    assert not await list_outbox(store, asked.partition)


# --- max_running ------------------------------------------------------------------------------------------------------


async def test_no_more_run_than_may(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=3")
    await names(world, 8)
    done = 0
    while done < 8:
        await world.passes()
        claims = held(await world.claim(*await world.pop()))
        assert len(claims) == min(3, 8 - done)
        await world.finish(Outcome.SUCCEEDED, *claims)
        done += len(claims)
    await world.check()


@pytest.mark.parametrize(
    "end", ["success", "retriable", "fatal", "cancel", "lost for good", "handed back and cancelled"]
)
async def test_the_next_one_is_pushed_as_soon_as_one_has_ended(open_store: OpenStore, clock: Clock, end: str) -> None:
    world = await limited(open_store, clock, "running=1")
    (first,) = await world.run("first", max_losses=1)
    await world.schedule("second")
    assert await world.passes() == (0, 0, 0)
    match end:
        case "success":
            await world.finish(Outcome.SUCCEEDED, first)
        case "retriable":
            await world.fail(first)
        case "fatal":
            await world.finish(Outcome.FAILED_FATAL, first)
        case "cancel":
            await world.store.cancel_tasks(["0-first"])
            assert await world.passes() == (0, 0, 0)  # it runs until it is stopped
            await world.finish(Outcome.STOPPED, first)
        case "lost for good":
            await world.store.report_loss([first], "killed")
        case _:
            await world.store.hand_back([first])
            await world.store.report_loss([first], "killed")
    assert (await world.store.enqueue(0, 0)).enqueued == 1, "in the very next pass, on no other clock"
    await world.check()


async def test_a_lost_or_handed_back_task_keeps_its_permit(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=1")
    (claim,) = await world.run("first", started=False)
    await world.schedule("second")
    await world.store.hand_back([claim])
    await world.passes()
    assert await world.queued() == ["0-first"]
    (claim,) = held(await world.claim(*await world.pop()))
    await world.store.report_loss([claim], "killed")
    await world.passes()
    assert await world.queued() == ["0-first"]


async def test_a_queued_task_that_is_cancelled_makes_room(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=1")
    await names(world, 2)
    await world.passes()
    await world.store.cancel_tasks(["0-t0"])
    assert (await world.store.enqueue(0, 0)).enqueued == 1


async def test_all_priorities_share_the_permits(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=2")
    await names(world, 2, "low", priority=2)
    await world.passes()
    await names(world, 2, "high", priority=0)
    await names(world, 1, "normal")
    await world.passes()
    claims = held(await world.claim(*await world.pop(f"{LAMBDA}:0", QUEUE, f"{LAMBDA}:2")))
    assert {each.task_id for each in claims} == {"0-low0", "0-low1"}
    await world.finish(Outcome.SUCCEEDED, claims[0])
    await world.passes()
    assert await world.queued(f"{LAMBDA}:0") == ["0-high0"]


async def test_a_raised_limit_holds_at_once_and_a_lowered_one_waits(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=2")
    await names(world, 10)
    await world.passes()
    await world.store.set_lambda(LAMBDA, to("running=4"))
    assert await world.passes() == (2, 0, 0)
    claims = held(await world.claim(*await world.pop()))
    await world.store.set_lambda(LAMBDA, to("running=1"))
    for number, claim in enumerate(claims):
        await world.finish(Outcome.SUCCEEDED, claim)
        await world.passes()
        assert len(await world.queued()) == (1 if number == 3 else 0)
    await world.store.set_lambda(LAMBDA, to("running=7"))
    await declare(world, "")  # the code says nothing any more; the operator still does
    assert await world.passes() == (5, 0, 0)


async def test_what_stands_in_a_queue_when_a_limit_is_lowered_still_starts(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=4")
    await names(world, 10)
    await world.passes()
    await world.store.set_lambda(LAMBDA, to("running=1"))
    claims = held(await world.claim(*await world.pop()))
    assert len(claims) == 4
    await world.finish(Outcome.SUCCEEDED, *claims[1:])
    assert await world.passes() == (0, 0, 0)


async def test_what_ran_before_there_was_a_limit_counts(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "")
    claims = await world.run("a", "b", "c")
    await world.store.set_lambda(LAMBDA, to("running=2"))
    await world.schedule("d")
    await world.finish(Outcome.SUCCEEDED, claims[0])
    assert await world.passes() == (0, 0, 0)
    await world.finish(Outcome.SUCCEEDED, claims[1])
    clock.advance(1)  # it had no permit, so that its end tells nobody
    assert await world.passes() == (1, 0, 0)


async def test_a_limit_costs_other_lambdas_nothing_and_a_waiting_queue_is_left_alone(
    open_store: OpenStore, clock: Clock
) -> None:
    world = await limited(open_store, clock, "running=1")
    await names(world, 300)
    await world.passes()
    made = await world.store.enqueue(0, 0)
    assert made.next_in_us == US
    await world.schedule("other", lambda_name="shop/other")
    assert await world.passes() == (1, 0, 0)


# --- rate -------------------------------------------------------------------------------------------------------------


async def pushed_at(world: World, seconds: float) -> list[int]:
    """Passes whenever one is due, and answers when each task was pushed, µs."""
    pushed: list[int] = []
    began = world.clock()
    while (now := world.clock() - began) < seconds * US:
        made = await world.store.enqueue(0, 0)
        pushed += [now] * made.enqueued
        assert made.next_in_us or made.enqueued, "a pass that does nothing is not due again at once"
        world.clock.us += min(made.next_in_us or 0, round(began + seconds * US) - world.clock())
    return pushed


async def paced(world: World, seconds: float, *, claim: bool = True) -> tuple[list[int], list[HeldClaim]]:
    """Passes every tenth of a second, takes what was pushed and claims it. When each was pushed, again or not, µs, and the claims."""
    pushed: list[int] = []
    claims: list[HeldClaim] = []
    for _ in range(round(seconds * 10)):
        enqueued, again, _ = await world.passes()
        pushed += [world.clock()] * (enqueued + again)
        popped = await world.pop()
        if popped and claim:
            claims += held(await world.claim(*popped))
        world.clock.advance(0.1)
    return pushed, claims


def most_in_a_second(pushed: list[int]) -> int:
    window: deque[int] = deque()
    most = 0
    for each in pushed:
        window.append(each)
        while window[0] <= each - US:
            window.popleft()
        most = max(most, len(window))
    return most


@pytest.mark.parametrize(
    ("settings", "rate", "burst"),
    [
        ("rate=100", 100, 125),
        ("rate=100 burst=100", 100, 100),
        ("rate=20 burst=60", 20, 60),
        ("rate=0.5", 0.5, 1),
        ("rate=3", 3, 4),
    ],
)
async def test_a_flood_is_pushed_at_the_rate(
    open_store: OpenStore, clock: Clock, settings: str, rate: float, burst: int
) -> None:
    world = await limited(open_store, clock, settings)
    seconds = 2 if rate > 10 else 10
    await names(world, round(rate * seconds * 1.5) + 50)
    pushed = await pushed_at(world, seconds)
    assert most_in_a_second(pushed) <= burst
    assert rate * seconds - 1 <= len(pushed) <= rate * seconds + max(burst - rate, rate / 4, 1) + 1


async def test_passes_that_come_late_lose_nothing_of_the_rate(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "rate=50")
    await names(world, 256)
    first = await world.passes()
    count = 0
    for _ in range(40):
        clock.advance(0.1)  # instead of 0.02
        count += (await world.passes())[0]
    assert (first, count) == ((13, 0, 0), 200)


async def test_rest_earns_a_burst_and_no_more(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "rate=10 burst=30")
    await names(world, 100)
    assert await world.passes() == (20, 0, 0)
    clock.advance(1)
    assert await world.passes() == (10, 0, 0)
    clock.advance(3600)
    assert await world.passes() == (20, 0, 0)


async def test_what_was_lost_is_pushed_again_at_the_rate_and_before_what_is_new(
    open_store: OpenStore, clock: Clock
) -> None:
    world = await limited(open_store, clock, "rate=10 burst=13")
    ids = await names(world, 60)
    pushed, claims = await paced(world, 5)
    assert len(claims) == 52
    await world.store.report_loss(claims, "killed")
    again, _ = await paced(world, 6)
    assert most_in_a_second(pushed + again) <= 13
    assert len(again) == 60, "52 again, 8 for the first time; nothing of the rate is lost"
    assert (await world.statuses(ids)).count("CLAIMED") == 60
    await world.check()


@pytest.mark.parametrize("how", ["handed back", "never claimed", "lease over"])
async def test_every_way_back_to_the_queue_takes_of_the_rate(open_store: OpenStore, clock: Clock, how: str) -> None:
    world = await limited(open_store, clock, "rate=10 burst=13")
    await names(world, 26)
    pushed, claims = await paced(world, 2.4, claim=how != "never claimed")
    assert len(pushed) == 26
    match how:
        case "handed back":
            await world.store.hand_back(claims[:20])
            await world.store.report_loss(claims[20:], "killed")
            clock.advance(1)
        case "never claimed":
            clock.advance(ENQUEUE_TIMEOUT_US / US)
        case _:
            clock.advance(LEASE_US / US)
    again, _ = await paced(world, 2.4)
    assert most_in_a_second(again) <= 13
    assert len(again) == 26


async def test_a_queue_that_waits_to_push_again_is_left_alone_until_the_rate_allows_one(
    open_store: OpenStore, clock: Clock
) -> None:
    world = await limited(open_store, clock, "rate=0.1")
    (claim,) = await world.run("first")
    await world.store.report_loss([claim], "killed")
    made = await world.store.enqueue(0, 0)
    assert (made.enqueued_again, made.next_in_us) == (0, 10 * US)
    surroundings = await world.store.explain_task("0-first")
    assert surroundings is not None
    assert surroundings.waits_for == "rate=0.1"
    clock.advance(10)
    assert await world.passes() == (0, 1, 0)


async def test_what_is_lost_of_a_high_priority_goes_before_what_is_due_of_a_low_one(
    open_store: OpenStore, clock: Clock
) -> None:
    world = await limited(open_store, clock, "rate=10 burst=13")
    claims = await world.run("a", "b", "c", priority=0)
    clock.advance(10)
    await names(world, 30, priority=2)
    await world.store.report_loss(claims, "killed")
    await world.passes()
    assert await world.queued(f"{LAMBDA}:0") == ["0-a", "0-b", "0-c"]
    await world.store.hand_back(held(await world.claim(*await world.pop(f"{LAMBDA}:0"))))
    await world.pop(f"{LAMBDA}:2")
    await paced(world, 1)
    assert sorted(await world.queued(f"{LAMBDA}:0")) == ["0-a", "0-b", "0-c"]
    assert len(await world.queued(f"{LAMBDA}:2")) == 6


async def test_what_is_pushed_again_takes_no_second_permit_of_max_running(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "rate=1 running=4")
    ids = await names(world, 5)
    _, claims = await paced(world, 4)
    assert len(claims) == 4
    await world.store.report_loss(claims[:3], "killed")
    again, fresh = await paced(world, 3.5)
    assert len(again) == len(fresh) == 3
    await world.finish(Outcome.SUCCEEDED, claims[3])
    await paced(world, 1)
    assert (await world.statuses(ids)).count("CLAIMED") == 4
    await world.check()


async def test_a_changed_rate_holds_at_once(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "rate=0.01")
    await names(world, 100)
    assert await world.passes() == (1, 0, 0)
    await world.store.set_lambda(LAMBDA, to("rate=1000"))
    clock.advance(0.05)
    assert (await world.passes())[0] == 50
    await world.store.set_lambda(LAMBDA, to(""))
    assert await world.passes() == (0, 0, 0)


async def test_a_clock_that_is_set_back_empties_the_bucket(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "rate=10")
    await names(world, 20)
    assert await world.passes() == (3, 0, 0)
    clock.advance(-3600)
    await world.schedule("now")
    assert await world.passes() == (0, 0, 0)
    clock.advance(0.1)
    assert await world.passes() == (1, 0, 0)


async def test_rate_and_running_hold_together(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "rate=10 running=3")
    await names(world, 20)
    assert await world.passes() == (3, 0, 0)
    clock.advance(5)
    (claim, *_) = held(await world.claim(*await world.pop()))
    await world.fail(claim)
    assert await world.passes() == (1, 0, 0)
    clock.advance(BACKOFF_US / US)
    assert await world.passes() == (0, 2, 2)


# --- several partitions -----------------------------------------------------------------------------------------------


class Partitions:
    """Passes over all partitions, and messages between them that take their time, come twice, or are lost."""

    def __init__(self, world: World, *, takes_s: float = 0, twice: float = 0, lost: float = 0, seed: int = 0) -> None:
        self.world = world
        self.pushed: list[int] = []
        self.messages = 0
        self.away: set[int] = set()
        """Partitions that do nothing, and that no message reaches."""
        self._takes_us, self._twice, self._lost = round(takes_s * US), twice, lost
        self._chance = random.Random(seed)
        self._travels: list[tuple[int, int, OutboxRecord]] = []

    def next_us(self) -> int:
        return min((at for at, _, _ in self._travels), default=1 << 62)

    async def once(self) -> int:
        """One pass over each partition; answers when the next one is due at the latest."""
        wait = 1 << 62
        now = self.world.clock()
        while self._travels and self._travels[0][0] <= now:
            _, _, record = heapq.heappop(self._travels)
            if record.target not in self.away:
                await self.world.store.apply_outbox(record)
        for partition in range(self.world.store.partitions):
            if partition in self.away:
                continue
            made = await self.world.store.enqueue(partition, 0)
            self.pushed += [now] * (made.enqueued + made.enqueued_again)
            for record in made.outbox:
                if self._chance.random() >= self._lost:
                    for _ in range(1 + (self._chance.random() < self._twice)):
                        self.messages += 1
                        at = now + round(self._takes_us * (0.5 + self._chance.random()))
                        heapq.heappush(self._travels, (at, self.messages, record))
                else:
                    await self.world.store.acknowledge_outbox(record)
            wait = min(wait, (1 << 62) if made.next_in_us is None else 0 if made.enqueued else made.next_in_us)
        return min(now + max(wait, 5000), self.next_us())

    async def until(self, at_us: int) -> None:
        """Everything until an instant."""
        while self.world.clock() < at_us:
            following = await self.once()
            self.world.clock.us = min(max(following, self.world.clock()), at_us)

    async def pop(self, want: int = 1000) -> list[str]:
        return [
            each
            for partition in range(self.world.store.partitions)
            for each in await self.world.pop(want=want, partition=partition)
        ]


async def spread(world: World, count: int, prefix: str = "t") -> list[str]:
    """As many tasks in each partition."""
    ids = []
    for partition in range(world.store.partitions):
        ids += await world.schedule(*(f"{prefix}{partition}-{number}" for number in range(count)), partition=partition)
    return ids


LATE = {"takes_s": 0.3}
BAD = {"takes_s": 0.3, "twice": 0.3, "lost": 0.2}


@pytest.mark.parametrize(
    ("bad", "limit"), [({}, 1), (LATE, 5), (BAD, 1), (BAD, 5)], ids=["well", "late", "lost", "few lost"]
)
async def test_never_more_run_in_all_partitions(open_store: OpenStore, clock: Clock, bad: Any, limit: int) -> None:
    world = await limited(open_store, clock, f"running={limit}", 4)
    ids = await spread(world, 4)
    partitions = Partitions(world, **bad)
    running: list[HeldClaim] = []
    seen: list[str] = []
    chance = random.Random(1)
    while len(seen) < len(ids):
        clock.us = max(await partitions.once(), clock.us)
        popped = await partitions.pop()
        seen += popped
        running += held(await world.claim(*popped)) if popped else []
        assert len(running) <= limit
        while running and (len(running) == limit or chance.random() < 0.3):
            claim = running.pop(chance.randrange(len(running)))
            await world.finish(chance.choice([Outcome.SUCCEEDED, Outcome.FAILED_FATAL]), claim)
        assert clock() - Clock().us < 1000 * US, "some task never gets its permit"
    await world.check()


async def test_all_partitions_have_their_turn(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=2", 4)
    await spread(world, 12)
    partitions = Partitions(world)
    ran: list[str] = []
    while len(ran) < 24:
        clock.us = max(await partitions.once(), clock.us)
        popped = await partitions.pop()
        ran += popped
        if popped:
            await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*popped)))
    counts = Counter(task_id[0] for task_id in ran)
    assert max(counts.values()) <= min(counts.values()) + 2


@pytest.mark.parametrize("bad", [{}, LATE, BAD], ids=["well", "late", "lost"])
async def test_a_flood_in_all_partitions_is_pushed_at_the_rate(open_store: OpenStore, clock: Clock, bad: Any) -> None:
    world = await limited(open_store, clock, "rate=20", 4)
    await spread(world, 25)
    partitions = Partitions(world, **bad)
    began = clock()
    await partitions.until(began + 4 * US)
    assert most_in_a_second(partitions.pushed) <= 25
    steady = [each for each in partitions.pushed if each - began > 2 * US]
    assert 39 <= len(steady) <= 41
    assert len(partitions.pushed) <= 85


@pytest.mark.parametrize("bad", [{}, LATE, BAD], ids=["well", "late", "lost"])
async def test_what_all_partitions_lost_is_pushed_again_at_the_rate(
    open_store: OpenStore, clock: Clock, bad: Any
) -> None:
    """Nothing else is due by then, so that they ask for permits for the sake of these alone."""
    world = await limited(open_store, clock, "rate=20", 4)
    ids = await spread(world, 15)
    partitions = Partitions(world, **bad)
    claims: list[HeldClaim] = []
    while len(claims) < len(ids):
        await partitions.until(clock() + US // 5)
        popped = await partitions.pop()
        claims += held(await world.claim(*popped)) if popped else []
        await world.beat(*claims)
    partitions.pushed.clear()
    clock.advance(2)
    await world.store.report_loss(claims, "killed")
    began = clock()
    await partitions.until(began + 6 * US)
    assert len(partitions.pushed) == len(ids)
    assert most_in_a_second(partitions.pushed) <= 25
    assert max(partitions.pushed) - began <= 4.5 * US
    await world.check()


@pytest.mark.parametrize("gone", [0, 4])
async def test_a_partition_needs_no_permits_for_what_stands_in_its_queue(
    open_store: OpenStore, clock: Clock, gone: int
) -> None:
    world = await limited(open_store, clock, "", 4)
    await names(world, 200)
    await world.passes()
    if gone:
        assert len(await world.pop(want=gone)) == gone
    await world.store.set_lambda(LAMBDA, to("rate=100"))
    clock.advance(ENQUEUE_TIMEOUT_US / US)
    await names(world, 4, "late")
    await world.schedule("other", lambda_name="shop/bill")  # beside which a pass looks at some of them only
    await world.store.enqueue(0, 0)
    told = (await dump(world.store)).hash(f"atf:{{0}}:p:{LAMBDA}")["bN"]
    assert int(told) == (4 + gone) * 1.25, "of a burst of 125: for what is late and what has gone"


async def test_low_rates_reach_every_partition(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "rate=1", 4)
    await spread(world, 10)
    partitions = Partitions(world, takes_s=0.05)
    await partitions.until(clock() + 20 * US)
    counts = Counter(task_id[0] for task_id in await partitions.pop())
    assert 18 <= counts.total() <= 22
    assert min(counts.values()) >= 3


async def test_a_changed_limit_holds_in_all_partitions_within_a_second(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=4", 4)
    await spread(world, 10)
    partitions = Partitions(world)
    await partitions.until(clock() + US)
    claims = held(await world.claim(*await partitions.pop()))
    assert len(claims) == 4
    await world.store.set_lambda(LAMBDA, to("running=10"))
    await partitions.until(clock() + US)
    claims += held(await world.claim(*await partitions.pop()))
    assert len(claims) == 10
    await world.store.set_lambda(LAMBDA, to("running=2"))
    await partitions.until(clock() + US)
    for left in range(9, 0, -1):
        await world.beat(*claims)
        await world.finish(Outcome.SUCCEEDED, claims.pop())
        await partitions.until(clock() + US)
        claims += held(await world.claim(*await partitions.pop()))
        assert len(claims) == max(left, 2)


async def test_what_runs_in_any_partition_counts_against_a_new_limit(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "", 4)
    ids = await spread(world, 1)
    partitions = Partitions(world)
    await partitions.once()
    claims = held(await world.claim(*await partitions.pop()))
    assert len(claims) == len(ids)
    await world.store.set_lambda(LAMBDA, to("running=4"))
    await spread(world, 1, "more")
    await partitions.until(clock() + 3 * US)
    assert await partitions.pop() == []
    await world.finish(Outcome.SUCCEEDED, *claims[:2])
    await partitions.until(clock() + 3 * US)
    assert len(await partitions.pop()) == 2


@pytest.mark.parametrize("who", ["ledger", "another"])
async def test_permits_of_a_partition_that_is_away_are_given_to_nobody_before_it_is_back(
    open_store: OpenStore, clock: Clock, who: str
) -> None:
    world = await limited(open_store, clock, "running=4", 2)
    await spread(world, 2)
    partitions = Partitions(world)
    await partitions.until(clock() + US)
    ledger = next(int(key[5]) for key in (await dump(world.store)).data if ":h:" in key)
    away = ledger if who == "ledger" else 1 - ledger
    there = held(await world.claim(*await world.pop(partition=away)))
    here = held(await world.claim(*await world.pop(partition=1 - away)))
    assert (len(there), len(here)) == (2, 2)
    await world.schedule(*(f"more-{number}" for number in range(30)), partition=1 - away)
    partitions.away = {away}
    for _ in range(10):
        await world.finish(Outcome.SUCCEEDED, *here)
        await partitions.until(clock() + US)
        here = held(await world.claim(*await world.pop(partition=1 - away)))
        assert len(here) == 2  # the other two may still run
    partitions.away = set()
    await world.finish(Outcome.SUCCEEDED, *there)
    await partitions.until(clock() + 3 * US)
    assert len(here + held(await world.claim(*await world.pop(partition=1 - away)))) == 4


@pytest.mark.parametrize("bad", [{}, LATE], ids=["well", "late"])
@pytest.mark.parametrize("lifted", [False, True], ids=["new", "lifted before"])
async def test_what_runs_counts_against_a_limit_that_comes_to_a_rate(
    open_store: OpenStore, clock: Clock, bad: Any, lifted: bool
) -> None:
    """The limits ledger has heard of every partition already, but not of what runs there."""
    world = await limited(open_store, clock, "rate=1000", 4)
    partitions = Partitions(world, **bad)
    if lifted:
        await spread(world, 1, "first")
        await world.store.set_lambda(LAMBDA, to("running=1"))
        await partitions.until(clock() + 3 * US)
        await world.store.set_lambda(LAMBDA, to("running=-"))
    await spread(world, 3)
    await partitions.until(clock() + 3 * US)
    claims = held(await world.claim(*await partitions.pop()))
    assert len(claims) == 12 + 4 * lifted
    await world.store.set_lambda(LAMBDA, to("running=4"))
    await spread(world, 4, "more")
    for _ in range(5):
        await world.beat(*claims)
        await partitions.until(clock() + US)
        assert await partitions.pop() == []
    await world.finish(Outcome.SUCCEEDED, *claims[1:])
    await partitions.until(clock() + 3 * US)
    assert len(await partitions.pop()) == 3


HELPS = [
    ("running=3", 1, "running=9", 6),
    ("running=3", 2, "running=9", 0),
    ("running=3", 2, "running=-", 16),
    ("rate=4 burst=8", 1, "rate=8", 0),
    ("rate=4 burst=8", 1, "rate=8 burst=16", 13),
    ("rate=4 burst=8", 2, "burst=- rate=-", 16),
]


@pytest.mark.parametrize(("limit", "away", "settings", "more"), HELPS)
async def test_what_helps_while_a_partition_that_has_all_permits_is_away(
    open_store: OpenStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    away: int,
    settings: str,
    more: int,
) -> None:
    """A raised limit (of a rate, its burst), unless that partition has the lambda's limits ledger; or none at all. Partition 0 can be reached."""
    world = await limited(open_store, clock, limit, 3)
    partitions = Partitions(world)
    await names(world, 30, partition=away)
    await partitions.until(clock() + US)
    assert [key for key in (await dump(world.store)).data if ":h:" in key] == [f"atf:{{2}}:h:{LAMBDA}"], "ledger"
    direct = world.store.apply_outbox

    async def deliver(record: OutboxRecord) -> None:
        if record.target in partitions.away:
            raise Unavailable(f"partition {record.target} is away")
        await direct(record)

    monkeypatch.setattr(world.store, "apply_outbox", deliver)
    monkeypatch.setattr(world.store.link, "parted", True, raising=False)  # as in a cluster
    partitions.away = {away}
    for here in {0, 1, 2} - {away}:
        await names(world, 8, prefix="more", partition=here)
    pushed = len(partitions.pushed)
    await partitions.until(clock() + 3 * US)
    assert len(partitions.pushed) == pushed
    await world.store.set_lambda(LAMBDA, to(settings))
    await partitions.until(clock() + 3 * US)
    assert len(partitions.pushed) - pushed == more


async def set_back(world: World, before: Dump, partition: int) -> None:
    """What a partition knows of permits is what it knew before."""
    for kind in "hp":
        key = f"atf:{{{partition}}}:{kind}:{LAMBDA}"
        await world.store.link.command("DEL", key, key=key)
        if earlier := before.hash(key):
            pairs = [each for pair in earlier.items() for each in pair]
            await world.store.link.command("HSET", key, *pairs, key=key)


@pytest.mark.parametrize("who", ["ledger", "another", "both"])
async def test_a_partition_that_forgot_what_it_had_asks_before_it_uses_any(
    open_store: OpenStore, clock: Clock, who: str
) -> None:
    """Its server came back with an earlier state: what it knew of permits was of another time."""
    world = await limited(open_store, clock, "running=4", 2)
    await spread(world, 10)
    partitions = Partitions(world)
    await partitions.until(clock() + US)
    before = await dump(world.store)
    ledger = next(int(key[5]) for key in before.data if ":h:" in key)
    claims = held(await world.claim(*await partitions.pop()))
    for _ in range(3):
        await world.finish(Outcome.SUCCEEDED, claims.pop(0))
        await partitions.until(clock() + US)
        claims += held(await world.claim(*await partitions.pop()))
    assert len(claims) == 4
    for partition in range(2):
        if who == "both" or (partition == ledger) == (who == "ledger"):
            await set_back(world, before, partition)
            await call_function(world.store, "pause_claims", partition, [1, "import"])
    for _ in range(5):
        await partitions.until(clock() + 2 * US)
        claims += held(await world.claim(*await partitions.pop()))
        assert len(claims) == 4
        await world.finish(Outcome.SUCCEEDED, claims.pop(0))
        await world.beat(*claims)


@pytest.mark.parametrize("who", ["ledger", "another", "both"])
async def test_a_server_that_forgot_when_it_forgot_and_whose_clock_is_behind_is_heard(
    open_store: OpenStore, clock: Clock, who: str
) -> None:
    """The others know of a later instant at which it forgot something than it knows itself."""
    world = await limited(open_store, clock, "running=1", 2)
    await spread(world, 5)
    partitions = Partitions(world)
    await partitions.until(clock() + US)
    before = await dump(world.store)
    ledger = next(int(key[5]) for key in before.data if ":h:" in key)
    those = [each for each in range(2) if who == "both" or (each == ledger) == (who == "ledger")]
    for partition in those:
        await call_function(world.store, "pause_claims", partition, [1, "import"])
    await partitions.until(clock() + 40 * US)
    for partition in those:
        record = f"atf:{{{partition}}}"
        later = int((await dump(world.store)).hash(record)["pause_until"])
        await set_back(world, before, partition)
        pause_until = str(later - 5 * US)
        assert pause_until > before.hash(record).get("pause_until", "0")
        await world.store.link.command(
            "HSET", record, "pause_until", pause_until, "pause_over", pause_until, key=record
        )
    ran = 0
    for _ in range(40):
        await partitions.until(clock() + 2 * US)
        claims = held(await world.claim(*await partitions.pop()))
        assert len(claims) <= 1
        ran += len(claims)
        await world.finish(Outcome.SUCCEEDED, *claims)
    assert ran == 10
