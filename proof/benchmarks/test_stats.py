"""Medians, percentiles and lateness."""

from __future__ import annotations

from typing import Any

import pytest

from proof.benchmarks.questions.d_cost import available_bytes, by_level, by_name, grown, growth, no_room
from proof.benchmarks.stats import count, figure, lateness, medians, percentile, ratio, ratios, spread

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
    levels = {
        "1000": {"cpu_us": 100.0, "to_reference": 2.0},
        "1000000": {"cpu_us": 300.0, "to_reference": 2.4},  # the machine was slow: a load of its own was, too
        "10000000": {"cpu_us": 150.0, "to_reference": 3.0},
    }
    assert growth(levels, 1_000, {"growth": 1_000_000, "growth_most": 10_000_000}) == {
        "growth": 1.2,
        "growth_most": 1.5,
    }


def test_every_level_has_its_growth_for_table_and_picture() -> None:
    levels = {"1000": {"to_reference": 2.0}, "100000": {"to_reference": 2.4}, "10000000": {"to_reference": 3.0}}
    found = by_level(levels)
    assert {name: each["growth"] for name, each in found.items()} == {
        "1,000 pending": 1.0,
        "100,000 pending": 1.2,
        "10,000,000 pending": 1.5,
    }
    assert by_level({}) == {}


def test_growth_has_no_figure_of_a_level_that_did_not_run() -> None:
    levels = {"1000": {"to_reference": 2.0}, "100000": {"to_reference": 2.4}}
    assert growth(levels, 1_000, {"growth": 1_000_000}) == {}
    assert growth(levels, 1_000, {"growth_most": 100_000}) == {"growth_most": 1.2}
    assert growth({"1000000": {"to_reference": 2.0}}, 1_000, {"growth": 1_000_000}) == {}


def test_only_the_pending_tasks_that_are_to_come_want_memory() -> None:
    assert no_room(9_000_000, 9 << 30) == ""
    assert no_room(9_000_000, 1 << 30) == (
        "9,000,000 more pending tasks want 8583 MiB of memory, and 1024 are available"
    )
    assert available_bytes() > 0


def test_a_ratio_is_the_median_over_rounds_of_one_number() -> None:
    mine = [{"per_s": 10.0}, {"per_s": 100.0}, {"per_s": 200.0}]
    theirs = [{"per_s": 100.0, "round": 3}, {"per_s": 5.0, "round": 1}, {"per_s": 0.0, "round": 2}]
    assert ratio(mine, theirs, "per_s") == 2.0
    assert ratio(mine, [], "per_s") is None
    assert ratio(mine, [{"per_s": 1.0, "round": 9}], "per_s") is None


def test_memory_is_judged_by_the_process_that_grew_most_not_by_the_sum_of_its_role() -> None:
    names = by_name({"client": [9], "controller": [4], "executors": [7, 8], "store": [1]})
    assert names == {"client": 9, "controller": 4, "executors 1": 7, "executors 2": 8, "store": 1}
    first = {"client": 10.0, "controller": 10.0, "executors 1": 10.0, "executors 2": 90.0, "store": 10.0}
    last = {"client": 30.0, "controller": 10.5, "executors 1": 20.0, "executors 2": 81.0, "store": 90.0}
    worst, ratios = grown(first, last)
    assert worst == 2.0, "the sum of both executors grew by 1 % only; client and store are no roles"
    assert ratios == {"client": 3.0, "controller": 1.05, "executors 1": 2.0, "executors 2": 0.9, "store": 9.0}


def test_a_spread_says_of_how_many_rounds_it_is_where_these_are_few() -> None:
    assert spread([{"s": 2.0}, {"s": 1.0}, {}], "s", 5, str) == "2 of 5: 1.0 to 2.0"
    assert spread([{"s": 1.0}] * 5, "s", 5, str) == "5: 1.0 to 1.0"
    assert spread([{}], "s", 5, str) == ""


def test_what_was_measured_several_times_in_a_round_is_one_round() -> None:
    rounds = [{"run": "a", "round": 1, "group": each, "s": float(each)} for each in (1, 2, 3)]
    assert count(rounds) == 1
    assert count([*rounds, {"run": "b", "round": 1}, {"run": "a", "round": 2}]) == 3
    assert spread(rounds, "s", 5, str) == "1 of 5, measured 3 times: 1.0 to 3.0"


def test_a_ratio_is_of_what_ran_in_one_group_of_one_round_of_one_run() -> None:
    def one(run: str, number: int, group: int, per_s: float) -> dict[str, Any]:
        return {"run": run, "round": number, "group": group, "per_s": per_s}

    mine = [one("a", 1, 1, 10.0), one("a", 1, 2, 30.0), one("b", 2, 1, 80.0)]
    assert ratios(mine, [one("a", 1, 2, 10.0)], "per_s") == [3.0]
    assert ratios(mine, [one("a", 2, 1, 10.0)], "per_s") == [], "the same number, of another run"
    assert ratios(mine, [one("a", 1, 1, 10.0), one("b", 2, 1, 10.0)], "per_s") == [1.0, 8.0]
