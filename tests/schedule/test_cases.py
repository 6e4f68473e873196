"""What Dapr answers: cases from its tests, and some that its own parser was asked."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.schedule.plan import Plan
from atf.schedule.retries import FailurePolicy

from .reading import us

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("schedule_grammar.json").read_text(encoding="utf-8"))


def fields_of(case: dict[str, Any]) -> dict[str, Any]:
    """A case's input as fields of a job."""
    if case["kind"] in {"schedule", "due_time"}:
        return {case["kind"]: case["input"]}
    return {"schedule" if name == "period" else name: value for name, value in case["input"].items()}


def outcomes_of(told: str) -> list[bool]:
    """Whether each attempt succeeds, from words such as "FAILED x4,SUCCESS" or "all FAILED"."""
    found = []
    for each in told.removeprefix("all ").split(","):
        word, _, times = each.partition(" x")
        found += [word == "SUCCESS"] * int(times or (99 if told.startswith("all") else 1))
    return found


def attempts(plan: Plan, policy: FailurePolicy, outcomes: list[bool]) -> list[int]:
    """The instants for which a job's attempts are due."""
    due: list[int] = []
    for tick in plan:
        attempt: int | None = tick
        failures = 0
        while attempt is not None:
            due.append(attempt)
            if outcomes[len(due) - 1]:
                break
            failures += 1
            attempt = policy.retry_us(attempt, failures)
    return due


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case(case: dict[str, Any]) -> None:
    if case["kind"] == "failure_policy":
        _check_failures(case)
        return
    try:
        plan = Plan.parse(base_us=us(case["base_time"]), **fields_of(case))
    except InvalidArgument:
        assert case["expect"] == "error" or case.get("quirk")
        return
    expected = case["expect"]
    assert expected != "error", list(islice(plan, 3))
    found = list(islice(plan, len(expected) + case["complete"]))
    assert found == [us(each) for each in expected]


def _check_failures(case: dict[str, Any]) -> None:
    constant = case["input"]["failure_policy"]["constant"]
    policy = FailurePolicy.parse(constant["interval"], constant.get("max_retries"))
    plan = Plan.parse(base_us=us(case["base_time"]), **case["input"]["job"])
    found = attempts(plan, policy, outcomes_of(case["input"]["outcomes"]))
    assert found == [us(each) for each in case["expect"]]
