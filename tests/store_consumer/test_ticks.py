"""What comes of a tick: late, missed, in the way of the one before, and the last one."""

from __future__ import annotations

from typing import Any

import pytest

from atf.rpc import job_pb2 as j, task_pb2 as t
from atf.store.values.jobs import DueJob
from atf.store_consumer.ticks import LATE_US, MOST_PASSED_OVER, cancels, tick_of
from atf.task import US

T0 = 1_800_000_000 * US
MINUTE_US = 60 * US
HOUR_US = 3_600 * US


def due(*, at_us: int = T0 + MINUTE_US, ticks: int = 0, running: str = "", ended_us: int = 0, **fields: Any) -> DueJob:
    """A job of one tick a minute since T0, unless told otherwise."""
    fields.setdefault("schedule", "@every 1m")
    task = t.TaskSpec(payload=b"{}", labels={"team": "web"}, options=t.TaskOptions(priority=2, max_attempts=4))
    setattr(task, "lambda", "shop/mail")
    spec = j.JobSpec(name="shop/nightly", task=task, retention_us=7 * US, base_at_us=T0, **fields)
    return DueJob("shop/nightly", 3, at_us, ticks, running, ended_us, T0, spec.SerializeToString())


def test_a_tick_in_time_becomes_a_task_that_knows_it() -> None:
    made = tick_of(due(ticks=4), 0, T0 + MINUTE_US + 1000)
    assert (made.due_us, made.tick_us, made.next_us, made.passed_over) == (T0 + MINUTE_US,) * 2 + (
        T0 + 2 * MINUTE_US,
        0,
    )
    assert made.task is not None
    assert (made.task.at_us, made.task.lambda_name, made.task.priority) == (T0 + MINUTE_US, "shop/mail", 2)
    assert made.task.labels == "team=web"
    tick = t.TaskSpec.FromString(made.task.spec).tick
    assert (tick.job, tick.number, tick.at_us) == ("shop/nightly", 5, T0 + MINUTE_US)


def test_whoever_makes_a_tick_s_task_gives_it_the_same_id_and_another_tick_s_has_another() -> None:
    one, same = (tick_of(due(), 0, T0 + MINUTE_US + late).task for late in (0, US))
    other = tick_of(due(at_us=T0 + 2 * MINUTE_US), 0, T0 + 2 * MINUTE_US).task
    again = tick_of(due()._replace(generation=4), 0, T0 + MINUTE_US).task
    assert one is not None
    assert same is not None
    assert other is not None
    assert again is not None
    assert one.id == same.id
    assert len({one.id, other.id, again.id}) == 3
    assert len(one.id) <= 64


def test_the_last_tick_ends_the_job() -> None:
    made = tick_of(due(repeats=2, ticks=1), 0, T0 + MINUTE_US)
    assert made.task is not None
    assert (made.next_us, made.retention_us) == (None, 7 * US)


@pytest.mark.parametrize(
    ("misfire", "tick_minute", "passed", "next_minute"),
    [(j.ALL, 1, 0, 2), (j.LATEST, 10, 9, 11), (j.MISFIRE_UNSPECIFIED, 10, 9, 11)],
)
def test_after_ten_minutes_of_downtime(misfire: Any, tick_minute: int, passed: int, next_minute: int) -> None:
    made = tick_of(due(ticks=1, misfire=misfire), 0, T0 + 10 * MINUTE_US + 10 * US)
    assert (made.tick_us, made.passed_over) == (T0 + tick_minute * MINUTE_US, passed)
    assert made.next_us == T0 + next_minute * MINUTE_US
    assert ("misfire" in made.why) == bool(passed)


def test_missed_ticks_are_skipped_up_to_the_next_one() -> None:
    made = tick_of(due(ticks=1, misfire=j.SKIP), 0, T0 + 10 * MINUTE_US + 10 * US)
    assert (made.task, made.passed_over, made.next_us) == (None, 10, T0 + 11 * MINUTE_US)


def test_a_tick_that_is_only_late_is_not_missed() -> None:
    made = tick_of(due(ticks=1, misfire=j.SKIP), 0, T0 + MINUTE_US + LATE_US)
    assert (made.tick_us, made.passed_over) == (T0 + MINUTE_US, 0)


@pytest.mark.parametrize(("misfire", "passed"), [(j.ALL, 10), (j.LATEST, 10)])
def test_what_is_later_than_the_grace_is_passed_over(misfire: Any, passed: int) -> None:
    late = due(ticks=1, schedule="@every 10m", at_us=T0 + HOUR_US // 6, misfire=misfire, grace_us=MINUTE_US)
    made = tick_of(late, 0, T0 + 100 * MINUTE_US + 90 * US)
    assert (made.task, made.passed_over, made.next_us) == (None, passed, T0 + 110 * MINUTE_US)


def test_of_ticks_that_waited_for_the_one_before_the_newest_comes() -> None:
    made = tick_of(due(ticks=1, ended_us=T0 + 10 * MINUTE_US), 0, T0 + 10 * MINUTE_US + US)
    assert (made.tick_us, made.passed_over) == (T0 + 10 * MINUTE_US, 9)


@pytest.mark.parametrize(("overlap", "comes"), [(j.QUEUE, True), (j.ALLOW, False)])
def test_the_time_for_which_the_one_before_ran_is_none_of_the_grace(overlap: Any, comes: bool) -> None:
    waited = due(ticks=1, schedule="@every 24h", at_us=T0 + 24 * HOUR_US, ended_us=T0 + 30 * HOUR_US, overlap=overlap)
    made = tick_of(waited, 0, T0 + 30 * HOUR_US + US)
    assert (made.task is not None) is comes


def test_after_a_late_tick_has_ended_the_others_that_were_missed_are_still_missed() -> None:
    """Each that ran would make the next one look as if it had only waited."""
    late = due(ticks=2, at_us=T0 + 2 * MINUTE_US, ended_us=T0 + 24 * HOUR_US)
    made = tick_of(late, 0, T0 + 24 * HOUR_US)
    assert (made.tick_us, made.passed_over) != (T0 + 2 * MINUTE_US, 0)
    assert made.passed_over == MOST_PASSED_OVER


def test_all_ticks_in_the_way_of_one_that_runs_are_passed_over_at_once() -> None:
    made = tick_of(due(ticks=1, running="0-x", overlap=j.PASS_OVER), 0, T0 + 10 * MINUTE_US)
    assert (made.task, made.passed_over, made.next_us) == (None, 10, T0 + 11 * MINUTE_US)


GRACE = "grace: it was missed by more than its grace, 1 h"
LATEST = "misfire: it was missed, and the newest of those that were missed comes in its place"
SKIPPED = "misfire: it was missed, and this job makes no task of a missed tick"
OVERLAP = "overlap: the tick before still ran"


@pytest.mark.parametrize(
    ("why", "minutes", "fields"),
    [
        (LATEST, 10, {"misfire": j.LATEST}),
        (SKIPPED, 10, {"misfire": j.SKIP}),
        (GRACE, 90, {"misfire": j.ALL, "schedule": "@every 1h", "grace_us": HOUR_US}),
        (GRACE, 90, {"misfire": j.LATEST, "schedule": "@every 1h"}),
        (OVERLAP, 10, {"overlap": j.PASS_OVER, "running": "0-x"}),
        (OVERLAP, 10, {"overlap": j.QUEUE, "ended_us": T0 + 10 * MINUTE_US}),
        (OVERLAP, 10, {"misfire": j.SKIP, "ended_us": T0 + 10 * MINUTE_US}),
        (LATEST, 10, {"ended_us": T0 + 8 * MINUTE_US}),
        ("", 1, {}),
    ],
)
def test_a_tick_that_is_passed_over_says_why(why: str, minutes: int, fields: Any) -> None:
    made = tick_of(due(ticks=1, **fields), 0, T0 + minutes * MINUTE_US + US)
    assert made.why == why
    assert bool(made.passed_over) is bool(why)


def test_a_job_made_for_the_past_ticks_at_once() -> None:
    once = due(due_time="2020-01-01T00:00:00Z", at_us=1_577_836_800 * US)
    once = once._replace(spec=_without_schedule(once.spec))
    made = tick_of(once, 0, T0 + US)
    assert made.task is not None
    assert (made.passed_over, made.next_us) == (0, None)


def test_a_one_shot_missed_by_more_than_its_grace_ends_without_a_task() -> None:
    once = due(due_time="1m", ticks=0)
    once = once._replace(spec=_without_schedule(once.spec))
    made = tick_of(once, 0, T0 + 2 * HOUR_US)
    assert (made.task, made.passed_over, made.next_us) == (None, 1, None)


def test_a_long_downtime_is_gone_through_in_pieces() -> None:
    made = tick_of(due(ticks=1, at_us=T0 + US, schedule="@every 1s"), 0, T0 + 24 * HOUR_US)
    assert (made.task, made.passed_over) == (None, MOST_PASSED_OVER)
    assert made.next_us == T0 + (1 + MOST_PASSED_OVER) * US


def test_a_tick_in_the_way_of_the_one_before() -> None:
    passed = tick_of(due(ticks=1, running="0-x", overlap=j.PASS_OVER), 0, T0 + MINUTE_US)
    assert (passed.task, passed.passed_over, passed.next_us) == (None, 1, T0 + 2 * MINUTE_US)
    assert "overlap" in passed.why
    assert tick_of(due(ticks=1, running="0-x", overlap=j.ALLOW), 0, T0 + MINUTE_US).task is not None
    assert cancels(due(ticks=1, running="0-x", overlap=j.CANCEL_RUNNING))
    assert not cancels(due(ticks=1, overlap=j.CANCEL_RUNNING))


def test_jitter_delays_a_tick_s_task_by_an_amount_that_is_its_own() -> None:
    delays = []
    for minute in range(1, 21):
        at_us = T0 + minute * MINUTE_US
        task = tick_of(due(at_us=at_us, jitter_us=10 * US), 0, at_us).task
        assert task is not None
        assert task.at_us is not None
        delays.append(task.at_us - at_us)
    assert all(0 <= each < 10 * US for each in delays)
    assert len(set(delays)) == 20


def _without_schedule(spec: bytes) -> bytes:
    made = j.JobSpec.FromString(spec)
    made.ClearField("schedule")
    return made.SerializeToString()
