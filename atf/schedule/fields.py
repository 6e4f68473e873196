"""Reads one field of a cron expression: `*`, `?`, numbers, names, ranges, steps and lists.

    5        just 5                         MON-FRI    names of months and days, in small or capital letters
    1-5      1, 2, 3, 4, 5                  */15       0, 15, 30, 45
    10/20    10, 30, 50: to the end         1-9/4,30   1, 5, 9, 30

Owns what a field may say and where it goes wrong; what six of them mean together is said in cron.py. The grammar is that of
github.com/dapr/kit/cron, which is that of github.com/robfig/cron.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from atf.errors import InvalidArgument

from .refusal import GivenText, word

_MAX_DIGITS: Final = 18
_ITEM = re.compile(
    r"(?:(?P<star>[*?])|(?P<low>[0-9A-Za-z]+)(?:(?P<dash>-)(?P<high>[0-9A-Za-z]*))?)(?:(?P<slash>/)(?P<step>[0-9]*))?"
)
_SYNTAX: Final = "write *, a number, a range (1-5), a step (*/15), or several of them with commas"
_OTHER_DIALECTS: Final = frozenset("LlWw#HhRr")


@dataclass(frozen=True)
class Field:
    """What one field of an expression may hold."""

    name: str
    least: int
    most: int
    """The last value, to which `*` and `N/step` go."""
    names: tuple[str, ...] = ()
    """Names of the values from `least` on, in capital letters."""
    alias: int | None = None
    """A number above `most` that is another word for `least`."""


class Values(NamedTuple):
    """What matches."""

    values: tuple[int, ...]
    """In rising order, each once."""
    star: bool
    """Whether the field leaves the value open: it has a `*` or `?` without a step above 1."""


_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

SECOND: Final = Field("second", 0, 59)
MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY: Final = Field("day of the month", 1, 31)
MONTH: Final = Field("month", 1, 12, _MONTHS)
WEEKDAY: Final = Field("day of the week", 0, 6, _DAYS)
UNIX_WEEKDAY: Final = Field("day of the week", 0, 6, _DAYS, alias=7)
"""In a crontab Sunday is 0 or 7."""


def parse_field(given: GivenText, start: int, end: int, field: Field) -> Values:
    """The values that a part of an expression names.

    Args:
        given: the whole expression.
        start: where in it the field begins.
        end: where it ends.
        field: what it may hold.

    Raises:
        InvalidArgument: it is malformed, or names a value that the field does not have.
    """
    values: set[int] = set()
    star, at = False, start
    while True:
        item = _ITEM.match(given.text, at, end)
        stop = item.end() if item else at
        if item is None or (stop < end and given.text[stop] != ","):
            raise _unread(given, end, stop, field)
        named, open_ = _item(given, item, field)
        values.update(field.least if value == field.alias else value for value in named)
        star = star or open_
        if stop == end:
            return Values(tuple(sorted(values)), star)
        at = stop + 1


def _item(given: GivenText, item: re.Match[str], field: Field) -> tuple[range, bool]:
    """The values of one item of a list, and whether it leaves the value open."""
    step = _step(given, item, field) if item["slash"] else 1
    if item["star"]:
        return range(field.least, field.most + 1, step), step == 1
    low = _value(given, item, "low", field)
    if item["dash"]:
        high = _value(given, item, "high", field)
        if high < low:
            mend = f"write the smaller one first, or two ranges: {low}-{field.most},{field.least}-{high}"
            raise given.refuse(item.start("low"), f"the {field.name} {word(item[0])} runs backwards", mend)
    else:
        high = max(low, field.most) if item["slash"] else low
    return range(low, high + 1, step), False


def _value(given: GivenText, item: re.Match[str], part: str, field: Field) -> int:
    """A number or a name."""
    text, at = item[part], item.start(part)
    bounds = f"{field.least} to {field.most}"
    if text.isdigit():
        value = int(text[-_MAX_DIGITS:]) if set(text[:-_MAX_DIGITS]) <= {"0"} else 10**_MAX_DIGITS
        if field.least <= value <= field.most or value == field.alias:
            return value
        side = f"over {field.most}" if value > field.most else f"under {field.least}"
        sunday = " (Sunday is 0)" if field.name == WEEKDAY.name else ""
        raise given.refuse(at, f"the {field.name} {word(text)} is {side}", f"write {bounds}{sunday}")
    if text.upper() in field.names:
        return field.least + field.names.index(text.upper())
    mend = f"write {bounds}" + (f", or {field.names[0]} to {field.names[-1]}" if field.names else "")
    if not text:
        raise given.refuse(at, f"the end of a range of the {field.name} is missing", mend)
    if text.upper()[:3] in field.names and text.isalpha():
        mend = f"write {text.upper()[:3]}"
    elif set(text) & _OTHER_DIALECTS:
        mend += "; L, W, # and H of other crons are not known"
    raise given.refuse(at, f"{word(text)!r} is no {field.name}", mend)


def _step(given: GivenText, item: re.Match[str], field: Field) -> int:
    text, at = item["step"], item.start("step")
    if len(text) > _MAX_DIGITS:
        raise given.refuse(at, f"the step of the {field.name} is too large", "write fewer digits")
    if not text:
        raise given.refuse(
            at, f"the step of the {field.name} is missing", "write a number of 1 or more after the slash"
        )
    if int(text) == 0:
        raise given.refuse(at, f"the step of the {field.name} is 0", "write 1 or more")
    return int(text)


def _unread(given: GivenText, end: int, at: int, field: Field) -> InvalidArgument:
    """The error for what is no item of a list."""
    if at == end or given.text[at] == ",":
        return given.refuse(at, f"a value of the {field.name} is missing", "remove the comma, or write a value")
    mend = "L, W, # and H of other crons are not known" if given.text[at] in _OTHER_DIALECTS else _SYNTAX
    return given.refuse(at, f"{word(given.text[at])!r} does not fit into the {field.name}", mend)
