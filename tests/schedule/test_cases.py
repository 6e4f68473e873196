"""What Dapr answers: cases from its tests, and some that its own parser was asked."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.schedule.plan import Plan

from .reading import us

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("schedule_grammar.json").read_text(encoding="utf-8"))
TIMING = [each for each in CASES if each["kind"] != "failure_policy"]
"""Those of failures need tasks that run: tests/fundamentals/test_job_retries.py."""


def fields_of(case: dict[str, Any]) -> dict[str, Any]:
    """A case's input as fields of a job."""
    if case["kind"] in {"schedule", "due_time"}:
        return {case["kind"]: case["input"]}
    return {"schedule" if name == "period" else name: value for name, value in case["input"].items()}


@pytest.mark.parametrize("case", TIMING, ids=lambda case: case["id"])
def test_a_case(case: dict[str, Any]) -> None:
    try:
        plan = Plan.parse(base_us=us(case["base_time"]), **fields_of(case))
    except InvalidArgument:
        assert case["expect"] == "error" or case.get("quirk")
        return
    expected = case["expect"]
    assert expected != "error", list(islice(plan, 3))
    found = list(islice(plan, len(expected) + case["complete"]))
    assert found == [us(each) for each in expected]
