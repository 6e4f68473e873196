"""The lambdas' record is read as it was written, whole lines alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from atf.verify.events import Began, Ended
from atf.verify.record import DIRECTORY, VerifyRecord, began, ended, events


def write(directory: Path, process: str, text: str) -> None:
    with (directory / process).open("a") as file:
        file.write(text)


def test_lines_are_read_once_and_only_when_whole(tmp_path: Path) -> None:
    record = VerifyRecord(tmp_path)
    write(tmp_path, "7-1", "B 100 1100 a 5\nE 150 1150 a 5 1\nB 200 1200 b")
    record.poll()
    record.poll()
    assert record.begun == [Began(100, "a", 5, "7-1", 1100)]
    assert record.ends == [Ended(150, "a", 5, "7-1", True)]
    assert record.open_runs(7) == {}
    write(tmp_path, "7-1", " 6\n")
    record.poll()
    assert record.open_runs(7) == {("b", 6): 200}
    assert record.open_runs(8) == {}
    record.close("7-1")
    assert record.open_runs(7) == {}


def test_what_a_lambda_writes_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    began("12-ab-7", 3)
    ended("12-ab-7", 3, returned=False)
    record = VerifyRecord(tmp_path)
    record.poll()
    (begin,), (end,) = record.begun, record.ends
    assert (begin.task_id, begin.fence, begin.process) == ("ab-7", 3, end.process)
    assert (end.task_id, end.succeeded) == ("ab-7", False)
    assert begin.at_us <= end.at_us


def test_a_begin_has_the_latest_instant_that_any_process_had_seen_on_the_clock(tmp_path: Path) -> None:
    """A store whose clock was set back has shown the later instant before."""
    record = VerifyRecord(tmp_path)
    write(tmp_path, "7-1", "B 100 5100 a 5\nB 300 4300 c 7\n")
    write(tmp_path, "8-1", "B 200 5200 b 6\n")
    record.poll()
    assert {each.task_id: each.store_us for each in events(record) if isinstance(each, Began)} == {
        "a": 5100,
        "b": 5200,
        "c": 5200,
    }
