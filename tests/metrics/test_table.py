"""The table of metrics: its names and labels, and what is bounded."""

from __future__ import annotations

import re

import pytest

from atf.metrics.buckets import RUN_SECONDS, SECONDS
from atf.metrics.metrics import MAX_LAMBDAS, OTHER, Metrics
from atf.metrics.table import (
    DUE_OLDEST,
    METRICS,
    ROLES,
    RPC_SECONDS,
    RUNS_ENDED,
    START_DELAY,
    TASKS_SCHEDULED,
    Kind,
    MetricSpec,
)


@pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
def test_a_metric_is_named_and_described_as_prometheus_asks(spec: MetricSpec) -> None:
    assert re.fullmatch(r"atf_[a-z_]+", spec.name)
    assert spec.name.endswith("_total") is (spec.kind is Kind.COUNTER)
    assert bool(spec.buckets) is (spec.kind is Kind.HISTOGRAM)
    assert spec.help.endswith(".")
    assert spec.roles
    assert set(spec.roles) <= set(ROLES)


def test_no_label_names_a_host_an_executor_or_a_task() -> None:
    labels = {label for spec in METRICS for label in spec.labels}
    expected = {
        "lambda",
        "result",
        "status",
        "outcome",
        "pool",
        "state",
        "priority",
        "method",
        "code",
        "limit",
        "function",
        "file",
        "check",
        "le",
    }
    assert labels - {"role", "version", "python"} == expected


def test_every_metric_stands_in_the_table_once() -> None:
    names = [spec.name for spec in METRICS]
    assert len(names) == len(set(names))
    assert list(SECONDS) == sorted(SECONDS)
    assert set(RUN_SECONDS) <= {*SECONDS}


def test_lambdas_beyond_the_bound_are_one() -> None:
    metrics = Metrics()
    for number in range(MAX_LAMBDAS + 50):
        metrics.counter(TASKS_SCHEDULED, f"a/{number}", "accepted").inc()
    metrics.counter(RUNS_ENDED, "a/0", "succeeded").inc()
    metrics.counter(RUNS_ENDED, f"a/{MAX_LAMBDAS}", "succeeded").inc()

    found = dict(metrics.values(TASKS_SCHEDULED))
    assert len(found) == MAX_LAMBDAS + 1
    assert found[OTHER, "accepted"] == 50
    assert dict(metrics.values(RUNS_ENDED)) == {("a/0", "succeeded"): 1, (OTHER, "succeeded"): 1}


def test_a_value_at_a_bound_lies_in_its_bucket() -> None:
    histogram = Metrics().histogram(RPC_SECONDS, "Schedule")
    for seconds in (0.005, 0.006, 300.0, 301.0):
        histogram.observe(seconds)

    assert histogram.counts == [1, 1, *[0] * 11, 1, 1]
    assert histogram.total == pytest.approx(601.011)


def test_histograms_of_the_same_buckets_add_up() -> None:
    one, other = Metrics().histogram(START_DELAY, "a/b"), Metrics().histogram(START_DELAY, "a/b")
    one.observe(0.2)
    other.observe(3)
    one.add(other.counts, other.total)
    assert sum(one.counts) == 2
    with pytest.raises(ValueError, match="shorter"):
        one.add([1, 2], 3)


def test_a_gauge_is_what_was_read_last() -> None:
    metrics = Metrics()
    metrics.replace(DUE_OLDEST, {("a/b",): 1, ("a/c",): 2})
    metrics.replace(DUE_OLDEST, {("a/c",): 3})
    assert metrics.values(DUE_OLDEST) == [(("a/c",), 3)]
    metrics.drop(DUE_OLDEST)
    assert metrics.values(DUE_OLDEST) == []
