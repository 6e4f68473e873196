"""Medians, percentiles and lateness."""

from __future__ import annotations

import pytest

from tests.bench.questions.d_cost import growth
from tests.bench.stats import figure, lateness, medians, percentile

MS = 1_000_000


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 99, 0.0), ([5], 50, 5.0), ([3, 1, 2], 50, 2.0), ([4, 3, 2, 1], 50, 2.0), (list(range(1, 1001)), 99, 990.0)],
)
def test_a_percentile_is_a_value_that_occurred(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_medians_go_figure_by_figure_and_into_mappings() -> None:
    rounds = [
        {"per_s": 10.0, "cpu": {"store": 3}, "killed": "worker 1", "last_s": 1.0},
        {"per_s": 30.0, "cpu": {"store": 5}, "killed": "worker 2"},
        {"per_s": 11.0, "cpu": {"store": 4, "client": 2}, "killed": "worker 3", "last_s": 3.0},
    ]
    assert medians(rounds) == {"per_s": 11.0, "cpu": {"store": 4, "client": 2}, "last_s": 2.0}
    assert medians([]) == {}


def test_a_figure_is_found_by_its_path() -> None:
    assert figure({"a": {"b": 2}}, "a.b") == 2
    assert figure({"a": {"b": 2}}, "a") is None
    assert figure({"a": {"b": 2}}, "a.c.d") is None


def test_lateness_leaves_out_what_did_not_start() -> None:
    late = lateness([10 * MS, 10 * MS, 10 * MS], [12 * MS, 0, 16 * MS])
    assert (late["p50"], late["p99"], late["max"], late["early"]) == (2.0, 6.0, 6.0, 0)


def test_a_start_is_early_beyond_the_slack_of_the_clocks() -> None:
    assert lateness([10 * MS] * 3, [9 * MS, 10 * MS - 1, 10 * MS], slack_ns=1)["early"] == 1


def test_growth_is_from_the_fewest_pending_to_a_million() -> None:
    levels = {"1000": {"cpu_us": 100.0}, "1000000": {"cpu_us": 120.0}, "10000000": {"cpu_us": 150.0}}
    assert growth(levels, 1_000_000) == 1.2
    assert growth(levels, 10_000_000) == 1.5
    assert growth({}, 1_000_000) == 0.0
