"""Reads lengths of time: Go's (`1h30m`, `-1.5h`, `250ms`) and those of ISO 8601 (`PT2H30M`, `P1M`). It knows no clock.

Sources: the documentation of time.ParseDuration in Go's standard library; ISO 8601-1:2019, 5.5.2, of which Dapr takes whole
numbers only. Nanoseconds are rounded to the nearest microsecond, half of one away from zero.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final, NamedTuple

from atf.task import US

from .refusal import GivenText, word

MAX_CHARS: Final = 128
"""Of a duration or an instant."""
_MAX_NS: Final = (1 << 63) - 1
"""Go's longest duration, some 292 years."""

_GO_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_GO_PART = re.compile(r"(?P<whole>[0-9]*)(?P<point>\.?)(?P<fraction>[0-9]*)(?P<unit>[^0-9.\s]*)")
_GO_HINT: Final = "write such as 1h30m, 1.5h, 90s or 250ms"

_ISO = re.compile(
    r"P(?:(?P<Y>[0-9]+)Y)?(?:(?P<M>[0-9]+)M)?(?:(?P<W>[0-9]+)W)?(?:(?P<D>[0-9]+)D)?"
    r"(?:T(?:(?P<h>[0-9]+)H)?(?:(?P<m>[0-9]+)M)?(?:(?P<s>[0-9]+)S)?)?"
)
_DIGITS = re.compile(r"[0-9]*")
_ISO_HINT: Final = "write such as PT2H30M, P1M or P1DT12H, in whole numbers"


class Span(NamedTuple):
    """A length of time; months and days are those of the calendar, and as long as it makes them."""

    months: int
    days: int
    us: int
    """Microseconds beside them."""


def parse_go(given: GivenText, start: int = 0) -> int:
    """Microseconds of the Go duration that a text has from `start` on; may be negative.

    Raises:
        InvalidArgument: it is malformed, or longer than 292 years.
    """
    text = given.text
    at = start + text.startswith(("+", "-"), start)
    if text[at:] == "0":
        return 0
    if at == len(text):
        raise given.refuse(at, "a duration is missing", _GO_HINT)
    total = 0
    while at < len(text):
        part = _GO_PART.match(text, at)
        assert part is not None  # it also matches nothing
        total += _go_part(given, part)
        at = part.end()
    if total > _MAX_NS:
        raise given.refuse(start, "it is longer than 292 years", "write a shorter one")
    us = (total + 500) // 1_000
    return -us if text[start] == "-" else us


def _go_part(given: GivenText, part: re.Match[str]) -> int:
    if not part["whole"] and not part["fraction"]:
        if given.text[part.start()].isspace():
            raise given.refuse(part.start(), "a duration has no spaces", _GO_HINT)
        raise given.refuse(part.start(), f"{word(given.text[part.start() :])!r} is no duration", _GO_HINT)
    if not part["unit"]:
        raise given.refuse(part.end(), "a unit is missing", "end each number with ns, us, ms, s, m or h")
    unit = _GO_UNITS.get(part["unit"])
    if unit is None:
        known = "the units are ns, us, ms, s, m and h"
        raise given.refuse(part.start("unit"), f"{word(part['unit'])!r} is no unit", f"{known}; {_GO_HINT}")
    scale: int = 10 ** len(part["fraction"])
    return int(part["whole"] + part["fraction"]) * unit // scale


def parse_iso(given: GivenText, start: int = 0) -> Span:
    """The ISO 8601 duration that a text has from `start` on.

    Raises:
        InvalidArgument: it is malformed, has a fraction, or is longer than 292 years.
    """
    found = _ISO.match(given.text, start)
    if found is None:
        raise given.refuse(start, "a duration of ISO 8601 begins with P", _ISO_HINT)
    if found.end() < len(given.text):
        digits = _DIGITS.match(given.text, found.end())
        assert digits is not None  # it also matches nothing
        at = digits.end()
        why = "a unit is missing" if at == len(given.text) else f"{word(given.text[at])!r} does not fit here"
        raise given.refuse(at, why, _ISO_HINT)
    numbers = {unit: int(digits) for unit, digits in found.groupdict().items() if digits is not None}
    if not numbers or given.text.endswith("T"):
        raise given.refuse(found.end(), "a number with its unit is missing", _ISO_HINT)
    of = defaultdict(int, numbers)
    months, days = 12 * of["Y"] + of["M"], 7 * of["W"] + of["D"]
    seconds = 3_600 * of["h"] + 60 * of["m"] + of["s"]
    if (31 * months + days) * 86_400 + seconds > _MAX_NS // 1_000_000_000:
        raise given.refuse(start, "it is longer than 292 years", "write a shorter one")
    return Span(months, days, seconds * US)
