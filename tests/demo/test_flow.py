"""The demo's plan, and what it shows."""

from __future__ import annotations

from atf.demo.files import KnownFile
from atf.demo.flow import plan
from atf.demo.record import SuccessfulEnd
from atf.demo.view import DemoProgress, rates

FILES = [KnownFile(str(number), 1, 1, "h") for number in range(7)]


def test_files_are_taken_over_again() -> None:
    planned = list(plan(FILES, 20))
    assert [int(each.file.path) for each in planned] == [number % 7 for number in range(20)]


def test_one_in_fifty_fails_first_and_a_few_are_delayed() -> None:
    planned = list(plan(FILES, 20_000))
    assert sum(each.fails_first for each in planned) == 400
    delays = [each.delay for each in planned if each.delay]
    assert len(delays) == 100
    assert (min(delays), max(delays)) == (1, 5)
    assert planned == list(plan(FILES, 20_000))


def test_every_plan_has_a_task_for_the_kill_to_find() -> None:
    for tasks in (1, 2, 3, 10, 50, 999, 20_000):
        assert any(each.lingers for each in plan(FILES, tasks)), tasks


def test_rates_are_those_of_the_last_two_seconds() -> None:
    second = 1_000_000_000
    ends = [SuccessfulEnd(second * at, str(at), 1 << 20) for at in range(10)]
    assert rates(ends, 10 * second) == (1.0, 1.0)
    assert rates(ends, 100 * second) == (0, 0)
    assert rates([], second) == (0, 0)


def test_a_snapshot_says_where_it_stands() -> None:
    snapshot = DemoProgress(total=1_000, scheduled=800, running=5, done=700, tasks_per_s=1_234.4, mib_per_s=5.67)
    assert snapshot.queued == 95
    assert snapshot.line() == "scheduled 800  queued 95  running 5  done 700 of 1,000  1,234 tasks/s  5.7 MiB/s"
