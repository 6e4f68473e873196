"""What the rows of ordered keys judge: runs in their order, and that something was tried at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proof.chaos.lines import RECORD, OpenRuns, RecordedRun, broken_order, read
from proof.chaos.rows.isolation_ordered import KILLS, broken


def wrote(folder: Path, pid: int, *records: tuple[int, int, int, float]) -> None:
    with (folder / str(pid)).open("ab") as file:
        file.writelines(RECORD.pack(*each) for each in records)


def test_runs_that_have_begun_and_not_ended_are_open(tmp_path: Path) -> None:
    runs = OpenRuns(tmp_path)
    assert runs.of(7) == 0
    wrote(tmp_path, 7, (1, 0, 1, 0.1), (2, 0, 1, 0.2), (1, 0, 0, 0.3))
    assert runs.of(7) == 1
    wrote(tmp_path, 7, (2, 0, 0, 0.4))
    assert runs.of(7) == 0
    wrote(tmp_path, 7, (3, 0, 1, 0.5))
    assert runs.of(7) == 1
    (tmp_path / "7").write_bytes(b"")
    assert runs.of(7) == 0


def test_a_run_that_its_kill_cut_off_ended_there(tmp_path: Path) -> None:
    wrote(tmp_path, 7, (1, 0, 1, 0.1))
    wrote(tmp_path, 8, (1, 0, 1, 0.4), (1, 0, 0, 0.5))
    assert read(tmp_path, {7: 0.3}) == [RecordedRun(0.1, 0.3, 1, 0, False), RecordedRun(0.4, 0.5, 1, 0, True)]
    assert broken_order(read(tmp_path, {7: 0.3})) == (0, 0)
    assert broken_order(read(tmp_path, {7: 0.45})) == (0, 1)


def test_a_trial_that_tried_nothing_has_failed() -> None:
    good: dict[str, Any] = {"cut_off": 3, "kills": KILLS, "failovers": None, "disorder": 0, "overlaps": 0, "missing": 0}
    assert broken(**good) == []
    assert broken(**good | {"failovers": 1}) == []
    assert broken(**good | {"cut_off": 0}) == ["no run of a key was cut off: no killed head was tried"]
    assert broken(**good | {"kills": KILLS - 1}) == ["2 executors were killed, 3 at least are to be"]
    assert broken(**good | {"failovers": 0}) == ["no replica took over from a killed master"]
    assert broken(**good | {"disorder": 2, "missing": 1}) == ["2 runs out of their order", "1 tasks did not run"]
