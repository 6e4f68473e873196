"""Decides what a store consumer believes of the store's clock, so that a jump of it never ends a lease that is alive.

A lease is a score by the store's TIME. If TIME leaps an hour ahead, every lease looks expired, though its executor lives. So a
pass carries the latest TIME that can be right by this host's monotonic clock, and no lease ends after that instant.
The believed TIME moves ahead only as this host's clock does. A TIME further ahead is adopted once it has stood for one
heartbeat_timeout: by then each live executor has renewed its leases under it. A TIME that steps back is followed at once:
leases then only end later.

One that steps back and then ahead again leaves leases behind that end too early, and looks from here like none that stepped, where
no answer came in between. So the store notes each step back, and ends no lease for a consumer that has not seen a
heartbeat_timeout go by since it was told.

Pure: the caller reads the clocks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from atf.config.settings import CLOCKS_AGREE_S, Timing
from atf.task import US

STEP_US: Final = 1 * US
"""A TIME further ahead than that has jumped. What lies within is no jump, but is not followed either."""

NO_LEASE_EXPIRES: Final = 1
"""An instant before every lease: what a pass carries while no TIME is believed (0 would mean "no bound")."""


class _ClockReading(NamedTuple):
    """A TIME, and this host's monotonic clock when it was so."""

    time_us: int
    monotonic: float


class StoreClock:
    """The belief about one partition's TIME; partitions may live on different servers."""

    def __init__(self, timing: Timing) -> None:
        self._hold = timing.heartbeat_timeout
        self._drift_us = timing.drift * US
        self._drift_per_s = timing.drift / timing.heartbeat_timeout
        self._believed: _ClockReading | None = None
        self._ahead: _ClockReading | None = None  # a TIME that is not believed yet
        self._ahead_since = 0.0
        self._jumped = False
        self._apart = False  # from the wall clock of a consumer that has just started, however slow its answers are
        self._answered = ""  # the last step back that the store has told of
        self._answered_at = 0.0
        self.steps = 0
        """How often TIME was seen to jump ahead or to step back."""
        self.step_back = ""
        """The last step back since which a heartbeat_timeout has gone by, as the store names it; "" before it has named any."""

    @property
    def is_trusted(self) -> bool:
        """Whether leases end by the last TIME seen."""
        return self._steady and self.step_back == self._answered

    @property
    def is_doubted(self) -> bool:
        """Whether TIME jumped, went back or is not this host's: not trusted for another reason than that answers are slow."""
        return not self.is_trusted and (self._jumped or self._apart or self._answered not in {"", "0"})

    @property
    def _steady(self) -> bool:
        return self._believed is not None and self._ahead is None

    def believed_us(self, monotonic: float) -> int:
        """What TIME is by the last one believed: no lease that ends after it may be taken for expired."""
        if self._believed is None:
            return NO_LEASE_EXPIRES
        # Neither with the margin nor with the drift: after a jump a lease would end that much before its time.
        return self._believed.time_us + int(max(monotonic - self._believed.monotonic, 0) * US)

    def observe(
        self,
        time_us: int,
        *,
        asked: float,
        answered: float,
        wall_us: int,
        step_back: str = "0",
        stepped_over: bool = True,
    ) -> None:
        """Takes note of an answer of the store.

        Args:
            time_us: the store's TIME in it.
            asked: the monotonic clock when the question was sent.
            answered: the monotonic clock when the answer came.
            wall_us: this host's wall clock when the answer came. Only a consumer that has just started looks at it: a TIME that it
                agrees with has made no step within the life of a lease. A slow answer can't tell, the next one may.
            step_back: the last step back of TIME, as the store names it.
            stepped_over: whether it ends leases for all that.
        """
        # TIME was read between the two instants. Dated from the first, the reading never falls behind the store.
        seen = _ClockReading(self._forward(_ClockReading(time_us, asked), answered), answered)
        if self._believed is not None and self._follows(time_us, self._believed, answered):
            self._believed, self._ahead = self._earlier(self._believed, seen), None
        elif self._ahead is not None and self._follows(time_us, self._ahead, answered):
            self._ahead = self._earlier(self._ahead, seen)
        else:
            self._jumped = self._ahead is not None or self._believed is not None
            self.steps += self._jumped
            self._ahead, self._ahead_since = seen, answered  # another jump starts the wait anew
        if self._ahead is not None:
            # How far TIME was ahead of the wall clock at each instant at which it may have been read.
            least_s = (time_us - wall_us) / US
            most_s = least_s + answered - asked
            self._apart = least_s > CLOCKS_AGREE_S or most_s < -CLOCKS_AGREE_S
            agree = least_s >= -CLOCKS_AGREE_S and most_s <= CLOCKS_AGREE_S
            stood = answered - self._ahead_since >= self._hold
            if stood or (not self._jumped and agree):
                self._believed, self._ahead = self._ahead, None
        if step_back != self._answered:
            self.steps += self._answered != ""  # else it may have been long ago
            self._answered, self._answered_at = step_back, answered
        if stepped_over or (self._steady and answered - self._answered_at >= self._hold):
            self.step_back = step_back

    def _follows(self, time_us: int, reading: _ClockReading, monotonic: float) -> bool:
        """Whether TIME has not jumped ahead since a reading."""
        return time_us <= self._forward(reading, monotonic) + STEP_US

    def _forward(self, reading: _ClockReading, monotonic: float) -> int:
        elapsed_us = max(monotonic - reading.monotonic, 0) * US
        return reading.time_us + int(elapsed_us + min(elapsed_us * self._drift_per_s, self._drift_us))

    def _earlier(self, one: _ClockReading, seen: _ClockReading) -> _ClockReading:
        # A lease renewed before a small step would end by that step too early: a clock that creeps ahead is not followed.
        return _ClockReading(min(self._forward(one, seen.monotonic), seen.time_us), seen.monotonic)
