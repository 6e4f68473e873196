"""Writes instants in UTC or in the reader's zone, which is named beside each of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from markupsafe import Markup

from atf.times import length

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_UTC: Final = ZoneInfo("UTC")


def zone_named(name: str) -> ZoneInfo:
    """The zone of a name that a browser gave; UTC where there is none of that name."""
    if len(name) > 64 or not _NAME.fullmatch(name):
        return _UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return _UTC


class Instants:
    """Instants as one reader sees them.

    Args:
        zone: by whose clocks.
        now_us: the present instant.
    """

    def __init__(self, zone: ZoneInfo, now_us: int) -> None:
        self._zone, self._now_us = zone, now_us

    def at(self, at_us: int) -> Markup:
        """An instant to the second, its zone beside it; the exact one and how far away it is in the tip."""
        made = self._datetime(at_us)
        if made is None:
            return (
                Markup('<span class="none">—</span>')
                if not at_us
                else Markup("<span>{} µs after 1970</span>").format(at_us)
            )
        year = "%Y-%m-%d" if abs(at_us - self._now_us) > 180 * 86_400_000_000 else "%d %b"
        exact = made.strftime("%Y-%m-%d %H:%M:%S.") + f"{made.microsecond // 1000:03d}"
        zone = made.tzname() or "UTC"
        iso = made.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return Markup('<time datetime="{}" title="{} {}, {}">{} <span class="zone">{}</span></time>').format(
            iso, exact, zone, self.away(at_us), made.strftime(f"{year} %H:%M:%S"), zone
        )

    def away(self, at_us: int) -> str:
        """How far an instant is away: 3 min ago, in 2 h 5 min."""
        if not at_us:
            return ""
        gone = self._now_us - at_us
        rounded = length(abs(gone) // 1_000_000 * 1_000_000)
        if abs(gone) < 1_000_000:
            return "now"
        return f"{rounded} ago" if gone > 0 else f"in {rounded}"

    def _datetime(self, at_us: int) -> datetime | None:
        if at_us <= 0:
            return None
        try:
            return (
                datetime.fromtimestamp(at_us // 1_000_000, UTC)
                .replace(microsecond=at_us % 1_000_000)
                .astimezone(self._zone)
            )
        except (ValueError, OverflowError, OSError):  # no year has it
            return None


def duration(us: int) -> str:
    """A length of time to three figures or two units: 340 µs, 86.9 ms, 12.5 s, 3 min 20 s."""
    if us < 1_000:
        return f"{max(us, 0)} µs" if us else "0 s"
    if us < 60_000_000:
        unit, size = ("ms", 1_000) if us < 1_000_000 else ("s", 1_000_000)
        return f"{us / size:.3g} {unit}" if us / size < 999.5 else f"{us / size:.0f} {unit}"
    return length(us // 1_000_000 * 1_000_000)
