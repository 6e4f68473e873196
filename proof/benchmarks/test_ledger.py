"""The ledger: what ran, how often, and when first; also across processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.benchmarks.known import ROOT
from proof.benchmarks.ledger import LEDGER, MOST, RunsLedger, payload


@pytest.fixture
def book(tmp_path: Path) -> Iterator[RunsLedger]:
    found = RunsLedger.create(10, tmp_path)
    yield found
    found.remove()


def test_nothing_has_run_at_first(book: RunsLedger) -> None:
    assert (book.ran(range(10)), book.never(range(10)), book.twice(range(10))) == (0, 10, 0)
    assert book.starts(range(10)) == [0] * 10
    assert book.slots == 16  # the instants are aligned


def test_runs_are_counted_and_the_first_instant_stays(book: RunsLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter([7, 8, 9])
    monkeypatch.setattr("proof.benchmarks.ledger.time.monotonic_ns", lambda: next(instants))
    for number in (3, 9, 3):
        book.mark(number)
    assert (book.ran(range(10)), book.never(range(10)), book.twice(range(10))) == (2, 8, 1)
    assert book.starts(range(10)) == [0, 0, 0, 7, 0, 0, 0, 0, 0, 8]
    assert (book.ran(range(4, 10)), book.twice(range(4, 10))) == (1, 0)


def test_a_count_does_not_run_over(book: RunsLedger) -> None:
    for _ in range(MOST + 2):
        book.mark(0)
    assert book.twice(range(10)) == 1
    assert book.never(range(1, 10)) == 9


def test_a_task_out_of_range_is_an_error_and_not_another_ones_run(book: RunsLedger) -> None:
    with pytest.raises(IndexError):
        book.mark(book.slots)


def test_it_can_be_cleared(book: RunsLedger) -> None:
    book.mark(1)
    book.clear()
    assert book.never(range(10)) == 10


def test_another_process_marks_by_payload(book: RunsLedger) -> None:
    assert payload(5) == "00000000000000000005"
    code = f"from proof.benchmarks import ledger; ledger.mark({payload(5)!r}); ledger.mark({payload(5)!r})"
    env = {"PYTHONPATH": str(ROOT), LEDGER: str(book.path)}
    subprocess.run([sys.executable, "-P", "-c", code], env=env, check=True)
    assert (book.ran(range(10)), book.twice(range(10))) == (1, 1)
    assert book.starts(range(5, 6))[0] > 0


def test_it_tells_how_much_of_it_is_resident_in_a_process(tmp_path: Path) -> None:
    book = RunsLedger.create(1 << 20, tmp_path)
    before = book.resident_mib(os.getpid())
    for number in range(book.slots):
        book.mark(number)
    assert before < 1.0
    assert book.resident_mib(os.getpid()) == 9.0
    book.remove()
    assert book.resident_mib(os.getpid()) == 0.0, "other mappings do not count"


def test_removing_it_leaves_no_file(tmp_path: Path) -> None:
    RunsLedger.create(1, tmp_path).remove()
    assert not list(tmp_path.iterdir())


def test_ledgers_of_the_dead_are_swept_and_no_others(tmp_path: Path, book: RunsLedger) -> None:
    with subprocess.Popen(["/bin/true"]) as gone:
        pass
    (tmp_path / f"atf-bench-{gone.pid}-1").touch()
    (tmp_path / "atf-bench-notes-1").touch()
    RunsLedger.create(1, tmp_path).remove()
    assert {each.name for each in tmp_path.iterdir()} == {book.path.name, "atf-bench-notes-1"}
