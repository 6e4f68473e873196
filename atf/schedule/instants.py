"""Reads and writes instants: RFC 3339 as text, integer microseconds since the epoch everywhere else. It reads no clock: a base is given.

Sources: RFC 3339, 5.6, in capital letters; nanoseconds are rounded to the nearest microsecond. Months and years are added as
time.AddDate of Go's standard library adds them, which Dapr uses: 31 January and a month is 3 March.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from atf.task import US

from .durations import MAX_CHARS, Span, parse_go, parse_iso
from .refusal import GivenText, word

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - civil time in UTC; what has a zone is in dst.py
LATEST_US: Final = 253_402_300_799_999_999
"""The end of the year 9999."""

_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.(?P<fraction>[0-9]+))?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})"
)
_FORM: Final = "0000-00-00T00:00:00"
_DATE = re.compile(r"[0-9]+-[0-9]")
_HINT: Final = "write such as 2030-01-31T08:00:00Z or 2030-01-31T09:00:00+01:00"


def parse_instant(given: GivenText) -> int:
    """Microseconds since the epoch of an instant in RFC 3339.

    Raises:
        InvalidArgument: it is malformed, no such day or time exists, or it is before 1970 or after 9999.
    """
    found = _RFC_3339.fullmatch(given.checked(MAX_CHARS).text)
    if found is None:
        at = _broken_at(given.text)
        mend = "end it with Z, or with an offset such as +01:00" if at >= len(_FORM) else _HINT
        raise given.refuse(at, "it is no instant of RFC 3339", mend)
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:
        naive = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - its offset is taken off below
    except ValueError as error:
        raise given.refuse(0, f"there is no such time: {error}", _HINT) from None
    offset_s = 0
    if found["zone"] != "Z":
        hours, minutes = int(found["zone"][1:3]), int(found["zone"][4:])
        if hours > 23 or minutes > 59:
            raise given.refuse(found.start("zone"), f"{found['zone']} is no offset from UTC", _HINT)
        offset_s = (hours * 3_600 + minutes * 60) * (-1 if found["zone"][0] == "-" else 1)
    nanoseconds = int(f"{found['fraction'] or '':0<9.9}")
    at_us = (naive - EPOCH) // timedelta(seconds=1) * US - offset_s * US + (nanoseconds + 500) // 1_000
    return _within(given, at_us)


def parse_point(given: GivenText, base_us: int) -> int:
    """Microseconds since the epoch of a point in time: an instant, or a duration of either kind after a base.

    Args:
        given: the text.
        base_us: what a duration counts from, microseconds since the epoch.

    Raises:
        InvalidArgument: it is neither, or the point is before 1970 or after 9999.
    """
    point = read_point(given)
    return point if isinstance(point, int) else _within(given, add(base_us, point))


def read_point(given: GivenText) -> int | Span:
    """A point in time as it is given: an instant, in microseconds since the epoch, or a duration of either kind.

    Raises:
        InvalidArgument: it is neither.
    """
    text = given.checked(MAX_CHARS).text
    if text.startswith("P"):
        return parse_iso(given)
    if text.startswith("R"):
        raise given.refuse(0, "repetitions have no place here", "write the duration alone, and `repeats` beside it")
    if _DATE.match(text):
        return parse_instant(given)
    if text[0] in "+-.0123456789":
        return Span(0, 0, parse_go(given))
    forms = "write an instant (2030-01-31T08:00:00Z) or a duration (1h30m, PT1H30M)"
    mend = "write it in capital letters" if text[0] in "pr" and any(each.isdigit() for each in text) else forms
    raise given.refuse(0, f"{word(text)!r} is neither an instant nor a duration", mend)


def add(base_us: int, span: Span) -> int:
    """A base and a duration, in microseconds since the epoch; LATEST_US + 1 where no year has it."""
    seconds, rest_us = divmod(base_us, US)
    base = EPOCH + timedelta(seconds=seconds)
    years, month = divmod(base.month - 1 + span.months, 12)
    try:
        first = base.replace(year=base.year + years, month=month + 1, day=1)
        moved = first + timedelta(days=base.day - 1 + span.days, microseconds=span.us)
    except (ValueError, OverflowError):
        return LATEST_US + 1
    return (moved - EPOCH) // timedelta(microseconds=1) + rest_us


def text_of(at_us: int) -> str:
    """An instant in RFC 3339, in UTC, with six digits after the point where it is no whole second."""
    at = EPOCH + timedelta(microseconds=at_us)
    return f"{at.isoformat(timespec='microseconds' if at_us % US else 'seconds')}Z"


def _within(given: GivenText, at_us: int) -> int:
    if not 0 <= at_us <= LATEST_US:
        raise given.refuse(0, "it is before 1970 or after 9999", "write a nearer one")
    return at_us


def _broken_at(text: str) -> int:
    """The first place that does not fit the form of an instant."""
    for at, expected in enumerate(_FORM):
        if at >= len(text) or not (text[at] in "0123456789" if expected == "0" else text[at] == expected):
            return at
    tail = re.compile(r"(?:\.[0-9]+)?(?:Z|[+-](?:[0-9]{2}(?::(?:[0-9]{2})?)?)?)?").match(text, len(_FORM))
    assert tail is not None  # it also matches nothing
    return tail.end()
