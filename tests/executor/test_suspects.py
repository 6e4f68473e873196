"""Suspects start apart, wait for a bounded time, and hold back nobody else."""

from __future__ import annotations

import pytest

from atf.executor.held import HeldTask
from atf.executor.outcome import Returned
from atf.executor.suspects import MAX_SUSPECTS, SUSPECT_S, Suspects
from tests.executor.world import job


class Turnstile:
    """A gate before endless workers: what it lets through starts at once, and runs on unless the test ends it."""

    def __init__(self) -> None:
        self.gate = Suspects()
        self.held: dict[str, HeldTask] = {}
        self.now = 1000.0
        self.starts: dict[str, float] = {}
        """Seconds after the beginning, by task id."""
        self.returned: dict[str, float] = {}

    def arrive(self, count: int, kind: str, *, losses: int = 0, alone: bool = False) -> list[str]:
        tasks = [HeldTask(job(f"0-{kind}{n}", losses=losses, alone=alone), 0, self.now) for n in range(count)]
        self.held |= {task.task_id: task for task in tasks}
        self.gate.admit(tasks)
        self.look()
        return [task.task_id for task in tasks]

    def look(self) -> None:
        for task in self.gate.overdue(self.now):
            del self.held[task.task_id]
            self.returned[task.task_id] = self.now - 1000
        for task in self.gate.release(self.now, self.held):
            task.started, task.started_at = True, self.now
            self.starts[task.task_id] = self.now - 1000

    def wait(self, seconds: float) -> None:
        """Passes the time as the executor does: it looks when the gate says."""
        until = self.now + seconds
        while (left := self.gate.next_in(self.now)) is not None and self.now + left <= until:
            self.now += max(0.001, left)
            self.look()
        self.now = until

    def record(self, task_id: str) -> None:
        """Its end is recorded."""
        self.held.pop(task_id).outcome = Returned(b"null", 0)
        self.look()


@pytest.fixture
def turnstile() -> Turnstile:
    return Turnstile()


def test_few_suspects_start_fifty_milliseconds_apart(turnstile: Turnstile) -> None:
    suspects = turnstile.arrive(20, "s", losses=1)
    turnstile.wait(0.95)
    assert [turnstile.starts[each] for each in suspects] == pytest.approx([SUSPECT_S * n for n in range(20)], abs=1e-3)


def test_what_has_waited_for_its_turn_for_a_second_is_handed_back(turnstile: Turnstile) -> None:
    suspects = turnstile.arrive(100, "s", losses=1)
    turnstile.wait(0.5)
    (late,) = turnstile.arrive(1, "late", losses=1)
    turnstile.wait(0.6)
    started = list(turnstile.starts)
    assert 19 <= len(started[:-1]) <= 21
    assert started == [*suspects[: len(started) - 1], late], "in their order, and who came later may wait longer"
    assert list(turnstile.returned) == suspects[len(started) - 1 :], "they may find a free executor elsewhere"
    assert [*turnstile.returned.values()] == pytest.approx([1.0] * len(turnstile.returned), abs=2e-3)


def test_however_many_suspects_wait_ordinary_tasks_are_wanted_and_pass(turnstile: Turnstile) -> None:
    turnstile.arrive(100, "s", losses=1)
    assert not turnstile.gate.crowded(turnstile.held)
    ordinary = turnstile.arrive(3, "o")
    assert [turnstile.starts[each] for each in ordinary] == [0, 0, 0]
    assert len(turnstile.starts) == 3 + 1


def test_of_too_many_suspects_the_first_pass_at_once(turnstile: Turnstile) -> None:
    suspects = turnstile.arrive(MAX_SUSPECTS + 40, "s", losses=1)
    assert list(turnstile.starts) == suspects[: 40 + 1], "and one that is let through in its turn"


def test_behind_a_task_that_waits_to_run_alone_no_suspect_starts_and_all_go_back(turnstile: Turnstile) -> None:
    (running,) = turnstile.arrive(1, "o")
    (alone,) = turnstile.arrive(1, "a", losses=1, alone=True)
    suspects = turnstile.arrive(MAX_SUSPECTS + 1, "s", losses=1)
    turnstile.wait(0.99)
    assert list(turnstile.starts) == [running]
    assert not turnstile.returned
    turnstile.wait(0.02)
    assert list(turnstile.returned) == suspects
    turnstile.record(running)
    assert list(turnstile.starts) == [running, alone]


def test_a_suspect_that_ended_holds_the_next_until_that_is_recorded(turnstile: Turnstile) -> None:
    first, second, third = turnstile.arrive(3, "s", losses=1)
    turnstile.held[first].outcome = Returned(b"null", 0)
    turnstile.wait(0.9)
    assert list(turnstile.starts) == [first]
    turnstile.record(first)
    assert turnstile.starts[second] == pytest.approx(0.9)
    turnstile.wait(0.2)
    assert turnstile.starts[third] == pytest.approx(0.95)
