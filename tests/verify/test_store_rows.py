"""What the rows that strike the store make of what they measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import tally
from tests.chaos.rows.backlog import rate
from tests.chaos.rows.store_killed import _trial


def test_a_rate_is_that_of_the_middle() -> None:
    slow_start = [0.0, *(10 + number / 100 for number in range(100)), 60.0]
    assert rate(slow_start) == pytest.approx(100)
    assert rate([1.0]) == 0
    assert rate([1.0] * 30) == 0


@pytest.mark.parametrize(
    ("took", "said"),
    [
        ({"schedule": 4.9, "claim": 5.0}, []),
        ({"schedule": 5.1, "claim": 1}, ["schedule: 5.1"]),
        ({"claim": 1}, ["schedule: nothing"]),
    ],
)
def test_what_comes_late_or_never_breaks_the_bar(took: dict[str, float], said: list[str]) -> None:
    trial = _trial(1.0, took, {"schedule": 5.0, "claim": 5.0}, recovered=True)
    assert [each.partition(" s ")[0] for each in trial["late"]] == said
    assert _trial(1.0, took, {}, recovered=False)["late"] == ["not all that was cut off ran again"]


def test_a_tally_leaves_out_what_its_writer_could_not_end(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(tally.RECORD.pack(7, 2.0) + tally.RECORD.pack(8, 3.0)[:5])
    (tmp_path / "2").write_bytes(tally.RECORD.pack(7, 1.0))
    assert tally.read(tmp_path) == [(7, 1.0), (7, 2.0)]
