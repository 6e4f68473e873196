"""Computes the figures of a demo and its verdict. It computes; what it computes from is given."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from atf.verify.outcome import percentile

from .files import KnownFile
from .record import DemoRecord, SuccessfulEnd, concurrent, early
from .strike import KilledWorker

NS: Final = 1_000_000_000
AFTER_KILL_S: Final = 3
"""Seconds after the kill that tasks per second leave out."""


@dataclass
class AcceptedTask:
    """What the demo knows of each task that it had accepted, by task id.

    Attributes:
        file: what it hashes.
        due_ns: before when it must not start, by CLOCK_MONOTONIC, taken before it was sent.
        delayed: those that were not due at once.
    """

    file: dict[str, KnownFile] = field(default_factory=dict)
    due_ns: dict[str, int] = field(default_factory=dict)
    delayed: set[str] = field(default_factory=set)


@dataclass
class DemoReport:
    """What a demo ends with. Counts are of tasks, times in the unit that the name ends with."""

    tasks: int
    succeeded: int
    lost: int
    concurrent: int
    early: int
    wrong_hashes: int
    files_changed: int
    retried_after_kill: int
    rescued: int
    start_delay_p50_ms: float
    start_delay_p95_ms: float
    start_delay_p99_ms: float
    tasks_per_second: float
    mib_per_second: float
    rescue_seconds: float | None
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.failures

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


def judge(
    accepted: AcceptedTask, results: Mapping[str, str], record: DemoRecord, kill: KilledWorker | None
) -> DemoReport:
    """Everything together.

    Args:
        accepted: the tasks.
        results: the hash that ATF answered, of each task that succeeded.
        record: the lambda's own.
        kill: what was killed.
    """
    succeeded = accepted.file.keys() & results.keys()
    wrong, changed = _wrong_hashes(accepted, results)
    again = _restarts(record, kill)
    cut_off = {task_id for task_id, _ in kill.cut_off} if kill else set()
    rescued = {task_id for task_id in cut_off & again.keys() if task_id in succeeded}
    delays = start_delays_ms(record, accepted.due_ns)
    rate, mib = throughput(record.ends, without=accepted.delayed, gap_ns=kill.at_ns if kill else None)
    report = DemoReport(
        tasks=len(accepted.file),
        succeeded=len(succeeded),
        lost=len(accepted.file) - len(succeeded),
        concurrent=len(concurrent(record.runs)),
        early=len(early(record.runs, accepted.due_ns)),
        wrong_hashes=len(wrong),
        files_changed=len(changed),
        retried_after_kill=len(again),
        rescued=len(rescued),
        start_delay_p50_ms=percentile(delays, 50),
        start_delay_p95_ms=percentile(delays, 95),
        start_delay_p99_ms=percentile(delays, 99),
        tasks_per_second=rate,
        mib_per_second=mib,
        rescue_seconds=(max(again.values()) - kill.at_ns) / NS if kill and again else None,
    )
    report.failures = list(_failures(report, kill))
    return report


def _failures(report: DemoReport, kill: KilledWorker | None) -> Iterable[str]:
    if report.lost:
        yield f"{report.lost} accepted tasks have not succeeded"
    if report.concurrent:
        yield f"{report.concurrent} tasks ran twice at once"
    if report.early:
        yield f"{report.early} tasks started before they were due"
    if report.wrong_hashes:
        yield f"{report.wrong_hashes} hashes are not what the demo computed itself"
    if kill is None:
        yield "no executor was caught with started tasks, so none was killed"
    elif not report.rescued:
        yield f"none of the {len(kill.cut_off)} tasks that the killed executor had started was rescued"


def _wrong_hashes(accepted: AcceptedTask, results: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Tasks whose hash is wrong, and those whose file changed or vanished since the demo read it."""
    differ = {task_id for task_id, file in accepted.file.items() if results.get(task_id, file.hash) != file.hash}
    changed = {task_id for task_id in differ if accepted.file[task_id].changed()}
    return differ - changed, changed


def _restarts(record: DemoRecord, kill: KilledWorker | None) -> dict[str, int]:
    """When each task that ran on the killed process, and did not fail there by itself, started for the first time after."""
    if kill is None:
        return {}
    process = {run.process for _, run in kill.cut_off}
    found = {}
    for task_id, runs in record.runs.items():
        there = [run for run in runs if run.process in process]
        later = [run.start_ns for run in runs if run.start_ns > kill.at_ns and run.process not in process]
        if there and later and (there[-1].succeeded or there[-1].end_ns == kill.at_ns):
            found[task_id] = min(later)
    return found


def start_delays_ms(record: DemoRecord, due_ns: Mapping[str, int]) -> list[float]:
    """Per task that started, from the instant it was due to its first start; sorted."""
    return sorted(
        (min(run.start_ns for run in record.runs[task_id]) - due) / 1e6
        for task_id, due in due_ns.items()
        if task_id in record.runs
    )


def throughput(ends: Sequence[SuccessfulEnd], *, without: AbstractSet[str], gap_ns: int | None) -> tuple[float, float]:
    """Tasks and MiB per second: medians of whole windows of one second, without some tasks and the seconds after the kill."""
    counted = sorted(end for end in ends if end.task_id not in without)
    if not counted:
        return 0.0, 0.0
    begin, end = counted[0].at_ns, counted[-1].at_ns
    windows = max((end - begin) // NS, 1)
    tasks, sizes = [0] * windows, [0] * windows
    for each in counted:
        window = (each.at_ns - begin) // NS
        if window < windows:
            tasks[window] += 1
            sizes[window] += each.size
    kept = [each for each in range(windows) if gap_ns is None or not _touches(begin + each * NS, gap_ns)]
    if not kept:
        kept = list(range(windows))  # so short a run has nothing else
    return statistics.median(tasks[each] for each in kept), statistics.median(sizes[each] for each in kept) / (1 << 20)


def _touches(window_ns: int, kill_ns: int) -> bool:
    return window_ns + NS > kill_ns and window_ns < kill_ns + AFTER_KILL_S * NS
