"""Changes of the clocks: what is expected is worked out from zoneinfo alone, day by day or minute by minute."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from atf.schedule.plan import Plan
from atf.schedule.zones import changes

from .clocks import MINUTE, POLICIES, ZONES, daily
from .reading import fires, us

YEAR = 2024
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD_ZONES = ("Antarctica/Troll", "Europe/Dublin", "Africa/Casablanca", "Asia/Gaza", "Pacific/Chatham", "America/Havana")

# Of 366 days: a time that is lost takes one away, one that comes twice adds one.
LOST = {("@daily", "Africa/Cairo"), ("@daily", "America/Santiago")}
LOST |= {("0 30 2 * * *", "Europe/Paris"), ("0 30 2 * * *", "America/New_York")}
TWICE = {("0 30 2 * * *", "Europe/Paris")}


def ticks(schedule: str, zone: str, gap: str, fold: str, start: datetime, end: datetime) -> list[datetime]:
    """Those from one instant on and before another."""
    base_us = (start - EPOCH) // timedelta(microseconds=1) - 1
    plan = Plan.parse(base_us=base_us, schedule=schedule, tz=zone, gap=gap, fold=fold)
    found = (EPOCH + timedelta(microseconds=tick) for tick in plan)
    return list(itertools.takewhile(lambda at: at < end, found))


@pytest.mark.parametrize(("gap", "fold"), POLICIES)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("schedule", "hour", "minute"), [("@daily", 0, 0), ("0 30 2 * * *", 2, 30)])
def test_a_year_of_a_daily_job(schedule: str, hour: int, minute: int, zone: str, gap: str, fold: str) -> None:
    there = ZoneInfo(zone)
    start, end = (datetime(year, 1, 1, tzinfo=there).astimezone(UTC) for year in (YEAR, YEAR + 1))

    found = ticks(schedule, zone, gap, fold, start, end)

    assert found == daily(there, YEAR, hour, minute, gap, fold)
    lost, twice = (schedule, zone) in LOST and gap == "skip", (schedule, zone) in TWICE and fold == "both"
    assert len(found) == 366 - lost + twice


class Minute(NamedTuple):
    at: datetime
    wall: datetime
    passed: list[datetime]
    """What the clocks passed over just before."""
    twice: bool
    """Whether they show it also at another instant."""


@cache
def walk(zone: ZoneInfo, start: datetime, end: datetime) -> list[Minute]:
    """Every minute from one instant on and before another."""
    found = []
    at, last = start, (start - MINUTE).astimezone(zone).replace(tzinfo=None)
    while at < end:
        wall = at.astimezone(zone)
        passed = [last + MINUTE * number for number in range(1, (wall.replace(tzinfo=None) - last) // MINUTE)]
        other = wall.replace(fold=1 - wall.fold)
        twice = other.utcoffset() != wall.utcoffset() and other.astimezone(UTC) != at
        found.append(Minute(at, wall, passed, twice))
        at, last = at + MINUTE, wall.replace(tzinfo=None)
    return found


def expected(
    zone: ZoneInfo, minutes: set[int], hours: set[int] | None, gap: str, fold: str, start: datetime, end: datetime
) -> list[datetime]:
    """Ticks at second 0 of these minutes and hours; None: of all hours, so that no policy applies."""

    def matches(wall: datetime) -> bool:
        return wall.minute in minutes and (hours is None or wall.hour in hours)

    found = []
    for at, wall, passed, twice in walk(zone, start, end):
        unwanted = twice and hours is not None and fold != "both" and (fold == "first") == bool(wall.fold)
        makes_up = hours is not None and gap == "run_after" and any(map(matches, passed))
        if makes_up or (matches(wall) and not unwanted):
            found.append(at)
    return found


def around_changes(zone: str) -> Iterator[tuple[datetime, datetime]]:
    """Six hours on both sides of each change of the year."""
    start = int((datetime(YEAR, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
    for change in changes(ZoneInfo(zone), start, start + 366 * 86_400):
        at = EPOCH + timedelta(seconds=change.at_s)
        yield at - timedelta(hours=6), at + timedelta(hours=6)


@pytest.mark.parametrize("zone", ZONES + ODD_ZONES)
def test_random_hours_and_minutes_around_the_changes(zone: str) -> None:
    chance = random.Random(zone)
    windows = list(around_changes(zone))
    assert windows
    for start, end in windows:
        for gap, fold in POLICIES:
            minutes = set(chance.sample(range(60), 2))
            hours = set(chance.sample(range(5), 3)) | {chance.randrange(24)}
            listed = [",".join(map(str, sorted(each))) for each in (minutes, hours)]
            schedule = f"0 {listed[0]} {listed[1]} * * *"
            found = ticks(schedule, zone, gap, fold, start, end)
            assert found == expected(ZoneInfo(zone), minutes, hours, gap, fold, start, end), (schedule, gap, fold)


@pytest.mark.parametrize(("gap", "fold"), POLICIES)
@pytest.mark.parametrize("zone", ZONES + ODD_ZONES)
def test_every_five_minutes_never_pauses_or_doubles(zone: str, gap: str, fold: str) -> None:
    for start, end in list(around_changes(zone)):
        found = ticks("0 */5 * * * *", zone, gap, fold, start, end)
        assert found == expected(ZoneInfo(zone), set(range(0, 60, 5)), None, gap, fold, start, end)
        assert {later - earlier for earlier, later in itertools.pairwise(found)} == {timedelta(minutes=5)}


def test_an_hour_field_that_names_all_hours_names_none() -> None:
    start, end = next(around_changes("Europe/Paris"))
    for hours in ("*", "*/1", "?", "0-23", "0-11,12-23", "0/1"):
        found = ticks(f"0 15 {hours} * * *", "Europe/Paris", "run_after", "first", start, end)
        assert len(found) == 12, hours


def test_several_ticks_lost_in_a_gap_are_made_up_for_once() -> None:
    fields: dict[str, Any] = {"base": "2026-03-28T23:00:00Z", "tz": "Europe/Paris", "gap": "run_after"}
    assert fires(schedule="0 */10 2 * * *", **fields)[:2] == ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]
    assert fires(schedule="* * 2 * * *", **fields)[:2] == ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]


def test_a_tick_just_after_a_gap_is_not_doubled() -> None:
    found = fires(schedule="0 0 2,3 * * *", base="2026-03-28T23:00:00Z", tz="Europe/Paris", gap="run_after")
    assert found == ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T01:00:00Z"]


def test_what_follows_from_within_an_fold() -> None:
    fields: dict[str, Any] = {"schedule": "0 30 2 * * *", "tz": "Europe/Paris"}
    first, second, next_day = "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"
    assert fires(3, first, fold="both", **fields)[:2] == [second, next_day]
    assert fires(3, first, fold="first", **fields)[0] == next_day
    assert fires(3, first, fold="second", **fields)[:2] == [second, next_day]
    assert fires(3, "2026-10-25T00:45:00Z", fold="second", **fields)[:2] == [second, next_day]
    assert fires(3, "2026-10-25T01:15:00Z", fold="first", **fields)[0] == next_day


def test_every_second_of_an_hour_that_comes_twice() -> None:
    fields: dict[str, Any] = {"schedule": "* * 2 * * *", "tz": "Europe/Paris", "base": "2026-10-25T00:59:58Z"}
    assert fires(2, fold="second", **fields) == ["2026-10-25T01:00:00Z", "2026-10-25T01:00:01Z"]
    assert fires(2, fold="first", **fields) == ["2026-10-25T00:59:59Z", "2026-10-26T01:00:00Z"]


def test_a_change_that_takes_a_whole_day() -> None:
    """Samoa went from the 29th to the 31st of December 2011."""
    fields: dict[str, Any] = {"schedule": "0 0 12 30 * *", "tz": "Pacific/Apia", "base": "2011-12-29T00:00:00Z"}
    assert fires(1, **fields) == ["2012-01-29T22:00:00Z"]
    assert fires(1, gap="run_after", **fields) == ["2011-12-30T10:00:00Z"]


def test_a_rare_day_across_many_changes() -> None:
    assert fires(2, schedule="0 0 12 29 2 *", tz="Europe/Paris", base="2096-03-01T00:00:00Z") == [
        "2104-02-29T11:00:00Z",
        "2108-02-29T11:00:00Z",
    ]


def test_changes_are_found_to_the_second() -> None:
    start = us("2026-01-01T00:00:00Z") // 1_000_000
    found = changes(ZoneInfo("America/New_York"), start, start + 366 * 86_400)
    assert [(each.at_s, each.before_s, each.after_s) for each in found] == [
        (us("2026-03-08T07:00:00Z") // 1_000_000, -18_000, -14_400),
        (us("2026-11-01T06:00:00Z") // 1_000_000, -14_400, -18_000),
    ]
    assert changes(ZoneInfo("America/New_York"), found[0].at_s - 1, found[0].at_s) == found[:1]
    assert changes(ZoneInfo("America/New_York"), found[0].at_s, found[1].at_s - 1) == []
    assert changes(ZoneInfo("Asia/Tokyo"), start, start + 366 * 86_400) == []
