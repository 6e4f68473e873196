"""Jobs: a schedule makes tasks, each tick one, and what is in its way is dealt with as the job says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import atf
from atf.sdk.option_kinds import JobOptions
from atf.testing import Harness

app = atf.App("jobs")
ticks: list[tuple[str, int, datetime]] = []


@app.task
def report(ctx: atf.Context, of: str = "all") -> str:
    ctx.log.debug("report of %s", of)
    ticks.append((ctx.job, ctx.tick, ctx.scheduled_at))
    return of


@app.task
def breaks() -> None:
    ticks.append(("breaks", 0, at(0)))
    raise OSError("no")


@pytest.fixture(autouse=True)
def _no_ticks() -> None:
    ticks.clear()


def at(hour: int, minute: int = 0, day: int = 1) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def test_a_job_runs_its_task_at_each_instant_of_its_schedule(h: Harness) -> None:
    made = h.client.schedule_job("jobs/hourly", report.prepare("sales"), "0 30 * * * *")
    assert made.next_tick_at == at(0, 30)
    h.advance(timedelta(hours=2, minutes=29, seconds=59))
    h.advance(1)
    assert ticks == [("jobs/hourly", number + 1, at(number, 30)) for number in range(3)]
    job = h.client.get_job("jobs/hourly")
    assert (job.ticks, job.last_tick_at, job.next_tick_at) == (3, at(2, 30), at(3, 30))
    assert job.last_status is atf.Status.SUCCESS


def test_a_schedule_is_read_by_the_clocks_of_a_zone(h: Harness) -> None:
    h.client.schedule_job("jobs/nine", report.prepare(), "0 0 9 * * *", tz="Asia/Tokyo")
    h.advance(timedelta(hours=23, minutes=59))
    assert ticks == []
    h.advance(60)
    assert [tick[2] for tick in ticks] == [at(0, day=2)]


def test_a_tick_in_a_night_when_clocks_are_changed(h: Harness) -> None:
    in_spring, in_autumn = "2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"
    for gap in ("skip", "run_after"):
        h.client.schedule_job(
            f"jobs/{gap}", report.prepare(), "0 30 2 * * *", due_time=in_spring, ttl="PT20H", tz="Europe/Paris", gap=gap
        )
    for fold in ("first", "second", "both"):
        h.client.schedule_job(
            f"jobs/{fold}",
            report.prepare(),
            "0 30 2 * * *",
            due_time=in_autumn,
            ttl="PT20H",
            tz="Europe/Paris",
            fold=fold,
        )
    h.advance(timedelta(days=365))
    after_the_gap = at(1, day=29).replace(month=3)
    first, second = (at(hour, 30, day=25).replace(month=10) for hour in (0, 1))
    assert {name: [tick[2] for tick in ticks if tick[0] == name][1:] for name, *_ in ticks} == {
        "jobs/skip": [],
        "jobs/run_after": [after_the_gap],
        "jobs/first": [first],
        "jobs/second": [second],
        "jobs/both": [first, second],
    }


def test_a_job_ends_after_so_many_repeats_and_leaves_the_list(h: Harness) -> None:
    h.client.schedule_job("jobs/thrice", report.prepare(), "@every 10s", repeats=3)
    h.advance(60)
    assert len(ticks) == 3
    assert h.client.list_jobs() == []
    assert h.client.get_job("jobs/thrice").next_tick_at is None


def test_a_job_without_a_schedule_runs_once(h: Harness) -> None:
    h.client.schedule_job("jobs/once", report.prepare(), due_time=timedelta(minutes=5))
    h.advance(timedelta(hours=1))
    assert [tick[2] for tick in ticks] == [at(0, 5)]


def test_a_tick_that_fails_is_tried_again_and_counts_once(h: Harness) -> None:
    h.client.schedule_job("jobs/breaks", breaks.prepare(), "@every 1h", repeats=2, max_retries=2, retry_interval=10)
    h.advance(timedelta(hours=1, seconds=25))
    assert len(ticks) == 3
    assert h.client.get_job("jobs/breaks").last_status is atf.Status.FATAL_FAILURE
    h.advance(timedelta(hours=2))
    assert len(ticks) == 6


def test_a_paused_job_does_not_tick_and_then_makes_up_for_the_newest(h: Harness) -> None:
    h.client.schedule_job("jobs/hourly", report.prepare(), "@hourly")
    h.client.pause_job("jobs/hourly")
    h.advance(timedelta(hours=5, minutes=30))
    assert ticks == []
    h.client.resume_job("jobs/hourly")
    h.advance(1)
    assert [tick[2] for tick in ticks] == [at(5)]
    assert h.client.get_job("jobs/hourly").skipped == 4


def test_a_job_is_run_by_hand_beside_its_ticks(h: Harness) -> None:
    h.client.schedule_job("jobs/hourly", report.prepare("now"), "@hourly")
    assert h.result(h.client.run_job_now("jobs/hourly")) == "now"
    assert ticks == [("jobs/hourly", 0, at(0))]


def test_a_name_is_taken_until_it_is_overwritten_or_deleted(h: Harness) -> None:
    h.client.schedule_job("jobs/x", report.prepare(), "@hourly")
    with pytest.raises(atf.AlreadyExists):
        h.client.schedule_job("jobs/x", report.prepare(), "@daily")
    h.client.schedule_job("jobs/x", report.prepare(), "@daily", overwrite=True)
    assert h.client.delete_job("jobs/x")
    assert not h.client.delete_job("jobs/x")
    h.advance(timedelta(days=2))
    assert ticks == []


def test_jobs_are_deleted_by_the_beginning_of_their_names(h: Harness) -> None:
    for name in ("jobs/a1", "jobs/a2", "jobs/b"):
        h.client.schedule_job(name, report.prepare(), "@hourly")
    assert h.client.delete_jobs("jobs/a") == 2
    assert [job.name for job in h.client.list_jobs("jobs/")] == ["jobs/b"]


def test_a_malformed_schedule_is_refused_with_the_place(h: Harness) -> None:
    with pytest.raises(atf.InvalidArgument, match=r"schedule(.|\n)*\^"):
        h.client.schedule_job("jobs/x", report.prepare(), "0 61 * * * *")


def test_a_schedule_is_previewed(h: Harness) -> None:
    found = h.client.preview_schedule("0 0 9 * * MON-FRI", count=3, tz="Europe/Paris")
    assert found == [at(8), at(8, day=2), at(8, day=5)]


def test_a_deleted_job_runs_no_tick_that_waits_for_its_jitter(h: Harness) -> None:
    h.client.schedule_job("jobs/spread", report.prepare(), "@every 10s", repeats=1, jitter=timedelta(hours=9))
    h.advance(11)
    assert h.client.get_job("jobs/spread").next_tick_at is None, "its only tick is a task, due hours later"
    assert h.client.delete_job("jobs/spread")
    h.advance(timedelta(hours=10))
    assert ticks == []


def test_a_deleted_job_s_tick_is_not_tried_again(h: Harness) -> None:
    h.client.schedule_job("jobs/breaks", breaks.prepare(), "@every 1h", max_retries=20, retry_interval=10)
    h.advance(timedelta(hours=1, seconds=15))
    assert len(ticks) == 2
    assert h.client.delete_job("jobs/breaks")
    h.advance(timedelta(hours=2))
    assert len(ticks) == 2


def test_a_tick_that_waits_is_kept_while_its_job_is_paused_though_that_has_ended(h: Harness) -> None:
    h.client.schedule_job("jobs/spread", report.prepare(), "@every 10s", repeats=1, jitter=timedelta(hours=1))
    h.advance(11)
    assert h.client.pause_job("jobs/spread").paused
    h.advance(timedelta(hours=5))
    assert ticks == []
    explained = h.client.explain(h.client.get_job("jobs/spread").last_task_id)
    assert (explained.reason, "atf job resume jobs/spread" in explained.sentence) == ("job_paused", True)
    h.client.resume_job("jobs/spread")
    h.advance(1)
    assert [tick[2] for tick in ticks] == [at(0).replace(second=10)]


def test_a_job_that_is_registered_more_often_than_it_ticks_ticks_all_the_same(h: Harness) -> None:
    for deploy in range(12):
        options = JobOptions(grace=3600 + deploy, max_retries=deploy)
        h.client.schedule_job(
            "jobs/often", report.prepare(f"release {deploy}"), "@every 14s", overwrite=True, **options
        )
        h.advance(5)
    assert [(number, tick[2]) for number, tick in enumerate(ticks, 1)] == [
        (number, at(0) + timedelta(seconds=14 * number)) for number in range(1, 5)
    ]
    assert [tick[1] for tick in ticks] == [1, 2, 3, 4]
