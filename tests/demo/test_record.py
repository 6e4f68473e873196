"""The record of starts and ends: it is read as it was written, and each thing it can prove it can also refute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atf.demo.record import DIRECTORY, DemoRecord, DemoRun, concurrent, early
from atf.verify.record_files import pid_of


def write(directory: Path, process: str, *lines: str) -> None:
    with (directory / process).open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


@pytest.fixture
def record(tmp_path: Path) -> DemoRecord:
    return DemoRecord(tmp_path)


def test_lines_are_read_once_and_only_when_whole(tmp_path: Path, record: DemoRecord) -> None:
    write(tmp_path, "7-1", "S 100 0-a 1", "E 150 0-a 1 9")
    with (tmp_path / "7-1").open("a") as file:
        file.write("S 200 0-")
    record.poll()
    record.poll()
    assert record.runs == {"0-a": [DemoRun("7-1", 1, 100, 150, 9)]}
    assert (record.running, record.done) == (0, {"0-a"})
    write(tmp_path, "7-1", "b 1")
    record.poll()
    assert record.running == 1
    assert record.open_runs(7) == [("0-b", DemoRun("7-1", 1, 200))]
    assert record.open_runs(8) == []


def test_a_failed_run_ends_without_being_done(tmp_path: Path, record: DemoRecord) -> None:
    write(tmp_path, "7-1", "S 100 0-a 1", "E 150 0-a 1 failed", "S 200 0-a 2", "E 250 0-a 2 0")
    record.poll()
    assert [(run.end_ns, run.succeeded) for run in record.runs["0-a"]] == [(150, False), (250, True)]
    assert [moment.at_ns for moment in record.ends] == [250]


def test_what_a_killed_process_ran_ends_with_it(tmp_path: Path, record: DemoRecord) -> None:
    write(tmp_path, "7-1", "S 100 0-a 1", "S 110 0-b 1", "E 120 0-b 1 5")
    record.poll()
    assert [task_id for task_id, _ in record.close_killed(7, 500)] == ["0-a"]
    assert record.runs["0-a"][0].end_ns == 500
    assert record.running == 0
    assert record.done == {"0-b"}


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([DemoRun("7-1", 1, 100, 200), DemoRun("8-1", 2, 200, 300)], []),
        ([DemoRun("7-1", 1, 100, 200), DemoRun("8-1", 2, 199, 300)], ["t"]),
        ([DemoRun("8-1", 2, 150, 160), DemoRun("7-1", 1, 100, 200)], ["t"]),
        ([DemoRun("7-1", 1, 100, 900), DemoRun("8-1", 2, 150, 160), DemoRun("8-1", 3, 170, 180)], ["t"]),
        ([DemoRun("7-1", 1, 100, None), DemoRun("8-1", 2, 10**12, 10**13)], ["t"]),
        ([DemoRun("7-1", 1, 100, None)], []),
    ],
)
def test_overlaps(runs: list[DemoRun], expected: list[str]) -> None:
    assert concurrent({"t": runs, "other": [DemoRun("7-1", 1, 0, 10**15)]}) == expected


def test_early_starts() -> None:
    runs = {
        "on_time": [DemoRun("7-1", 1, 100)],
        "early": [DemoRun("7-1", 1, 99)],
        "again": [DemoRun("7-1", 1, 100), DemoRun("7-1", 2, 90)],
    }
    assert early(runs, dict.fromkeys([*runs, "never_started"], 100)) == ["early", "again"]


@pytest.mark.processes
def test_what_a_process_wrote_survives_its_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "from atf.demo.record import write_start, write_end\n"
        "write_start('0-a', 1); write_end('0-a', 1, 42); write_start('0-b', 3)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program], env={**os.environ, DIRECTORY: str(tmp_path)}, check=False
    )
    assert ended.returncode == -9
    record = DemoRecord(tmp_path)
    record.poll()
    ((task_id, run),) = record.open_runs(pid_of(next(tmp_path.iterdir()).name))
    assert (task_id, run.number, record.done, record.ends[0].size) == ("0-b", 3, {"0-a"}, 42)


@pytest.mark.processes
def test_threads_that_begin_together_share_one_file(tmp_path: Path) -> None:
    program = (
        "import threading\n"
        "from atf.demo.record import write_start, write_end\n"
        "def work(n):\n"
        "    together.wait(); write_start(f'0-{n}', 1); write_end(f'0-{n}', 1, n)\n"
        "together = threading.Barrier(16)\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], env={**os.environ, DIRECTORY: str(tmp_path)}, check=True)
    record = DemoRecord(tmp_path)
    record.poll()
    assert len(list(tmp_path.iterdir())) == 1
    assert (len(record.done), record.running) == (16, 0)
