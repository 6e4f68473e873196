"""Reads cron expressions and finds the wall times that match. It knows no time zone; dst.py says when a clock shows them.

    0 30 8 * * MON-FRI      second, minute, hour, day of the month, month, day of the week

Every field is read by fields.py. croniter, the engine, gets plain numbers and civil time alone: by itself it reads seconds
last, takes 5-5 for the whole field and R for chance, and has rules of its own for changes of the clocks.
Source of the meaning: github.com/dapr/kit/cron.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from atf.task import US

from . import fields
from .fields import Values, parse_field
from .instants import EPOCH, LATEST_US
from .refusal import GivenText, word

if TYPE_CHECKING:  # a process that only checks durations has no use for it
    from croniter import croniter

MAX_CHARS: Final = 1_024
"""Of a schedule."""
HORIZON_YEARS: Final = 10
"""What does not match within so many years never does; 29 February is at most eight years away."""
LATEST_S: Final = LATEST_US // US - (HORIZON_YEARS + 2) * 366 * 86_400
"""Beyond it there might be no year for an answer."""

MACROS: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_SIX: Final = (fields.SECOND, fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, fields.WEEKDAY)
_FIVE: Final = (*_SIX[1:5], fields.UNIX_WEEKDAY)
_KINDS: Final = 'write such as "0 30 8 * * *", @daily, @every 1h30m or PT1H30M'
_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S*)\s*", re.ASCII)
_WORD = re.compile(r"\S+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Expression:
    """A cron expression as it was understood; one object serves all jobs that have the same text."""

    zone: GivenText | None
    """`TZ=` or `CRON_TZ=` and a name, which nobody has looked up yet."""
    names_hours: bool
    """Whether its hour field leaves any hour out."""
    day_at: int
    """Where in the text its days are, or the macro."""
    rhythm: str
    """The same for all texts that match the same wall times by the same rules."""
    _engine: croniter[datetime] = field(repr=False)

    def next_wall(self, after_s: int) -> int | None:
        """The next wall time that matches.

        Args:
            after_s: a wall time, in seconds from 1970-01-01T00:00:00 as that clock shows it; the answer is later.

        Returns:
            Seconds likewise; None: there is none within ten years.
        """
        from croniter import CroniterBadDateError

        if not 0 <= after_s + 86_400 <= LATEST_S:
            return None
        engine = copy.copy(self._engine)  # it remembers where it stands
        engine.set_current(EPOCH + timedelta(seconds=after_s))
        try:
            found = engine.get_next(datetime)
        except CroniterBadDateError:
            return None
        return (found - EPOCH) // timedelta(seconds=1)


@lru_cache(maxsize=4_096)  # the engine takes 0.15 ms and more to read an expression
def parse_cron(given: GivenText, *, unix: bool = False) -> Expression:
    """A cron expression or a macro, after a time zone if it names one.

    Args:
        given: the text.
        unix: whether it has five fields, minutes first, and Sunday is also 7.

    Raises:
        InvalidArgument: it is malformed; the message shows where.
    """
    named = _ZONE.match(given.text)
    zone, start = None, 0
    if named:
        if not named["zone"]:
            at = named.start("zone")
            raise given.refuse(at, "the name of a time zone is missing", "write such as TZ=Europe/Paris")
        zone, start = GivenText(given.field, given.text[: named.end("zone")]), named.end()
    words = list(_WORD.finditer(given.text, start))
    if not words:
        raise given.refuse(len(given.text), "a schedule is missing", _KINDS)
    kinds = _FIVE if unix else _SIX
    source = given
    if words[0][0].startswith("@"):
        source, kinds = GivenText(given.field, _macro(given, words)), _SIX
        day_at, words = words[0].start(), list(_WORD.finditer(source.text))
    else:
        _check_count(given, words, unix=unix)
        day_at = words[2 if unix else 3].start()
    values = [parse_field(source, *each.span(), kind) for each, kind in zip(words, kinds, strict=True)]
    if len(values) < len(_SIX):
        values.insert(0, Values((0,), star=False))
    return Expression(zone, len(values[2].values) < 24, day_at, _rhythm(values), _engine(values))


def _macro(given: GivenText, words: list[re.Match[str]]) -> str:
    name, at = words[0][0], words[0].start()
    if name == "@every":
        raise given.refuse(0, "@every has no time zone, and stands first", "remove what is before it")
    if name not in MACROS:
        import difflib

        near = difflib.get_close_matches(name.lower(), [*MACROS, "@every"], n=1)
        mend = f"write {near[0]}" if near else f"write one of {', '.join(MACROS)}, or @every with a duration"
        raise given.refuse(at, f"{word(name)!r} is not known", mend)
    if len(words) > 1:
        raise given.refuse(words[1].start(), f"nothing follows {name}", "remove the rest")
    return MACROS[name]


def _check_count(given: GivenText, words: list[re.Match[str]], *, unix: bool) -> None:
    """Raises InvalidArgument unless there are as many fields as there have to be."""
    wanted, rest = (5 if unix else 6), " ".join(each[0] for each in words)
    if len(words) == wanted:
        return
    if len(words) == 1:
        mend = f"write @{rest.lower()}" if f"@{rest.lower()}" in MACROS else _KINDS
        raise given.refuse(words[0].start(), f"{word(rest)!r} is no schedule", mend)
    at = words[wanted].start() if len(words) > wanted else len(given.text)
    mend = f"write {'' if unix else 'second, '}minute, hour, day of the month, month, day of the week"
    if not unix and len(words) == 5:
        mend = f'put the second in front: "0 {word(rest)}"'
    elif unix and len(words) == 6:
        mend = "leave the second out, or leave out that the format is unix"
    raise given.refuse(at, f"it has {len(words)} fields, not {wanted}", mend)


def _rhythm(values: list[Values]) -> str:
    """Of the days alone it counts whether a field is open: where neither is, either of them may match."""
    texts = [",".join(map(str, each.values)) for each in values]
    return " ".join("*" if place in {3, 5} and values[place].star else text for place, text in enumerate(texts))


def _engine(values: list[Values]) -> croniter[datetime]:
    """An engine for civil time without changes of the clocks; it wants the seconds last."""
    from croniter import croniter

    second, minute, hour, day, month, weekday = (
        "*" if each.star else ",".join(map(str, each.values)) for each in values
    )
    clean = f"{minute} {hour} {day} {month} {weekday} {second}"
    return croniter(clean, EPOCH, ret_type=datetime, max_years_between_matches=HORIZON_YEARS)
