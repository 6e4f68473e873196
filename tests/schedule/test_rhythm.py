"""Which jobs tick alike from the same base: whatever the words, and only those."""

from __future__ import annotations

from typing import Any

import pytest

from atf.rpc import job_pb2 as j
from atf.schedule.job_plan import counts_from_base, rhythm_of


def rhythm(**fields: Any) -> str:
    return rhythm_of(j.JobSpec(**fields))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"schedule": "@every 60s"}, {"schedule": "@every 1m"}),
        ({"schedule": "@every 60s"}, {"schedule": "PT1M"}),
        ({"schedule": "R4/PT60S"}, {"schedule": "@every 1m", "repeats": 4}),
        ({"schedule": "@daily"}, {"schedule": "0 0 0 * * ?"}),
        ({"schedule": "0 0 9 * * MON-FRI"}, {"schedule": "00 0 9 * * 1,2,3,4,5"}),
        ({"schedule": "0 */15 * * * *"}, {"schedule": "0 0,15,30,45 * * * *"}),
        ({"schedule": "0 30 8 * * *"}, {"schedule": "30 8 * * *", "format": "unix"}),
        ({"schedule": "TZ=Europe/Paris @daily"}, {"schedule": "@daily", "tz": "Europe/Paris"}),
        ({"schedule": "@daily"}, {"schedule": "@daily", "tz": "UTC", "gap": "skip", "fold": "both"}),
        ({"due_time": "2030-01-01T00:00:00Z"}, {"due_time": "2030-01-01T01:00:00+01:00"}),
        ({"schedule": "@daily", "due_time": "90m"}, {"schedule": "@daily", "due_time": "PT1H30M"}),
        ({"schedule": "@daily", "ttl": "48h"}, {"schedule": "@daily", "ttl": "P2D"}),
        (
            {"schedule": "@daily"},
            {
                "schedule": "@daily",
                "misfire": j.ALL,
                "overlap": j.ALLOW,
                "grace_us": 1,
                "jitter_us": 5,
                "code": "x",
                "retention_us": 9,
                "base_at_us": 7,
            },
        ),
    ],
)
def test_what_means_the_same_has_the_same_rhythm(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert rhythm(**one) == rhythm(**other)


def test_what_means_something_else_has_another_rhythm() -> None:
    said: list[dict[str, Any]] = [
        {"schedule": "@every 60s"},
        {"schedule": "@every 61s"},
        {"schedule": "@every 60s", "repeats": 4},
        {"schedule": "@every 60s", "ttl": "1h"},
        {"schedule": "@every 60s", "ttl": "2030-01-01T00:00:00Z"},
        {"schedule": "@every 60s", "due_time": "1h"},
        {"schedule": "@every 60s", "due_time": "2030-01-01T00:00:00Z"},
        {"due_time": "1h"},
        {"schedule": "@daily"},
        {"schedule": "@hourly"},
        {"schedule": "@daily", "tz": "Europe/Paris"},
        {"schedule": "@daily", "gap": "run_after"},
        {"schedule": "@daily", "fold": "first"},
        {"schedule": "0 0 0 1 * MON"},  # either of the days
        {"schedule": "0 0 0 1 * *"},
        {"schedule": "0 0 0 1-31 * MON"},
        {"schedule": "0 0 0 * * MON"},
        {"schedule": "@daily", "due_time": "P1M"},
        {"schedule": "@daily", "due_time": "P30D"},
    ]
    found = [rhythm(**each) for each in said]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"due_time": "5m"}, True),
        ({"due_time": "P1M"}, True),
        ({"due_time": "2030-01-01T00:00:00Z"}, False),
        ({"schedule": "@daily", "due_time": "5m"}, False),
    ],
)
def test_of_a_job_that_ticks_once_a_duration_means_another_instant_each_time(
    fields: dict[str, Any], counts: bool
) -> None:
    assert counts_from_base(j.JobSpec(**fields)) == counts
