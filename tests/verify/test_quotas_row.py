"""The row about limits: its judge finds what breaks a rate, and the lambda's record what runs at once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proof.chaos import limited
from proof.chaos.rows.isolation_quotas import BURST, FEWER, SLOWER, judge_changes, judge_rate, judge_running

_US = 1_000_000
STEADY = [1 + number * _US // limited.RATE for number in range(limited.RATE * 12)]


def said(pushed: list[int]) -> list[str]:
    found: list[str] = judge_rate(pushed, STEADY, 0, 10)["failures"]
    return found


def test_a_steady_rate_is_right() -> None:
    assert said(STEADY) == []


def test_a_rate_that_is_missed_either_way_is_said() -> None:
    assert "not 1000" in said([each * 102 // 100 for each in STEADY])[0]
    assert "not 1000" in said([each * 98 // 100 for each in STEADY])[0]


def test_a_burst_is_said() -> None:
    crowded = sorted([*STEADY[:-BURST], *[STEADY[500]] * (BURST - limited.RATE + 2)])
    assert any("in one second" in each for each in said(crowded))


def changed(slow_from_s: float, fast_from_s: float) -> list[str]:
    """What is said where the rate is set at 10 s and taken back at 20 s, and holds so much later."""
    slow, fast = range(10_000, 20_000), range(20_000, 30_000)
    pushed = [ms for ms in slow if ms % (10 if ms < 10_000 + slow_from_s * 1000 else 1000 // SLOWER) == 0]
    pushed += [ms for ms in fast if ms % (1000 // SLOWER if ms < 20_000 + fast_from_s * 1000 else 10) == 0]
    found: list[str] = judge_changes([ms * 1000 for ms in pushed], 10 * _US, 20 * _US)["failures"]
    return found


def test_another_rate_that_comes_late_is_said() -> None:
    assert changed(0.9, 0.9) == []
    (late,) = changed(1.5, 0.5)
    assert "after the rate was set to 20" in late
    (late,) = changed(0.5, 1.5)
    assert "after the rate was 100 again" in late


def running(*beside: tuple[float, int], dense: bool = True) -> list[str]:
    """What is said where max_running is lowered at 10 s and set back at 20 s, and runs begin at instants beside so many, themselves among them."""
    steady = [(10.5 + each / 10, FEWER) for each in range(95)] + [(20.4, 5)] if dense else []
    runs = sorted(limited.LimitedRun(round(at_s * _US), count) for at_s, count in [*steady, *beside])
    found: list[str] = judge_running(runs, 10 * _US, 20 * _US)["failures"]
    return found


def test_a_lower_number_of_runs_holds_from_a_second_after_it_was_set() -> None:
    assert running((9.9, 5), (10.9, 5)) == [], "what was on its way may begin within the second"
    (late,) = running((11.1, FEWER + 1))
    assert f"beside {FEWER} others" in late
    (late,) = running((13.9, 5))
    assert "one began beside 4 others" in late


def test_a_number_of_runs_that_is_set_back_is_reached_again_within_a_second() -> None:
    (late,) = running((12.0, 2), (20.5, 4), (21.2, 5), dense=False)
    assert "5 ran again after 1.2 s" in late
    (never,) = running((12.0, 2), (19.9, 5), (20.5, 4), dense=False)
    assert "5 ran again after never" in never
    (none,) = running((20.5, 5), dense=False)
    assert "none began" in none


async def test_runs_at_once_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = limited.made(tmp_path / "record")
    monkeypatch.setenv(limited.FOLDER, str(record))

    async def one(number: int) -> None:
        await limited.few.fn(cast("Any", SimpleNamespace(task_id=f"0-{number}", fence=1)), 0.0)

    await asyncio.gather(*(one(number) for number in range(3)))
    dead = os.open(record / "running" / "0-dead.1", os.O_RDWR | os.O_CREAT)
    os.close(dead)
    await one(4)
    assert [each.beside for each in limited.read(record, "few")] == [1, 2, 3, 1]
