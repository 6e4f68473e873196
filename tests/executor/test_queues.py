"""Whose turn it is among the workers of a kind."""

from __future__ import annotations

from collections import deque

from atf.executor.held import HeldTask
from atf.executor.queues import line_up
from tests.executor.world import claim


def tasks(*names: str) -> list[HeldTask]:
    return [HeldTask(claim(f"0-{name}", f"l/{name[0]}", b"{}"), 0, 0) for name in names]


def test_a_lambda_of_which_nothing_waits_goes_before_those_of_which_much_does() -> None:
    waiting: deque[HeldTask] = deque()
    line_up(waiting, tasks("a1", "a2", "b1"))
    line_up(waiting, tasks("a3", "c1", "a4", "c2", "b2"))
    line_up(waiting, tasks("c3"))
    assert [each.task_id for each in waiting] == [
        f"0-{name}" for name in ("c1", "c2", "a1", "a2", "b1", "a3", "a4", "b2", "c3")
    ]
