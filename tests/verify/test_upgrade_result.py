"""`make upgrade` is ok where every task took one attempt, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tools.rolling_upgrade import judged, result

GOOD: dict[str, Any] = {
    "accepted": 90,
    "failed": 0,
    "errors": [],
    "first_attempt": 90,
    "losses": 0,
    "exit_codes": [0, 0],
}
TWO = "atf_1_58a07315 (this release's, 3 connections), atf_1_1c0a41a0 (another release's, 1 connections)"


def test_an_upgrade_that_nobody_noticed_is_ok() -> None:
    assert judged(GOOD, TWO) == []
    assert result(GOOD, [])["status"] == "ok"


@pytest.mark.parametrize(
    ("changed", "libraries", "said"),
    [
        ({"accepted": 0, "first_attempt": 0}, TWO, "no task was accepted"),
        ({"failed": 2, "errors": ["a", "b"]}, TWO, "2 tasks failed: a; b"),
        ({"first_attempt": 89}, TWO, "only 89 of 90 tasks took one attempt"),
        ({"losses": 1}, TWO, "1 losses were counted"),
        ({"exit_codes": [0, 75]}, TWO, "roles ended with [0, 75]"),
        ({}, "atf_1_58a07315", "not two releases have used the store: atf_1_58a07315"),
    ],
)
def test_what_somebody_noticed_fails(changed: dict[str, Any], libraries: str, said: str) -> None:
    failures = judged({**GOOD, **changed}, libraries)
    assert failures == [said]
    assert result(GOOD, failures)["status"] == "failed"
