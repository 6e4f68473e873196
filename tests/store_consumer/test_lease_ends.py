"""Whatever the store's clock does, and whichever answers two consumers miss, no lease ends before its time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.store.values.passes import EnqueuePass
from atf.store_consumer.clock import StoreClock
from atf.task import US
from tests.known import know
from tests.store.world import EPOCH_US, LAMBDA, Clock, World

HOLD_S = Timing().heartbeat_timeout
MARGIN_S = 0.06
"""A step that the store need not note, and what a host's clock may be off for a consumer that starts."""
DEAF_S = 15.0
STEPS_S = (45, 30, -30, -45)
"""Each is longer than what can pass without a call that notes how far the clock has come: a shorter one may go unnoticed then."""


class Play:
    """One task that runs, a store whose clock steps, and two consumers which at times hear nothing of it."""

    def __init__(self, store: Store, clock: Clock, seed: int) -> None:
        self.world = World(store, clock)
        self.chance = random.Random(seed)
        self.monotonic = 100.0
        self.off_s = 0.0
        self.consumers = [StoreClock(Timing()), StoreClock(Timing())]
        self.deaf_until = [0.0, 0.0]
        self.asks = [False, False]
        """Whether what such a consumer asks for is done all the same."""

    def rests(self, seconds: float) -> None:
        self.monotonic += seconds
        self.world.clock.us = self.wall_us + round(self.off_s * US)

    def goes_on(self) -> None:
        chance = self.chance
        if chance.random() < 0.25:
            back = abs(self.off_s) >= 30 and chance.random() < 0.5
            self.off_s = chance.choice([0, 0, 2]) if back else self.off_s + chance.choice(STEPS_S)
        self.rests(chance.choice([0.1, 0.5, 1.0, 2.0, 3.0]))

    @property
    def wall_us(self) -> int:
        return EPOCH_US + round(self.monotonic * US)

    async def passes(self, clock: StoreClock, *, heard: bool = True) -> EnqueuePass:
        now = self.monotonic
        made = await self.world.store.enqueue(0, clock.believed_us(now), step_back=clock.step_back)
        if not heard:
            return made
        clock.observe(
            made.now_us,
            asked=now,
            answered=now,
            wall_us=self.wall_us,
            step_back=made.step_back,
            stepped_over=made.stepped_over,
        )
        return made

    async def round(self) -> int:
        """A pass of each consumer that is not cut off; answers how many leases ended."""
        ended = 0
        for number, clock in enumerate(self.consumers):
            if self.monotonic >= self.deaf_until[number] and self.chance.random() < 0.1:
                self.deaf_until[number] = self.monotonic + self.chance.uniform(1, DEAF_S)
                self.asks[number] = self.chance.random() < 0.5
            heard = self.monotonic >= self.deaf_until[number]
            if heard or self.asks[number]:
                ended += (await self.passes(clock, heard=heard)).lost
        return ended


@pytest.fixture
async def store(clock: Clock) -> AsyncIterator[Store]:
    opened = await Store.open(StoreSettings(partitions=1), Timing(), SystemRuntime(), fake=fakeredis.FakeServer())
    opened.now = clock
    await know(opened, LAMBDA)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("seed", range(60))
async def test_no_lease_ends_early(store: Store, clock: Clock, seed: int) -> None:
    play = Play(store, clock, seed)
    world, chance = play.world, play.chance
    clock.us = play.wall_us
    for each in play.consumers:
        await play.passes(each)
    (claim,) = await world.run("a")
    renewed_at, renews = play.monotonic, chance.choice([0.15, 0.3, 0.5])
    for _ in range(60):
        play.goes_on()
        if await play.round():
            assert play.monotonic - renewed_at >= HOLD_S - MARGIN_S
            return
        if play.monotonic - renewed_at < HOLD_S and chance.random() < renews:
            await world.beat(claim)
            renewed_at = play.monotonic

    await world.beat(claim)  # by the clock as it is
    ended = 0
    for _ in range(40):
        play.rests(1.0)
        ended += sum([(await play.passes(each)).lost for each in play.consumers])
    assert ended == 1, "it ends once the clock goes on in peace"


async def test_where_every_consumer_lives_shortly_leases_end_after_a_step_back_too(store: Store, clock: Clock) -> None:
    """As where something starts one that polls, and ends it: none of them sees a heartbeat timeout go by."""
    play = Play(store, clock, 0)
    clock.us = play.wall_us
    (claim,) = await play.world.run("a")
    play.off_s = -0.2
    play.rests(0.1)
    await play.world.beat(claim)
    play.off_s = 0.0
    ended_at: list[float] = []
    for _ in range(4):
        shortly = StoreClock(Timing())
        for _ in range(3):
            play.rests(3.0)
            if (await play.passes(shortly)).lost:
                ended_at.append(round(play.monotonic - 100, 1))
    assert ended_at == [24.1], "the first pass that believed a clock was at 6.1 s, and this is the next such one"
