"""When clocks show a time, worked out from zoneinfo alone: what the tests of their changes expect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
GAPS, FOLDS = ("skip", "run_after"), ("first", "second", "both")
POLICIES = [(gap, fold) for gap in GAPS for fold in FOLDS]
ZONES = ("Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo")


def shown_at(zone: ZoneInfo, wall: datetime) -> list[datetime]:
    """The instants at which the clocks of a zone show a time: none, one or two."""
    there = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(at for at in there if at.astimezone(zone).replace(tzinfo=None) == wall)


def after_gap(zone: ZoneInfo, wall: datetime) -> datetime:
    """The first instant at which the clocks show more than a time that they never show."""
    at = wall.replace(tzinfo=UTC) - timedelta(days=1)
    while at.astimezone(zone).replace(tzinfo=None) <= wall:
        at += MINUTE
    return at


def daily(zone: ZoneInfo, year: int, hour: int, minute: int, gap: str, fold: str) -> list[datetime]:
    """When a job of one tick a day has them in a year, by the clocks of a zone."""
    found: list[datetime] = []
    day = datetime(year, 1, 1, hour, minute)  # noqa: DTZ001 - wall time
    while day.year == year:
        there = shown_at(zone, day)
        if not there and gap == "run_after":
            found.append(after_gap(zone, day))
        found += {"first": there[:1], "second": there[-1:], "both": there}[fold]
        day += timedelta(days=1)
    return found
