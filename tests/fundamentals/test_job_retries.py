"""A job's failure policy: when a tick that failed is tried again. Dapr's own cases (tests/schedule), through the whole pipeline."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import atf
from atf.schedule.instants import parse_instant
from atf.schedule.refusal import GivenText
from atf.testing import Harness

app = atf.App("retries")
outcomes: list[bool] = []
attempts: list[int] = []
clock: list[Harness] = []
CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "schedule" / "schedule_grammar.json").read_text(encoding="utf-8")
)


@app.task
def tried() -> None:
    attempts.append(us(clock[0].now.isoformat().replace("+00:00", "Z")))
    if not outcomes[len(attempts) - 1]:
        raise OSError("no")


def us(text: str) -> int:
    return parse_instant(GivenText("test", text))


def outcomes_of(told: str) -> list[bool]:
    """Whether each attempt succeeds, from words such as "FAILED x4,SUCCESS" or "all FAILED"."""
    found = []
    for each in told.removeprefix("all ").split(","):
        word, _, times = each.partition(" x")
        found += [word == "SUCCESS"] * int(times or (99 if told.startswith("all") else 1))
    return found


@pytest.mark.parametrize(
    "case", [each for each in CASES if each["kind"] == "failure_policy"], ids=lambda case: case["id"]
)
def test_a_case_of_dapr_s(case: dict[str, Any], h: Harness) -> None:
    constant, told = case["input"]["failure_policy"]["constant"], case["input"]["job"]
    attempts.clear()
    clock[:] = [h]
    outcomes[:] = outcomes_of(case["input"]["outcomes"])
    began = us(h.now.isoformat().replace("+00:00", "Z"))
    interval = float(constant["interval"].removesuffix("s"))
    h.client.schedule_job(
        "retries/case",
        tried.prepare(),
        told.get("schedule"),
        due_time=told["due_time"],
        repeats=told.get("repeats"),
        max_retries=constant.get("max_retries", 1_000_000),
        retry_interval=interval,
    )
    h.advance(timedelta(seconds=20))
    base = us(case["base_time"])
    assert [each - began for each in attempts] == [us(each) - base for each in case["expect"]]
