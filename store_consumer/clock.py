"""What a store consumer believes of the store's clock, so that a jump of that clock never ends a lease that is alive.

A lease is a score by the store's TIME. If TIME leaps an hour ahead, every lease looks expired, though its executor lives. So a
pass carries the latest TIME that can be right by this host's monotonic clock, and no lease ends after that instant.
The believed TIME moves ahead only as this host's clock does. A TIME further ahead is adopted once it has stood for one
heartbeat_timeout: by then each live executor has renewed its leases under it. A TIME that steps back is followed at once:
leases then only end later.

Pure: the caller reads the clocks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from atf.config import Timing
from atf.task import US

MARGIN_US: Final = 1 * US
"""How far two clocks may stand apart and still agree."""

NO_LEASE_EXPIRES: Final = 1
"""An instant before every lease: what a pass carries while no TIME is believed (0 would mean "no bound")."""


class _Reading(NamedTuple):
    """A TIME, and this host's monotonic clock when it was so."""

    time_us: int
    monotonic: float


class StoreClock:
    """The belief about one partition's TIME; partitions may live on different servers."""

    def __init__(self, timing: Timing) -> None:
        self._hold = timing.heartbeat_timeout
        self._drift_us = timing.drift * US
        self._drift_per_s = timing.drift / timing.heartbeat_timeout
        self._believed: _Reading | None = None
        self._ahead: _Reading | None = None  # a TIME that is not believed yet
        self._ahead_since = 0.0

    @property
    def settled(self) -> bool:
        """Whether the last TIME seen is believed."""
        return self._believed is not None and self._ahead is None

    def believed_us(self, monotonic: float) -> int:
        """What TIME is by the last one believed: no lease that ends after it may be taken for expired."""
        if self._believed is None:
            return NO_LEASE_EXPIRES
        # Neither with the margin nor with the drift: after a jump a lease would end that much before its time.
        return self._believed.time_us + int(max(monotonic - self._believed.monotonic, 0) * US)

    def saw(self, time_us: int, *, asked: float, answered: float, wall_us: int) -> None:
        """Takes note of an answer of the store.

        Args:
            time_us: the store's TIME in it.
            asked: the monotonic clock when the question was sent.
            answered: the monotonic clock when the answer came.
            wall_us: this host's wall clock when the answer came. Only a consumer that has no belief yet looks at it.
        """
        # TIME was read between the two instants. Dated from the first, the reading never falls behind the store.
        seen = _Reading(self._forward(_Reading(time_us, asked), answered), answered)
        if self._believed is None and abs(wall_us - time_us) <= MARGIN_US:
            self._believed, self._ahead = seen, None
        elif self._believed is not None and time_us <= self._forward(self._believed, answered) + MARGIN_US:
            self._believed, self._ahead = self._earlier(self._believed, seen), None
        elif self._ahead is None or time_us > self._forward(self._ahead, answered) + MARGIN_US:
            self._ahead, self._ahead_since = seen, answered  # another jump starts the wait anew
        elif answered - self._ahead_since < self._hold:
            self._ahead = self._earlier(self._ahead, seen)
        else:
            self._believed, self._ahead = seen, None

    def _forward(self, reading: _Reading, monotonic: float) -> int:
        elapsed_us = max(monotonic - reading.monotonic, 0) * US
        return reading.time_us + int(elapsed_us + min(elapsed_us * self._drift_per_s, self._drift_us))

    def _earlier(self, one: _Reading, seen: _Reading) -> _Reading:
        # The margin is granted once, not once per pass: a clock that creeps ahead does not carry the belief along.
        return _Reading(min(self._forward(one, seen.monotonic), seen.time_us), seen.monotonic)
