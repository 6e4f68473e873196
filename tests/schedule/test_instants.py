"""Instants and durations as text."""

from __future__ import annotations

import pytest

from atf.schedule.durations import Span, parse_go, parse_iso
from atf.schedule.instants import LATEST_US, add, parse_instant, parse_point, text_of
from atf.schedule.refusal import GivenText

from .reading import refusal, us

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0", 0),
        ("+0", 0),
        ("0s", 0),
        ("250ms", 250_000),
        ("1h30m", 5_400_000_000),
        ("1.5h", 5_400_000_000),
        (".5s", 500_000),
        ("5.s", 5_000_000),
        ("-5s", -5_000_000),
        ("+5s", 5_000_000),
        ("1s1s", 2_000_000),
        ("1m1h", 3_660_000_000),
        ("1us", 1),
        ("1µs", 1),
        ("1\u03bcs", 1),
        ("499ns", 0),
        ("500ns", 1),
        ("-500ns", -1),
        ("-499ns", 0),
        ("1500.9ns", 2),
        ("0.0000005s", 1),
        ("2562047h47m16.854s", 9_223_372_036_854_000),
        ("0" * 50 + "1s", 1_000_000),
    ],
)
def test_a_duration_of_go(text: str, microseconds: int) -> None:
    assert parse_go(GivenText("due_time", text)) == microseconds


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("PT2H30M", Span(0, 0, 9_000_000_000)),
        ("PT3S", Span(0, 0, 3_000_000)),
        ("P1M", Span(1, 0, 0)),
        ("PT1M", Span(0, 0, 60_000_000)),
        ("P1Y2M3W4DT5H6M7S", Span(14, 25, 18_367_000_000)),
        ("P0D", Span(0, 0, 0)),
    ],
)
def test_a_duration_of_iso_8601(text: str, span: Span) -> None:
    assert parse_iso(GivenText("ttl", text)) == span


@pytest.mark.parametrize(
    ("base", "span", "expected"),
    [
        ("2023-01-31T10:00:00Z", Span(1, 0, 0), "2023-03-03T10:00:00Z"),
        ("2024-01-31T10:00:00Z", Span(1, 0, 0), "2024-03-02T10:00:00Z"),
        ("2024-02-29T00:00:00Z", Span(12, 0, 0), "2025-03-01T00:00:00Z"),
        ("2024-12-15T00:00:00.000001Z", Span(1, 20, 5), "2025-02-04T00:00:00.000006Z"),
        ("2024-12-31T23:59:59Z", Span(0, 0, 1_000_000), "2025-01-01T00:00:00Z"),
    ],
)
def test_months_and_days_by_the_calendar(base: str, span: Span, expected: str) -> None:
    assert text_of(add(us(base), span)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2012-07-09T15:00:00Z", "2012-07-09T15:00:00Z"),
        ("2012-07-09T15:00:00+02:00", "2012-07-09T13:00:00Z"),
        ("2012-07-09T15:00:00.5-00:30", "2012-07-09T15:30:00.500000Z"),
        ("2012-07-09T15:00:00.00000005Z", "2012-07-09T15:00:00Z"),
        ("2012-07-09T15:00:00.0000005Z", "2012-07-09T15:00:00.000001Z"),
        ("2012-12-31T23:59:59.9999999Z", "2013-01-01T00:00:00Z"),
        ("2012-07-09T15:00:00.0000004999999Z", "2012-07-09T15:00:00Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_an_instant_and_back(text: str, expected: str) -> None:
    assert text_of(parse_instant(GivenText("from", text))) == expected
    assert text_of(parse_point(GivenText("due_time", text), 0)) == expected


def test_a_point_counts_from_its_base() -> None:
    base = us("2024-01-31T10:00:00Z")
    assert parse_point(GivenText("ttl", "-24h"), base) == base - DAY
    assert parse_point(GivenText("ttl", "P1W"), base) == base + 7 * DAY


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("2012-07-09T15:00:60Z", 0),
        ("2012-02-30T15:00:00Z", 0),
        ("2012-07-09T24:00:00Z", 0),
        ("2012-07-09T15:00:00z", 19),
        ("2012-07-09t15:00:00Z", 10),
        ("2012-07-09T15:00:00", 19),
        ("2012-07-09T15:00:00.Z", 19),
        ("2012-07-09T15:00:00+0200", 22),
        ("2012-07-09T15:00:00+24:00", 19),
        ("2012-07-09T15:00Z", 16),
        ("2012-7-9T15:00:00Z", 6),
        ("1969-12-31T23:59:59Z", 0),
        ("0000-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59.9999999Z", 0),
        ("9999-12-31T23:59:59-01:00", 0),
        ("\u0662012-07-09T15:00:00Z", 0),
        ("-2562047h", 0),
        ("2562048h", 0),
        ("9223372036854775807s", 0),
        ("P300Y", 0),
        ("P999999999999999999999D", 0),
        ("P", 1),
        ("PT", 2),
        ("P1DT", 4),
        ("P1M2Y", 4),
        ("PT1.5S", 3),
        ("P 1D", 1),
        ("P\u0661D", 1),
        ("1h 30m", 2),
        ("1h-30m", 1),
        ("5", 1),
        ("1d", 1),
        ("1.s.5", 5),
        (".", 0),
        ("-", 1),
        ("1e3s", 1),
        ("\u0661s", 0),
    ],
)
def test_what_is_no_point_in_time_is_refused_at_its_place(text: str, place: int) -> None:
    first, shown, caret = refusal("2024-01-31T10:00:00Z", due_time=text).split("\n")
    assert first.startswith("due_time: ")
    assert "; " in first
    assert (shown, caret) == (f"  {text}", f"  {' ' * place}^")


def test_beyond_the_years_that_there_are() -> None:
    assert add(LATEST_US, Span(1, 0, 0)) > LATEST_US
    assert "after 9999" in refusal("9999-12-31T00:00:00Z", due_time="P1D")
