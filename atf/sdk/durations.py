"""Lengths of time as people write them for options and flags: 90, 500ms, 30s, 5m, 2h, 1d, 1h30m. Imports nothing of ATF.

A job's due_time and ttl take more forms, those of Go and of ISO 8601: schedule/durations.py.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

FORMS: Final = "500ms, 30s, 5m, 2h, 1d or 1h30m"
"""What a text may be, for messages."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_ALONE = re.compile(_NUMBER)
_PART = re.compile(rf"({_NUMBER})\s*(ms|s|m|h|d)\s*")


def seconds_of(given: str) -> float | None:
    """Seconds from a text: a number alone, or numbers with units. None: it is no length of time."""
    text = given.strip()
    if _ALONE.fullmatch(text):
        return float(text)
    total, at = 0.0, 0
    while part := _PART.match(text, at):
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return total if text and at == len(text) else None


def in_seconds(given: float | timedelta | str | None) -> float | None:
    """Seconds from any form of a length of time; None stays None.

    Raises:
        ValueError: a text is no length of time.
    """
    if isinstance(given, str):
        seconds = seconds_of(given)
        if seconds is None:
            raise ValueError(f"{given[:80]!r} is no length of time: give seconds, a timedelta, or text such as {FORMS}")
        return seconds
    return given.total_seconds() if isinstance(given, timedelta) else given
