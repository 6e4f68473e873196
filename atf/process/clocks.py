"""The clocks of this host, for what needs no event loop: a guard loads nothing else of a runtime.

monotonic   intervals within this process
boottime    leases, between the processes of one host: it counts on while the machine sleeps, as a lease does
wall        a first guess at the store's clock, never a decision by itself
"""

from __future__ import annotations

import time
from typing import Protocol

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # only Linux has the first


class ProcessClocks(Protocol):
    """The clocks, or a test's."""

    def monotonic(self) -> float:
        """Seconds; only differences mean something."""
        ...

    def boottime_us(self) -> int:
        """Microseconds since the host booted, the same for all its processes."""
        ...

    def wall_us(self) -> int:
        """Microseconds since the Unix epoch by the host's clock."""
        ...


class SystemClocks:
    """The real ones."""

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime_us(self) -> int:
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1000

    def wall_us(self) -> int:
        return time.time_ns() // 1000
