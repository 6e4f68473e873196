"""How `atf job` shows jobs."""

from __future__ import annotations

from typing import Any

import pytest

from atf.cli.job_view import job_json, show_job
from atf.rpc import job_pb2 as j, task_pb2 as t

OPTIONS = t.TaskOptions(max_attempts=4, backoff=t.Backoff(base_us=1_500_000))


def job(**spec: Any) -> j.Job:
    return j.Job(spec=j.JobSpec(name="shop/a", task=t.TaskSpec(options=OPTIONS), **spec))


def shown(each: j.Job, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    show_job(each)
    return {line[:10].rstrip(): line[11:] for line in capsys.readouterr().out.splitlines()}


@pytest.mark.parametrize(
    ("spec", "zone"),
    [
        ({"schedule": "@daily"}, "UTC"),
        ({"schedule": "@daily", "tz": "Europe/Paris"}, "Europe/Paris"),
        ({"schedule": "TZ=Asia/Tokyo @daily"}, "Asia/Tokyo"),
        ({"schedule": "@every 1h"}, "UTC"),
        ({"schedule": "of a later release", "tz": "Europe/Paris"}, "Europe/Paris"),
    ],
)
def test_the_zone_is_the_one_that_counts(spec: Any, zone: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert job_json(job(**spec))["tz"] == zone
    assert shown(job(**spec), capsys)["time zone"] == zone


def test_the_policies_are_told_with_what_was_left_open(capsys: pytest.CaptureFixture[str]) -> None:
    told = job_json(job(schedule="@daily"))
    assert (told["misfire"], told["grace_us"], told["overlap"]) == ("latest", 3_600_000_000, "queue")
    assert (told["gap"], told["fold"], told["format"], told["jitter_us"]) == ("skip", "both", None, 0)
    assert (told["max_retries"], told["retry_interval_us"]) == (3, 1_500_000)
    words = shown(job(schedule="@daily"), capsys)["policies"]
    assert words == "misfire latest within 1 h; overlap queue; 3 retries, 1 s 500 ms apart"


def test_what_a_job_was_made_with_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    made = job(
        schedule="@daily", due_time="1h", ttl="P1M", repeats=3, gap="run_after", overlap=j.PASS_OVER, jitter_us=5
    )
    made.spec.task.options.max_attempts = 1
    told = shown(made, capsys)
    assert (told["due time"], told["ttl"], told["repeats"]) == ("1h", "P1M", "3")
    assert told["policies"] == "misfire latest within 1 h; overlap skip; no retries; jitter 5 µs; gap run_after"


def test_a_tick_whose_task_waits_is_not_said_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(j.Job(spec=j.JobSpec(name="shop/a"), last_tick_at_us=1, last_task_id="0-t"), capsys)
    assert told["last tick"].endswith(", not ended: 0-t")
