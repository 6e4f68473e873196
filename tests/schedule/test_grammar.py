"""What a schedule may say: fields, formats, macros, zones, intervals and periods."""

from __future__ import annotations

import pytest

from atf.schedule.cron import MACROS, parse_cron
from atf.schedule.fields import DAY, HOUR, MINUTE, MONTH, UNIX_WEEKDAY, WEEKDAY, Field, Values, parse_field
from atf.schedule.refusal import GivenText

from .reading import fires


def values(text: str, field: Field = MINUTE) -> Values:
    return parse_field(GivenText("schedule", text), 0, len(text), field)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("5", MINUTE, [5]),
        ("05", MINUTE, [5]),
        ("0" * 500 + "7", MINUTE, [7]),
        ("5-5", MINUTE, [5]),
        ("1-4", MINUTE, [1, 2, 3, 4]),
        ("1-9/4,30", MINUTE, [1, 5, 9, 30]),
        ("10/20", MINUTE, [10, 30, 50]),
        ("59/15", MINUTE, [59]),
        ("30,10,10-12", MINUTE, [10, 11, 12, 30]),
        ("0-59/99999999999", MINUTE, [0]),
        ("*/7", HOUR, [0, 7, 14, 21]),
        ("?/7", HOUR, [0, 7, 14, 21]),
        ("*/10", DAY, [1, 11, 21, 31]),
        ("jan,FEB,Mar", MONTH, [1, 2, 3]),
        ("Oct-12", MONTH, [10, 11, 12]),
        ("Mon/2", WEEKDAY, [1, 3, 5]),
        ("SUN-sat/3", WEEKDAY, [0, 3, 6]),
        ("5-7", UNIX_WEEKDAY, [0, 5, 6]),
        ("7", UNIX_WEEKDAY, [0]),
        ("*/2", UNIX_WEEKDAY, [0, 2, 4, 6]),
        ("1/2", UNIX_WEEKDAY, [1, 3, 5]),
    ],
)
def test_the_values_of_a_field(text: str, field: Field, expected: list[int]) -> None:
    assert values(text, field) == (tuple(expected), False)


@pytest.mark.parametrize("text", ["*", "?", "*/1", "?/01", "3,*", "*,3/7"])
def test_a_field_that_leaves_its_value_open(text: str) -> None:
    assert values(text, DAY) == (tuple(range(1, 32)), True)


def test_when_both_days_are_named_either_matches() -> None:
    """1 January 2026 is a Thursday."""
    assert fires(schedule="0 0 0 6 * MON") == ["2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z", "2026-01-12T00:00:00Z"]
    assert fires(2, schedule="0 0 0 */20 * MON") == ["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"]
    assert fires(2, schedule="0 0 0 */1 * MON") == ["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"]
    assert fires(2, schedule="0 0 0 1-31 * MON") == ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]
    assert fires(2, schedule="0 0 0 6 * 0-6") == ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]
    assert fires(2, schedule="0 0 0 30 2 MON") == ["2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"]


def test_five_fields_where_the_format_says_so() -> None:
    assert fires(2, schedule="30 3 * * 7", format="unix") == ["2026-01-04T03:30:00Z", "2026-01-11T03:30:00Z"]
    assert fires(1, schedule="@daily", format="unix") == ["2026-01-02T00:00:00Z"]
    assert fires(1, schedule="TZ=Asia/Tokyo 0 9 * * *", format="unix") == ["2026-01-02T00:00:00Z"]


def test_macros_are_expressions() -> None:
    for macro, expression in MACROS.items():
        assert fires(5, schedule=macro) == fires(5, schedule=expression)


def test_a_zone_by_prefix_or_beside_the_schedule() -> None:
    expected = ["2026-01-01T08:00:00Z"]
    assert fires(1, schedule="0 0 9 * * *", tz="Europe/Paris") == expected
    for prefix in ("TZ=Europe/Paris ", "CRON_TZ=Europe/Paris   ", "TZ=Europe/Paris\t"):
        assert fires(1, schedule=f"{prefix}0 0 9 * * *") == expected
    assert fires(1, schedule="TZ=Europe/Paris 0 0 9 * * *", tz="Europe/Paris") == expected


def test_white_space_between_fields() -> None:
    assert fires(1, schedule="  0\t0   9 * * *  ") == ["2026-01-01T09:00:00Z"]


def test_ticks_are_whole_seconds_and_later_than_the_base() -> None:
    assert fires(1, "2026-01-01T09:00:00Z", schedule="0 0 9 * * *") == ["2026-01-02T09:00:00Z"]
    assert fires(1, "2026-01-01T08:59:59.999999Z", schedule="0 0 9 * * *") == ["2026-01-01T09:00:00Z"]


def test_a_leap_day_is_at_most_eight_years_away() -> None:
    found = fires(2, "2096-02-29T00:00:00Z", schedule="0 0 0 29 Feb *")
    assert found == ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"]


def test_periods_of_reminders() -> None:
    seconds = [f"2026-01-01T00:00:0{number}Z" for number in (3, 6, 9)]
    for period in ("PT3S", "3s", "R4/PT3S", "R3/PT3S", "0h0m3s", "+3s", "3000ms"):
        assert fires(schedule=period) == seconds
    assert fires(9, schedule="R2/PT3S") == seconds[:2]
    assert fires(9, schedule="R2/PT3S", repeats=2) == seconds[:2]


@pytest.mark.parametrize("schedule", ["@every 0s", "@every -5s", "@every 0", "PT0S", "R3/PT0S", "-5s", "@every 1ns"])
def test_an_interval_that_is_not_positive_has_no_ticks(schedule: str) -> None:
    assert fires(schedule=schedule) == []
    assert fires(schedule=schedule, due_time="10s") == []


@pytest.mark.parametrize("schedule", ["0 0 0 30 2 *", "0 0 0 31 4,6,9,11 *", "@every 100000h"])
def test_what_does_not_come_in_ten_years_never_does(schedule: str) -> None:
    assert fires(schedule=schedule) == []


def test_an_expression_is_read_once() -> None:
    given = GivenText("schedule", "1 2 3 4 5 *")
    assert parse_cron(given) is parse_cron(GivenText("schedule", "1 2 3 4 5 *"))
    assert parse_cron(given) is not parse_cron(GivenText("schedule", "1 2 3 4 5  *"))


def test_one_expression_serves_two_jobs_at_different_times() -> None:
    first, second = "2026-01-01T00:00:00Z", "2030-06-01T00:00:00Z"
    assert fires(1, first, schedule="@daily") == ["2026-01-02T00:00:00Z"]
    assert fires(1, second, schedule="@daily") == ["2030-06-02T00:00:00Z"]
    assert fires(1, first, schedule="@daily") == ["2026-01-02T00:00:00Z"]
