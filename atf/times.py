"""Words durations and instants for people, in refusals and in what commands print."""

from __future__ import annotations

from typing import Final

from .schedule.instants import LATEST_US, text_of
from .task import US

_UNITS: Final = {"d": 86_400 * US, "h": 3_600 * US, "min": 60 * US, "s": US, "ms": 1_000, "µs": 1}


def length(us: int) -> str:
    """A length of time in its two largest units."""
    if us < 0:
        return f"-{length(-us)}"
    parts = []
    for unit, size in _UNITS.items():
        number, us = divmod(us, size)
        if number:
            parts.append(f"{number} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def instant(at_us: int) -> str:
    """An instant in RFC 3339, in UTC; one that no year has by its number."""
    return text_of(at_us) if 0 <= at_us <= LATEST_US else f"{at_us} µs after 1970"
