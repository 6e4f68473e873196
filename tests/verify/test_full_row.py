"""The row about a full store: its judge finds what was lost of those whom the store refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from atf.task import Status
from proof.chaos.wanting import judge

TICKED = {"failures": [], "ticks": 9}


def asked(attempts: int, status: Status = Status.SUCCESS) -> Any:
    return SimpleNamespace(attempts=attempts, status=status)


def test_who_was_refused_and_has_come_through_is_right() -> None:
    found = judge(TICKED, [1, 2, 2], [asked(1), asked(4)], 2)
    assert found == {"failures": [], "ticks": 9, "first_time_refused": 3}


@pytest.mark.parametrize(
    ("ticked", "firsts", "tasks", "says"),
    [
        ({"failures": ["1 ticks never ran"], "ticks": 9}, [1, 2], [asked(1), asked(4)], "never ran"),
        (TICKED, [1, 2], [asked(2)], "did not succeed"),
        (TICKED, [1, 2], [asked(2), asked(100, Status.FATAL_FAILURE)], "did not succeed"),
        (TICKED, [1, 1], [asked(2), asked(1)], "were not the first"),
        (TICKED, [1, 2], [asked(1), asked(1)], "no first_time was refused"),
    ],
)
def test_what_is_wrong_is_said(ticked: Any, firsts: list[int], tasks: list[Any], says: str) -> None:
    (failure,) = judge(ticked, firsts, tasks, 2)["failures"]
    assert says in failure
