"""The verdict: each thing that must not happen makes the demo fail, and the figures are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from atf.demo.files import KnownFile, read_files
from atf.demo.record import DemoRecord, DemoRun, SuccessfulEnd
from atf.demo.report import NS, AcceptedTask, DemoReport, judge, throughput
from atf.demo.strike import KilledWorker
from atf.verify.outcome import percentile


class Story:
    """Three tasks: `a` runs through, `b` is cut off by the kill of process 7 and rescued, `c` is delayed."""

    def __init__(self, directory: Path) -> None:
        path = directory / "file"
        path.write_text("content")
        (self.file,) = read_files([directory], 1)
        self.path = path
        self.accepted = AcceptedTask(dict.fromkeys("abc", self.file), {"a": 0, "b": 0, "c": 5 * NS}, {"c"})
        self.results = dict.fromkeys("abc", self.file.hash)
        self.record = DemoRecord(directory)
        cut_off = DemoRun("7-1", 1, 2 * NS, 3 * NS)
        self.record.runs = {
            "a": [DemoRun("7-1", 1, NS, 2 * NS, 9)],
            "b": [cut_off, DemoRun("8-1", 2, 4 * NS, 5 * NS, 9)],
            "c": [DemoRun("8-1", 1, 6 * NS, 7 * NS, 9)],
        }
        self.record.ends = [SuccessfulEnd(2 * NS, "a", 9), SuccessfulEnd(5 * NS, "b", 9), SuccessfulEnd(7 * NS, "c", 9)]
        self.kill: KilledWorker | None = KilledWorker(7, 3 * NS, [("b", cut_off)])

    def report(self) -> DemoReport:
        return judge(self.accepted, self.results, self.record, self.kill)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_demo_in_order_passes(story: Story) -> None:
    report = story.report()
    assert report.failures == []
    assert (report.tasks, report.succeeded, report.rescued, report.retried_after_kill) == (3, 3, 1, 1)
    assert report.rescue_seconds == 1.0
    assert (report.start_delay_p50_ms, report.start_delay_p99_ms) == (1_000, 2_000)
    assert report.as_json()["passed"] is True


def test_a_lost_task_fails_it(story: Story) -> None:
    del story.results["a"]
    assert story.report().lost == 1
    assert story.report().failures == ["1 accepted tasks have not succeeded"]


def test_an_overlap_fails_it(story: Story) -> None:
    story.record.runs["a"].append(DemoRun("8-1", 2, 2 * NS - 1, 3 * NS, 9))
    assert story.report().failures == ["1 tasks ran twice at once"]


def test_an_early_start_fails_it(story: Story) -> None:
    story.accepted.due_ns["c"] = 6 * NS + 1
    assert story.report().failures == ["1 tasks started before they were due"]


def test_a_wrong_hash_fails_it(story: Story) -> None:
    story.results["a"] = "0" * 64
    assert story.report().failures == ["1 hashes are not what the demo computed itself"]


def test_a_hash_of_a_changed_file_is_no_failure(story: Story) -> None:
    story.path.write_text("other content")
    story.results["a"] = "0" * 64
    report = story.report()
    assert (report.files_changed, report.failures) == (1, [])


def test_a_vanished_file_is_no_failure_but_an_empty_hash_of_a_standing_one_is(story: Story) -> None:
    story.results["a"] = ""
    assert not story.report().passed
    story.path.unlink()
    assert story.report().passed


def test_no_kill_fails_it(story: Story) -> None:
    story.kill = None
    assert story.report().failures == ["no executor was caught with started tasks, so none was killed"]


def test_no_rescue_fails_it(story: Story) -> None:
    del story.record.runs["b"][1], story.results["b"]
    assert "none of the 1 tasks that the killed executor had started was rescued" in story.report().failures


def test_a_task_that_ended_on_the_killed_process_unreported_counts_as_retried(story: Story) -> None:
    story.record.runs["a"].append(DemoRun("8-1", 2, 4 * NS, 5 * NS, 9))
    report = story.report()
    assert (report.retried_after_kill, report.rescued, report.passed) == (2, 1, True)


def test_throughput_is_the_median_of_whole_seconds_without_the_delayed_and_the_kill() -> None:
    per_second = [10, 30, 20, 1, 1, 1, 1, 40, 3]
    ends = [
        SuccessfulEnd(second * NS + index, f"{second}-{index}", 1 << 20)
        for second, count in enumerate(per_second)
        for index in range(count)
    ]
    delayed = [SuccessfulEnd(NS // 2 + index, "delayed", 0) for index in range(1_000)]
    # The kill falls into second 3; it and the three after it are left out, and so is the half second at the end.
    assert throughput(ends + delayed, without={"delayed"}, gap_ns=3 * NS + 5) == (25, 25)
    assert throughput(ends, without=set(), gap_ns=None)[0] == 5.5
    assert throughput([], without=set(), gap_ns=None) == (0, 0)


def test_percentiles() -> None:
    values = [float(each) for each in range(1, 101)]
    assert [percentile(values, each) for each in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert (percentile([7.0], 50), percentile([], 50)) == (7.0, 0.0)


class Id(str):
    """A task id that counts how often it is compared or looked up."""

    __slots__ = ()
    used = 0

    def __eq__(self, other: object) -> bool:
        Id.used += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Id.used += 1
        return str.__hash__(self)


def test_judging_takes_an_effort_in_proportion_to_the_tasks(tmp_path: Path) -> None:
    file = KnownFile("x", 1, 1, "h")
    ids = [Id(each) for each in range(2_000)]
    record = DemoRecord(tmp_path)
    record.runs = {each: [DemoRun("7-1", 1, number, number + 1, 1)] for number, each in enumerate(ids)}
    record.ends = [SuccessfulEnd(number * NS // 1_000, each, 1) for number, each in enumerate(ids)]
    Id.used = 0
    report = judge(AcceptedTask(dict.fromkeys(ids, file), dict.fromkeys(ids, 0)), dict.fromkeys(ids, "h"), record, None)
    assert report.tasks_per_second == 1_000
    assert Id.used < 100 * len(ids)
