"""Schedule, due_time, ttl and repeats together."""

from __future__ import annotations

from typing import Any

import pytest

from atf.schedule.plan import Plan

from .reading import BASE, fires, refusal, us

HOUR = 3_600_000_000


def test_without_due_time_the_first_fire_is_the_schedules() -> None:
    assert fires(2, schedule="@every 1h") == ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]


def test_the_first_fire_is_at_due_time_whatever_the_schedule_says() -> None:
    found = fires(schedule="@hourly", due_time="90m")
    assert found == ["2026-01-01T01:30:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"]


def test_a_due_time_that_has_passed_is_kept() -> None:
    assert fires(2, schedule="@every 1h", due_time="-90m") == ["2025-12-31T22:30:00Z", "2025-12-31T23:30:00Z"]


def test_ticks_follow_from_ticks_not_from_runs() -> None:
    plan = Plan.parse(base_us=us(BASE), schedule="@every 1h")
    first = us(BASE) + HOUR
    assert plan.first_us() == first
    assert plan.after(first, 1) == us(BASE) + 2 * HOUR
    assert plan.after(first, 1) == us(BASE) + 2 * HOUR, "a plan remembers nothing"


def test_ttl_counts_from_due_time_and_includes_its_instant() -> None:
    assert len(fires(9, schedule="@every 1h", ttl="2h")) == 2
    assert len(fires(9, schedule="@every 1h", ttl="2h", due_time="24h")) == 3
    assert len(fires(9, schedule="@every 1h", ttl="7199.999999s")) == 1
    assert fires(9, schedule="@every 1h", ttl="0s", due_time="24h") == ["2026-01-02T00:00:00Z"]


def test_repeats_count_fires() -> None:
    assert len(fires(9, schedule="@every 1h", repeats=3)) == 3
    assert len(fires(9, schedule="@every 1h", repeats=3, due_time="0s")) == 3
    assert len(fires(9, schedule="@every 1h", repeats=3, ttl="2h")) == 2
    assert fires(9, due_time="1h", repeats=1) == ["2026-01-01T01:00:00Z"]


def test_without_a_schedule_it_fires_once() -> None:
    plan = Plan.parse(base_us=us(BASE), due_time="1h")
    assert list(plan) == [us(BASE) + HOUR]
    assert plan.after(us(BASE) + HOUR, 1) is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "schedule: there is neither a schedule nor a due_time; give one of them"),
        ({"schedule": ""}, "schedule: it is empty; leave it out, or give a value"),
        ({"due_time": "1h", "ttl": "1h"}, "ttl: without a schedule the job fires once"),
        ({"due_time": "1h", "repeats": 2}, "repeats: without a schedule the job fires once"),
        ({"schedule": "@daily", "repeats": 0}, "repeats: it is under 1"),
        ({"schedule": "@daily", "repeats": -1}, "repeats: it is under 1"),
        ({"schedule": "@daily", "repeats": 1 << 32}, "repeats: it is over 4294967295"),
        ({"schedule": "R4/PT3S", "repeats": 3}, "repeats: the period repeats 4 times; give the number once"),
        ({"schedule": "@daily", "due_time": "2h", "ttl": "-1h"}, "ttl: it ends before due_time, 2026-01-01T02:00:00Z"),
        ({"schedule": "@daily", "gap": "hop"}, "gap: 'hop' is not known; write skip or run_after"),
        ({"schedule": "@daily", "fold": ""}, "fold: '' is not known; write first or second or both"),
        ({"schedule": "@daily", "format": "quartz"}, "format: 'quartz' is not known; write unix, or leave it out"),
        (
            {"schedule": "@daily", "tz": "Europe/Pariss"},
            "tz: there is no time zone 'Europe/Pariss'; write Europe/Paris",
        ),
        ({"due_time": "1h", "tz": "Nowhere"}, "tz: there is no time zone 'Nowhere'"),
        ({"schedule": "TZ=UTC @daily", "tz": "Asia/Tokyo"}, "schedule: it names UTC, and tz is Asia/Tokyo"),
    ],
)
def test_fields_that_do_not_go_together(fields: dict[str, Any], says: str) -> None:
    assert refusal(**fields).startswith(says)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"schedule": "0 0 0 30 2 *"}, "schedule: no such day comes in ten years"),
        ({"schedule": "0 0 0 30 2 *", "due_time": "1h"}, "schedule: no such day comes in ten years"),
        ({"schedule": "@every 0s"}, "schedule: the interval is shorter than a microsecond"),
        ({"schedule": "-5s"}, "schedule: the interval is shorter than a microsecond"),
        ({"schedule": "@every 100000h"}, "schedule: it ticks not once in ten years"),
        ({"schedule": "@daily", "ttl": "1h"}, "ttl: it ends before the first tick, 2026-01-02T00:00:00Z"),
        ({"due_time": "2037-01-01T00:00:00Z"}, "due_time: it is more than ten years ahead"),
    ],
)
def test_what_never_fires_is_refused_where_it_is_registered(fields: dict[str, Any], says: str) -> None:
    assert refusal(strict=True, **fields).startswith(says)
    fires(**fields)  # and only there


@pytest.mark.parametrize(
    ("schedule", "place"), [("@every 0s", "0s"), ("@every 100000h", "100000h"), ("-5s", "-5s"), ("R4/PT0S", "PT0S")]
)
def test_an_interval_of_no_use_is_shown(schedule: str, place: str) -> None:
    text, mark = refusal(strict=True, schedule=schedule).splitlines()[1:]
    assert text[mark.index("^") :] == place


def test_what_fires_is_registered() -> None:
    assert fires(strict=True, schedule="@daily")
    assert fires(strict=True, due_time="-5s")
    assert fires(strict=True, schedule="@daily", due_time="0s", ttl="0s")


def test_the_end_of_the_years_ends_a_job() -> None:
    assert fires(9, "9999-12-30T00:00:00Z", schedule="@daily") == []
    assert fires(1, "9999-12-30T00:00:00Z", schedule="@daily", tz="Asia/Tokyo") == []
    assert fires(9, "9999-12-31T22:30:00Z", schedule="@every 1h") == ["9999-12-31T23:30:00Z"]
