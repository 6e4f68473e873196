"""What a store consumer believes of the store's clock: jumps end no lease that is alive, and every clock is adopted in the end."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from atf.config.settings import Timing
from atf.store_consumer.clock import NO_LEASE_EXPIRES, STEP_US, StoreClock
from atf.task import US

EPOCH_US = 1_800_000_000 * US
HOUR_US = 3_600 * US
HOLD_S = Timing().heartbeat_timeout


class Host:
    """A host's clocks beside a store's clock, with passes in between."""

    def __init__(self, *, wall_off_us: int = 0) -> None:
        self.clock = StoreClock(Timing())
        self.monotonic = 100.0
        self.time_us = EPOCH_US
        self.wall_off_us = wall_off_us
        self.step_back = ""
        """What the store names as its clock's last step back; "": there was none."""

    def looks(self, *, latency: float = 0.0) -> None:
        """One pass; TIME is read in its middle."""
        asked = self.monotonic
        read_us = self.time_us + round(latency / 2 * US)
        self.rests(latency)
        self.clock.observe(
            read_us,
            asked=asked,
            answered=self.monotonic,
            wall_us=self.time_us + self.wall_off_us,
            step_back=self.step_back,
            stepped_over=self.clock.step_back == self.step_back,
        )

    def rests(self, seconds: float) -> None:
        self.monotonic += seconds
        self.time_us += round(seconds * US)

    def goes_on(self, seconds: float) -> None:
        """Time passes, with a pass each half second."""
        until = self.monotonic + seconds
        while self.monotonic < until - 1e-9:
            self.rests(min(0.5, until - self.monotonic))
            self.looks()

    def settled(self) -> bool:
        return self.clock.is_trusted

    def doubted(self) -> bool:
        return self.clock.is_doubted

    @property
    def ahead_us(self) -> int:
        """How far what is believed lies beyond TIME."""
        return self.clock.believed_us(self.monotonic) - self.time_us


def test_before_the_first_answer_no_lease_expires() -> None:
    assert StoreClock(Timing()).believed_us(5.0) == NO_LEASE_EXPIRES


def test_a_fresh_consumer_adopts_a_time_that_its_wall_clock_agrees_with() -> None:
    host = Host(wall_off_us=40_000)
    host.looks()
    assert host.settled()
    assert 0 <= host.ahead_us <= STEP_US


@pytest.mark.parametrize("wall_off_us", [-60_000, 60_000])
def test_a_wall_clock_that_hides_a_step_longer_than_the_drift_does_not_agree(wall_off_us: int) -> None:
    host = Host(wall_off_us=wall_off_us)
    host.looks()
    assert not host.settled()


def test_a_slow_answer_says_nothing_of_two_clocks_and_a_quick_one_does() -> None:
    host = Host()
    host.looks(latency=0.2)
    assert not host.settled()
    host.looks(latency=0.01)
    assert host.settled()


def test_a_fresh_consumer_whose_wall_clock_disagrees_waits_one_heartbeat_timeout() -> None:
    host = Host(wall_off_us=-HOUR_US)
    host.looks()
    host.goes_on(HOLD_S - 0.6)
    assert host.clock.believed_us(host.monotonic) == NO_LEASE_EXPIRES
    host.goes_on(1.0)
    assert 0 <= host.ahead_us <= STEP_US


def test_in_quiet_times_nothing_holds_up_an_expired_lease() -> None:
    host = Host()
    host.looks()
    for _ in range(50):
        host.rests(3.0)
        assert host.ahead_us >= 0
        host.looks(latency=2.0)
        assert host.ahead_us >= 0
        assert host.settled()


def test_a_jump_ahead_is_believed_only_after_one_heartbeat_timeout() -> None:
    host = Host()
    host.looks()
    host.time_us += HOUR_US
    host.goes_on(HOLD_S)
    assert not host.settled()
    assert host.ahead_us < -HOUR_US + 2 * STEP_US
    host.goes_on(1.0)
    assert host.settled()
    assert 0 <= host.ahead_us <= STEP_US + US


def test_a_jump_ahead_that_is_taken_back_changes_nothing() -> None:
    host = Host()
    host.looks()
    host.time_us += HOUR_US
    host.goes_on(HOLD_S / 2)
    host.time_us -= HOUR_US
    host.goes_on(1.0)
    assert host.settled()
    host.time_us += HOUR_US
    host.goes_on(HOLD_S - 0.5)
    assert not host.settled(), "the time before the correction does not count"


def test_a_second_jump_during_the_wait_starts_it_anew() -> None:
    host = Host()
    host.looks()
    host.time_us += HOUR_US
    host.goes_on(HOLD_S - 2)
    host.time_us += HOUR_US
    host.goes_on(HOLD_S - 1)
    assert not host.settled()
    host.goes_on(2.0)
    assert host.settled()


def test_a_small_step_during_the_wait_is_not_followed_at_its_end() -> None:
    """A lease renewed before the step would end by it too early."""
    host = Host(wall_off_us=-HOUR_US)
    host.looks()
    host.goes_on(HOLD_S - 1)
    host.time_us += 550_000
    host.goes_on(2.0)
    assert host.settled()
    assert host.ahead_us <= -550_000 + Timing().drift * US


def test_a_step_back_is_followed_at_once() -> None:
    host = Host()
    host.looks()
    host.time_us -= HOUR_US
    host.looks()
    assert host.settled()
    assert host.ahead_us <= STEP_US


def test_a_step_back_and_forth_again_is_a_jump_ahead() -> None:
    host = Host()
    host.looks()
    host.time_us -= HOUR_US
    host.goes_on(1)
    host.time_us += HOUR_US
    host.goes_on(1)
    assert not host.settled()


def test_a_clock_that_jumps_ahead_to_where_the_wall_clock_is_has_jumped_all_the_same() -> None:
    host = Host()
    host.time_us, host.wall_off_us = host.time_us - 20 * US, 20 * US
    host.looks()
    host.time_us, host.wall_off_us = host.time_us + 20 * US, 0
    host.goes_on(HOLD_S - 0.5)
    assert not host.settled()
    host.goes_on(1.0)
    assert host.settled()


def test_a_step_back_that_the_store_tells_of_is_over_after_one_heartbeat_timeout() -> None:
    host = Host()
    host.looks()
    host.step_back = "first"
    host.looks()
    host.goes_on(HOLD_S - 0.5)
    assert (host.settled(), host.clock.step_back) == (False, "")
    host.goes_on(1.0)
    assert (host.settled(), host.clock.step_back) == (True, "first")
    host.step_back = "second"
    host.goes_on(HOLD_S)
    assert not host.settled()
    host.goes_on(0.5)
    assert (host.settled(), host.clock.step_back) == (True, "second")


def test_what_goes_by_without_an_answer_or_before_a_jump_does_not_count() -> None:
    host = Host()
    host.looks()
    host.step_back = "it"
    host.looks()
    host.rests(HOLD_S - 1)
    assert host.clock.step_back == ""
    host.time_us += HOUR_US
    host.goes_on(HOLD_S)
    assert host.clock.step_back == ""
    host.goes_on(1.0)
    assert (host.settled(), host.clock.step_back) == (True, "it")


def test_one_that_starts_takes_over_what_another_one_has_seen() -> None:
    clock = StoreClock(Timing())
    clock.observe(EPOCH_US, asked=0.0, answered=0.0, wall_us=EPOCH_US, step_back="of before", stepped_over=True)
    assert (clock.is_trusted, clock.step_back) == (True, "of before")


def test_a_clock_that_creeps_ahead_does_not_carry_the_belief_along() -> None:
    host = Host()
    host.looks()
    for _ in range(20):  # each step alone would lie within the margin
        host.time_us += 900_000
        host.goes_on(0.5)
    assert host.ahead_us < -10 * US


def test_a_store_clock_that_runs_within_the_drift_is_followed_for_days() -> None:
    host = Host()
    host.looks()
    for _ in range(10_000):
        host.rests(30.0)
        host.time_us += 3_000  # 100 ppm faster
        host.looks()
    assert host.settled()
    assert 0 <= host.ahead_us <= STEP_US + US


def test_after_a_long_outage_of_the_store_the_belief_is_not_far_ahead() -> None:
    host = Host()
    host.looks()
    host.rests(86_400)
    assert 0 <= host.ahead_us <= STEP_US + Timing().drift * US + 1


STEPS = st.lists(
    st.tuples(st.floats(0.01, 5.0), st.sampled_from([0, 0, 0, HOUR_US, -HOUR_US, 5 * US, -3 * US])), max_size=40
)


@given(STEPS)
def test_whatever_the_store_s_clock_does_a_lease_renewed_under_it_outlives_its_length(
    steps: list[tuple[float, int]],
) -> None:
    """An executor renews at every step; a lease that is alive by real time never looks expired, but for the margins."""
    host = Host()
    host.looks()
    lease_us, renewed_at = host.time_us + round(HOLD_S * US), host.monotonic
    for seconds, jump_us in steps:
        host.rests(seconds)
        if host.monotonic - renewed_at < HOLD_S - 2:
            expires_at_us = min(host.time_us, host.clock.believed_us(host.monotonic))
            assert expires_at_us < lease_us
        host.time_us += jump_us
        if host.monotonic - renewed_at < HOLD_S - 2:
            assert min(host.time_us, host.clock.believed_us(host.monotonic)) < lease_us
        host.looks()
        lease_us, renewed_at = host.time_us + round(HOLD_S * US), host.monotonic


def test_no_lease_ends_early_by_the_margin_that_two_clocks_may_stand_apart() -> None:
    """A guard counts on the whole lease but for kill_time and drift: after a jump of TIME nothing may end sooner."""
    clock = StoreClock(Timing())
    clock.observe(1_000_000_000, asked=0.0, answered=0.0, wall_us=1_000_000_000)
    clock.observe(2_000_000_000, asked=1.0, answered=1.0, wall_us=1_001_000_000)
    assert 1_010_000_000 <= clock.believed_us(10.0) <= 1_010_000_000 + round(Timing().drift * 1e6)


def test_a_slow_answer_alone_is_no_doubt() -> None:
    """A fresh consumer on a busy machine can't tell yet whether clocks agree: that is nothing to tell people."""
    host = Host()
    host.looks(latency=1.0)
    assert (host.settled(), host.doubted()) == (False, False)
    host.looks()
    assert (host.settled(), host.doubted()) == (True, False)


@pytest.mark.parametrize("off_us", [HOUR_US, -HOUR_US, 2 * US])
def test_a_wall_clock_that_differs_is_doubt(off_us: int) -> None:
    host = Host(wall_off_us=off_us)
    host.looks(latency=0.5)
    assert host.doubted()
    host.goes_on(HOLD_S + 1)
    assert not host.doubted()


def test_a_jump_is_doubt_until_it_is_believed() -> None:
    host = Host()
    host.looks()
    assert not host.doubted()
    host.time_us += HOUR_US
    host.looks()
    assert host.doubted()
    host.goes_on(HOLD_S + 1)
    assert not host.doubted()
