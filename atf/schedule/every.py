"""Computes schedules that tick at equal intervals: `@every 1h30m`, and the periods of Dapr's reminders (`R4/PT3S`, `PT3S`, `1h30m`).

An interval knows no calendar and no time zone: each tick is the one before it plus the interval, nothing is rounded.
Source of the periods: Dapr's actor reminders, whose period is a duration without calendar parts, repeated n times by `Rn/`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from atf.errors import InvalidArgument
from atf.task import MAX_AHEAD_US

from .durations import parse_go, parse_iso
from .instants import LATEST_US
from .refusal import GivenText, word

EVERY: Final = "@every"
MAX_REPEATS: Final = (1 << 32) - 1
_PERIOD = re.compile(r"[RP+\-.0-9][^\s*,?@]*")
_REPEATED = re.compile(r"R(?P<count>[0-9]*)(?P<slash>/?)")


@dataclass(frozen=True)
class Every:
    """Ticks at equal intervals."""

    interval_us: int
    """Microseconds; of one that is not positive no tick follows."""

    def next_us(self, after_us: int) -> int | None:
        """The tick after an instant, microseconds since the epoch; None: there is none within ten years, or before the year 10000."""
        tick_us = after_us + self.interval_us
        return tick_us if 0 < self.interval_us <= MAX_AHEAD_US and tick_us <= LATEST_US else None

    @property
    def rhythm(self) -> str:
        """The same for all schedules that tick alike."""
        return f"{self.interval_us} us"

    def never(self, given: GivenText) -> InvalidArgument:
        """The error for a schedule that has no ticks."""
        at = len(EVERY) + 1 if given.text.startswith(EVERY) else given.text.find("/") + 1
        if self.interval_us > 0:
            return given.refuse(at, "it ticks not once in ten years", "write a shorter interval")
        return given.refuse(at, "the interval is shorter than a microsecond", "write one such as 1s or 10ms")


def is_period(text: str) -> bool:
    """Whether a schedule looks like a reminder's period: one word, and no `*` or `@`."""
    return bool(_PERIOD.fullmatch(text))


def parse_every(given: GivenText) -> Every:
    """`@every` and a Go duration.

    Raises:
        InvalidArgument: it is malformed.
    """
    start = len(EVERY) + 1
    if len(given.text) < start:
        raise given.refuse(len(given.text), "a duration is missing", "write such as @every 1h30m")
    return Every(parse_go(given, start))


def parse_period(given: GivenText) -> tuple[Every, int | None]:
    """A reminder's period: its interval, and how often it ticks at most, None: without end.

    Raises:
        InvalidArgument: it is malformed, has calendar parts, or its number of repetitions is 0.
    """
    repeated = _REPEATED.match(given.text)
    if repeated is None and not given.text.startswith("P"):
        return Every(parse_go(given)), None
    start = repeated.end() if repeated else 0
    repeats = _repeats(given, repeated) if repeated else None
    span = parse_iso(given, start)
    if span.months or span.days:
        raise given.refuse(start + 1, "a period has no years, months, weeks or days", "write hours: PT24H is a day")
    return Every(span.us), repeats


def _repeats(given: GivenText, repeated: re.Match[str]) -> int:
    hint = "write such as R4/PT3S"
    if not repeated["count"] or not repeated["slash"]:
        what = "a number" if not repeated["count"] else "a slash and a duration"
        raise given.refuse(repeated.end("count"), f"{what} is missing after {word(repeated[0])}", hint)
    if not 1 <= int(repeated["count"]) <= MAX_REPEATS:
        raise given.refuse(1, f"it repeats {word(repeated['count'])} times", f"write 1 to {MAX_REPEATS}")
    return int(repeated["count"])
