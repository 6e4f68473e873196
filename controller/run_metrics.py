"""Takes what executors report of their runs, and counts it: the metrics of a host's runs are its controller's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from atf.errors import InvalidArgument
from atf.metrics.buckets import RUN_SECONDS, SECONDS
from atf.metrics.metrics import Metrics
from atf.metrics.table import RUN_TIME, RUNS_ENDED, START_DELAY
from atf.rpc import controller_pb2 as c, task_pb2 as t
from atf.task import MAX_BATCH, US, check_lambda, check_name

MAX_REPORT: Final = 1 << 53
"""The highest number of a report, and the largest of what it counts."""
MAX_REPORTERS: Final = 4_096
"""Executors whose last number is kept; the one that has been silent the longest is forgotten first."""
_OUTCOMES: Final = [name.lower() for name in t.Outcome.keys()]  # noqa: SIM118  no dict


def check_report(request: c.ReportRunsRequest) -> None:
    """Every field.

    Raises:
        InvalidArgument: one breaks a rule.
    """
    check_name(request.executor_id, "executor_id")
    if not 1 <= request.number <= MAX_REPORT:
        raise InvalidArgument(f"number {request.number}: number the reports from 1")
    if len(request.runs) > MAX_BATCH:
        raise InvalidArgument(f"{len(request.runs)} runs: at most {MAX_BATCH} lambdas in one report")
    for each in request.runs:
        check_lambda(getattr(each, "lambda"))
        for field, counts, most in (
            ("outcomes", each.outcomes, len(_OUTCOMES)),
            ("start_delays", each.start_delays, len(SECONDS) + 1),
            ("run_times", each.run_times, len(RUN_SECONDS) + 1),
        ):
            if len(counts) not in {0, most}:
                raise InvalidArgument(f"{len(counts)} {field}: use {most} numbers, or none")
            _check_amounts(field, counts)
        _check_amounts("start_delays_us and run_times_us", (each.start_delays_us, each.run_times_us))


def _check_amounts(field: str, amounts: Iterable[int]) -> None:
    for each in amounts:
        if not 0 <= each <= MAX_REPORT:
            raise InvalidArgument(f"{field} {each}: use 0 to {MAX_REPORT}")


class RunMetrics:
    """What is known of the runs of one host."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._taken: dict[str, int] = {}
        """The number of the last report by executor, the one last heard of at the end."""

    def take(self, request: c.ReportRunsRequest) -> None:
        """Counts a report, unless it is a copy of one that was taken.

        Raises:
            InvalidArgument: it breaks a rule; then nothing of it counts.
        """
        check_report(request)
        before = self._taken.pop(request.executor_id, 0)
        self._taken[request.executor_id] = max(before, request.number)
        if len(self._taken) > MAX_REPORTERS:
            del self._taken[next(iter(self._taken))]
        if request.number > before:
            for each in request.runs:
                self._count(getattr(each, "lambda"), each)

    def lost(self, name: str) -> None:
        """A run has ended with its executor."""
        self._metrics.counter(RUNS_ENDED, name, "lost").inc()

    def _count(self, name: str, runs: c.LambdaRuns) -> None:
        for outcome, count in zip(_OUTCOMES, runs.outcomes, strict=False):
            if count:
                self._metrics.counter(RUNS_ENDED, name, outcome).inc(count)
        if any(runs.start_delays):
            self._metrics.histogram(START_DELAY, name).add(runs.start_delays, runs.start_delays_us / US)
        if any(runs.run_times):
            self._metrics.histogram(RUN_TIME, name).add(runs.run_times, runs.run_times_us / US)
