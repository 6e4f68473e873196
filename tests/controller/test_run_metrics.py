"""What executors report of their runs, as the controller counts it."""

from __future__ import annotations

from typing import Any

import pytest

from atf.controller.run_metrics import MAX_REPORT, MAX_REPORTERS, RunMetrics
from atf.errors import InvalidArgument
from atf.metrics.metrics import Histogram, Metrics
from atf.metrics.table import RUN_TIME, RUNS_ENDED, START_DELAY
from atf.rpc import controller_pb2 as c

RUNS: dict[str, Any] = {
    "lambda": "a/b",
    "outcomes": [0, 3, 1, 0, 0, 0, 0, 0],
    "start_delays": [2, *[0] * 13, 1],
    "start_delays_us": 400_000_000,
    "run_times": [4, *[0] * 5],
    "run_times_us": 8_000,
}


def report(number: int = 1, executor_id: str = "e1", **other: Any) -> c.ReportRunsRequest:
    return c.ReportRunsRequest(executor_id=executor_id, number=number, runs=[c.LambdaRuns(**{**RUNS, **other})])


def test_a_report_is_counted_once() -> None:
    metrics = Metrics()
    runs = RunMetrics(metrics)
    for number in (1, 1, 2, 1):  # a copy, and a late one
        runs.take(report(number))

    assert dict(metrics.values(RUNS_ENDED)) == {("a/b", "succeeded"): 6, ("a/b", "failed"): 2}
    ((labels, delays),) = metrics.values(START_DELAY)
    assert isinstance(delays, Histogram)
    assert (labels, sum(delays.counts), delays.counts[-1], delays.total) == (("a/b",), 6, 2, 800.0)
    ((_, times),) = metrics.values(RUN_TIME)
    assert isinstance(times, Histogram)
    assert (sum(times.counts), times.total) == (8, 0.016)


def test_executors_count_by_themselves() -> None:
    metrics = Metrics()
    runs = RunMetrics(metrics)
    runs.take(report(7))
    runs.take(report(1, "e2"))
    assert dict(metrics.values(RUNS_ENDED))["a/b", "succeeded"] == 6


def test_executors_that_say_nothing_any_more_are_forgotten() -> None:
    metrics = Metrics()
    runs = RunMetrics(metrics)
    runs.take(report(1, "old"))
    for number in range(MAX_REPORTERS):
        runs.take(c.ReportRunsRequest(executor_id=f"e{number}", number=1))
    runs.take(report(1, "old"))
    assert dict(metrics.values(RUNS_ENDED))["a/b", "succeeded"] == 6


@pytest.mark.parametrize(
    "other",
    [
        {"outcomes": [1]},
        {"outcomes": [0, -1, 0, 0, 0, 0, 0, 0]},
        {"start_delays": [0] * 14},
        {"start_delays": [MAX_REPORT + 1, *[0] * 14]},
        {"start_delays_us": -1},
        {"run_times": [0] * 15},
        {"run_times": [-1, *[0] * 5]},
        {"run_times_us": MAX_REPORT + 1},
        {"lambda": "none"},
    ],
    ids=str,
)
def test_a_report_that_is_malformed_counts_nothing(other: dict[str, Any]) -> None:
    metrics = Metrics()
    good, bad = report(), report(**other)
    with pytest.raises(InvalidArgument):
        RunMetrics(metrics).take(c.ReportRunsRequest(executor_id="e1", number=1, runs=[*good.runs, *bad.runs]))
    assert metrics.values(RUNS_ENDED) == []
