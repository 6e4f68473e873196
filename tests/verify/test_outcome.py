"""The verdict and the times of recovery, from events made by hand; each kind of breach is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from atf.verify.events import Accepted, Began, Called, Ended, Event, Found, Gone, Keyed, Recorded
from atf.verify.load import PlannedTask
from atf.verify.outcome import FinalRecord, LoadOutcome, Recovery, Strike, judge, looked_for, percentile, recoveries

S = 1_000_000
DONE = FinalRecord("SUCCESS", True, 1, 0, 5)


def plan(key: str, fails: int = 0, delay: float = 0.0) -> PlannedTask:
    return PlannedTask(key, 0.0, delay, fails, False)


def run(key: str, fence: int, start: float, end: float | None, process: str = "7-1", won: bool = True) -> list[Event]:
    found: list[Event] = [Began(round(start * S), key, fence, process, round(start * S))]
    return found + ([] if end is None else [Ended(round(end * S), key, fence, process, won)])


def asked(key: str, at: float = 0.0) -> list[Event]:
    return [Called(round(at * S), key), Accepted(round(at * S) + 1000, key, round(at * S))]


def verdict(events: list[Event], endings: dict[str, FinalRecord], *plans: PlannedTask) -> LoadOutcome:
    found: list[Event] = [
        Found(10**12, key, each.status if (each := endings.get(key)) else "", bool(each and each.finished))
        for key in {each.task_id for each in events if isinstance(each, Called)} | set(endings)
    ]
    recorded: list[Event] = [
        Recorded(10**12 - 1, key, each.result) for key, each in endings.items() if each.status == "SUCCESS"
    ]
    return judge(events + recorded + found, endings, {each.key: each for each in plans})


def test_all_is_kept() -> None:
    outcome = verdict(asked("a") + run("a", 5, 1, 2), {"a": DONE}, plan("a"))
    assert outcome.failures == []
    assert (outcome.attempted, outcome.acknowledged, outcome.succeeded, outcome.spent) == (1, 1, 1, 0)
    assert outcome.figures()["lost"] == 0


@pytest.mark.parametrize(
    ("events", "ending", "breach"),
    [
        (asked("a"), None, "lost"),
        (asked("a"), FinalRecord("ENQUEUED", False, 0, 0, None), "stuck"),
        (asked("a", 3) + run("a", 5, 1, 2), DONE, "early"),
        (asked("a") + run("a", 4, 1, 3, won=False) + run("a", 5, 2, 4, "8-1"), DONE, "concurrent"),
        (asked("a") + run("a", 4, 1, None) + run("a", 5, 2, 4, "8-1"), DONE, "concurrent"),
        (asked("a") + run("a", 5, 1, 2) + run("a", 6, 3, 4, "8-1"), DONE, "stale_result_accepted"),
        (asked("a") + run("a", 5, 1, 2) + run("a", 5, 3, 4, "8-1"), DONE, "token_reused"),
        (run("a", 5, 1, 2), DONE, "unexpected"),
    ],
)
def test_each_breach_is_seen(events: list[Event], ending: FinalRecord | None, breach: str) -> None:
    outcome = verdict(events, {"a": ending} if ending else {}, plan("a"))
    assert {name: count for name, count in outcome.breaches.items() if count} == {breach: 1}
    assert outcome.failures == [f"1 × {breach}"]
    assert len(outcome.findings) == 1


def test_what_the_load_has_none_of_was_not_looked_for() -> None:
    unlimited = {"crowded", "too_many", "out_of_order"}
    plain = asked("a") + run("a", 5, 1, 2)
    assert not unlimited & verdict(plain, {"a": DONE}, plan("a")).figures().keys()
    limited = replace(next(each for each in plain if isinstance(each, Began)), together="l", most=1)
    assert [each.name.lower() for each in looked_for([limited]) if each.name.lower() in unlimited] == ["crowded"]
    for ordered, names in ((False, {"too_many"}), (True, {"too_many", "out_of_order"})):
        found = verdict([*plain, Keyed(0, "a", "k", 1, ordered)], {"a": DONE}, plan("a")).figures()
        assert {name for name in found if name in unlimited} == names
        assert {found[name] for name in names} == {0}


def test_a_killed_process_runs_nothing_any_more() -> None:
    events = [*asked("a"), *run("a", 4, 1, None), Gone(2 * S, "7-1"), *run("a", 5, 2.5, 3, "8-1")]
    outcome = verdict(events, {"a": FinalRecord("SUCCESS", True, 1, 1, 5)}, plan("a"))
    assert outcome.failures == []
    assert (outcome.repeated, outcome.spent, outcome.losses) == (1, 0, 1)


@pytest.mark.parametrize(
    ("ending", "counts"),
    [
        (FinalRecord("SUCCESS", True, 3, 0, 4), (1, 0, 0)),  # of claim 4 no run returned
        (FinalRecord("FATAL_FAILURE", True, 10, 0, None), (1, 0, 8)),
        (FinalRecord("FATAL_FAILURE", True, 2, 2, None), (1, 0, 0)),  # one loss was left
        (FinalRecord("FATAL_FAILURE", True, 2, 3, None), (0, 1, 0)),  # killed three times: a dead letter
        (FinalRecord("FATAL_FAILURE", True, 2, 4, None), (1, 0, 0)),  # it ran on after the third
        (FinalRecord("CANCELLED", True, 2, 3, None), (1, 0, 0)),
        (
            FinalRecord("ENQUEUED", False, 2, 3, None),
            (1, 0, 0),
        ),  # beside "stuck": it waits, and was to be a dead letter
        (FinalRecord("SUCCESS", True, 3, 2, 5), (0, 0, 0)),
        (FinalRecord("SUCCESS", True, 3, 3, 5), (1, 0, 0)),  # it ran on after the third loss
        (FinalRecord("SUCCESS", True, 3, 0, 5), (0, 0, 0)),  # both planned failures
        (FinalRecord("SUCCESS", True, 2, 0, 5), (1, 0, 0)),  # a planned failure counted nothing
        (FinalRecord("SUCCESS", True, 4, 0, 5), (1, 0, 1)),  # an attempt that it knows nothing of
    ],
)
def test_ends_are_held_against_the_plan(ending: FinalRecord, counts: tuple[int, int, int]) -> None:
    runs = [*run("a", 3, 0.1, 0.2, won=False), *run("a", 4, 0.3, 0.4, won=False), *run("a", 5, 1, 2)]
    killed: list[Event] = [Gone(3 * S, f"{pid}-1") for pid in range(3)]
    outcome = verdict(asked("a") + runs + killed, {"a": ending}, plan("a", fails=2))
    assert (outcome.wrong, outcome.dead, outcome.spent) == counts
    assert bool(outcome.failures) == bool(counts[0])


def test_a_dead_letter_is_judged_by_the_tasks_own_limit() -> None:
    own = plan("a")._replace(max_losses=5)
    killed: list[Event] = [Gone(3 * S, f"{pid}-1") for pid in range(5)]
    for losses, counts in ((3, (1, 0)), (4, (1, 0)), (5, (0, 1)), (6, (1, 0))):
        outcome = verdict(
            asked("a") + run("a", 5, 1, 2) + killed, {"a": FinalRecord("FATAL_FAILURE", True, 0, losses, None)}, own
        )
        assert (outcome.wrong, outcome.dead) == counts


@pytest.mark.parametrize(
    ("ending", "begun", "killed", "wrong"),
    [
        (FinalRecord("FATAL_FAILURE", True, 0, 3, None), 1, 0, 1),  # nobody was killed
        (FinalRecord("FATAL_FAILURE", True, 0, 3, None), 0, 3, 0),  # each before it could write anything down
        (FinalRecord("FATAL_FAILURE", True, 0, 3, None), 0, 2, 1),
        (FinalRecord("FATAL_FAILURE", True, 0, 3, None), 3, 0, 0),
        (FinalRecord("SUCCESS", True, 1, 2, 5), 1, 0, 1),
        (FinalRecord("SUCCESS", True, 1, 1, 5), 2, 0, 0),
        (FinalRecord("SUCCESS", True, 1, 2, 5), 2, 0, 1),  # a loss was counted twice
        (FinalRecord("SUCCESS", True, 2, 1, 5), 3, 0, 1),  # a loss was counted as an attempt as well
        (FinalRecord("SUCCESS", True, 2, 0, 5), 2, 0, 1),
    ],
)
def test_each_attempt_and_each_loss_was_a_run(ending: FinalRecord, begun: int, killed: int, wrong: int) -> None:
    runs = [
        each
        for number in range(begun)
        for each in run("a", 6 - begun + number, number + 1, number + 1.5, won=number == begun - 1)
    ]
    before: list[Event] = [Gone(0, "9-1")]
    deaths: list[Event] = [Gone(10 * S, f"{pid}-1") for pid in range(killed)]
    outcome = verdict(before + asked("a", 0.001) + runs + deaths, {"a": ending}, plan("a"))
    assert (outcome.wrong, sum(outcome.breaches.values())) == (wrong, 0)


def recovery(events: list[Event], strike: Strike, *plans: PlannedTask) -> Recovery:
    (found,) = recoveries(events, {each.key: each for each in plans}, [strike])
    return found


def test_recovery_is_timed_from_the_strike() -> None:
    strike = Strike("kill", "executor", 7, 10 * S, cut_off=[("cut", 4)])
    events: list[Event] = [
        *asked("cut", 8),
        *run("cut", 4, 9, None),
        *run("cut", 9, 11.5, 12, "8-1"),
        *asked("waited", 9),
        *run("waited", 5, 13, 14, "8-1"),
        *asked("later", 9),
        *run("later", 6, 20, 21, "8-1"),
        *asked("fresh", 10.2),
        *run("fresh", 7, 10.7, 11, "8-1"),
    ]
    plans = [plan("cut"), plan("waited"), plan("later", delay=5), plan("fresh")]
    found = recovery(events, strike, *plans)
    assert (found.resumed_s, found.rescued_s, found.worst_s) == (0.7, 1.5, 3.0)


def test_what_never_came_back_has_no_time() -> None:
    found = recovery(asked("a", 1), Strike("kill", "hsc", 7, 2 * S), plan("a"))
    assert (found.resumed_s, found.rescued_s, found.worst_s) == (None, None, None)


@pytest.mark.parametrize(("values", "percent", "expected"), [([], 50, 0.0), ([3, 1, 2], 50, 2), ([3, 1, 2], 99, 3)])
def test_percentile(values: list[Any], percent: int, expected: float) -> None:
    assert percentile(values, percent) == expected
