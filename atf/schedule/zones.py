"""Finds time zones by name, and the instants at which their clocks change. Everything in seconds since the epoch.

zoneinfo tells the offset of an instant, and not when it changes next; that is found here once, and remembered.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from .refusal import GivenText, word

MAX_CHARS: Final = 64
"""Of a name; the longest there is has 32."""
_REFUSED: Final = ("right/", "posix/", "localtime")
"""Zones that count leap seconds, copies, and what another host has otherwise."""
_OFFSET: Final = re.compile(
    r"(?:Etc/)?(?:UTC|GMT|Z)? ?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?", re.IGNORECASE
)
_ABBREVIATION_CHARS: Final = 5
_ANY: Final = "write a name of the tz database, such as Europe/Paris or UTC"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STEP_S: Final = 6 * 86_400
"""Since 1970 no zone changed its clocks twice within so long; Boa Vista did within a week, in October 2000."""
_BLOCK_S: Final = 61 * _STEP_S


class Change(NamedTuple):
    """A moment at which the clocks of a zone are set forward or back."""

    at_s: int
    before_s: int
    """The offset from UTC until then, in seconds."""
    after_s: int
    """The offset from then on."""

    @property
    def lost(self) -> range:
        """The wall times, in seconds, that clocks set forward pass over."""
        return range(self.at_s + self.before_s, self.at_s + self.after_s)

    @property
    def first_pass(self) -> range:
        """Seconds since the epoch at which clocks show what they will show again once they are set back."""
        return range(self.at_s + self.after_s - self.before_s, self.at_s)

    @property
    def second_pass(self) -> range:
        """Seconds since the epoch at which they show it again."""
        return range(self.at_s, self.at_s + self.before_s - self.after_s)


def parse_zone(given: GivenText, start: int = 0) -> ZoneInfo:
    """The zone whose name a text has from `start` on.

    Raises:
        InvalidArgument: the tz database has no zone of this name.
    """
    name = given.checked(MAX_CHARS).text[start:]
    try:
        if name.isascii() and not name.startswith(_REFUSED):
            return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # no such file, a directory, or a file of another kind
        pass
    raise given.refuse(start, f"there is no time zone {word(name)!r}", zone_hint(name))


def zone_hint(name: str) -> str:
    """What to write in place of a name that is refused: a zone that means the same, or, of a name that is misspelt, the nearest."""
    if found := _meant(name):
        return f"write {found}"
    if re.search("[+-][0-9]", name):
        return f"an offset is no zone; {_ANY}"
    if len(name) <= _ABBREVIATION_CHARS and name.isalpha():  # near to many, and like none of them
        return f"an abbreviation may mean several zones; {_ANY}" if name.isupper() else _ANY
    if name.startswith(_REFUSED) or any(each.startswith(f"{name}/") for each in _names()):
        return _ANY
    import difflib

    near = difflib.get_close_matches(name.replace(" ", "_"), _names(), n=1, cutoff=0.7)
    return f"write {near[0]}" if near else _ANY


def _meant(name: str) -> str:
    """The zone that a name stands for without a doubt; empty: none."""
    for prefix in ("right/", "posix/"):
        name = name.removeprefix(prefix)
    folded = name.replace(" ", "_").casefold()
    if folded in {"z", "utc"}:
        return "UTC"
    if match := _OFFSET.fullmatch(name):
        hours, minutes = int(match["hours"]), int(match["minutes"] or 0)
        if not hours and not minutes:
            return "UTC"
        zone = f"Etc/GMT{'-' if match['sign'] == '+' else '+'}{hours}"  # POSIX counts westwards
        return zone if not minutes and zone in _names() else ""
    whole = [each for each in _names() if each.casefold() == folded]
    cities = [] if name.isupper() else [each for each in _names() if each.casefold().endswith(f"/{folded}")]
    return next(iter(whole), cities[0] if len(cities) == 1 else "")


@cache
def _names() -> list[str]:
    """Those that are not refused."""
    return sorted(each for each in available_timezones() if not each.startswith(_REFUSED))


def offset_s(zone: ZoneInfo, at_s: int) -> int:
    """Seconds that a zone's clocks are ahead of UTC at an instant."""
    there = (_EPOCH + timedelta(seconds=at_s)).astimezone(zone).utcoffset()
    assert there is not None
    return there // timedelta(seconds=1)


def changes(zone: ZoneInfo, after_s: int, until_s: int) -> list[Change]:
    """The changes after one instant and until another, which is included, in their order."""
    if zone.key == "UTC":  # the common case, which need not be searched for any
        return []
    blocks = range(after_s // _BLOCK_S, until_s // _BLOCK_S + 1)
    return [each for block in blocks for each in _changes(zone, block) if after_s < each.at_s <= until_s]


@lru_cache(maxsize=4_096)
def _changes(zone: ZoneInfo, block: int) -> tuple[Change, ...]:
    """Those of one block of time."""
    found = []
    start = block * _BLOCK_S
    before = offset_s(zone, start - 1)
    for end in range(start - 1 + _STEP_S, start + _BLOCK_S, _STEP_S):
        after = offset_s(zone, end)
        if after != before:
            seconds = range(end - _STEP_S + 1, end + 1)
            at = bisect_left(seconds, True, key=lambda each, before=before: offset_s(zone, each) != before)  # type: ignore[misc]
            found.append(Change(seconds[at], before, after))
            before = after
    return tuple(found)
