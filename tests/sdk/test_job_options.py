from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t
from atf.sdk.job import job_spec


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"repeats": 1 << 63}, "repeats 9223372036854775808: give a whole number, 1 to 4294967295"),
        ({"repeats": "3"}, "repeats '3': give a whole number, 1 to 4294967295"),
        ({"repeats": 1.5}, "repeats 1.5: give a whole number"),
        ({"max_retries": 1 << 31}, "max_retries 2147483648: give a whole number, 0 to 1000000"),
        ({"tz": 5}, "tz 5: give a text"),
        ({"gap": b"skip"}, "gap b'skip': give a text"),
        ({"due_time": "\ud800"}, r"due_time '\ud800': give a text"),
        ({"due_time": 5}, "due_time 5: give a datetime with a time zone"),
        ({"ttl": datetime(2030, 1, 1)}, "ttl 2030-01-01 00:00:00: give a datetime with a time zone"),  # noqa: DTZ001
        ({"ttl": timedelta(seconds=-1)}, "ttl datetime.timedelta(days=-1, seconds=86399): give"),
        ({"misfire": "none"}, "misfire 'none': use all, latest, skip"),
        ({"overlap": []}, "overlap []: use allow, skip, queue, cancel_running"),
        ({"grace": "1x"}, "grace '1x': give seconds, a timedelta, or text such as"),
    ],
)
def test_what_a_message_can_not_hold_is_refused_with_its_name(given: Any, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        job_spec("shop/a", t.TaskSpec(), "@daily", given)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(("name", "schedule", "says"), [(5, "@daily", "name 5: "), ("shop/a", 5, "schedule 5: ")])
def test_a_name_and_a_schedule_are_texts(name: Any, schedule: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{says}give a text"):
        job_spec(name, t.TaskSpec(), schedule, {})


def test_whether_a_number_makes_sense_is_for_the_frontend_to_say() -> None:
    spec = job_spec("shop/a", t.TaskSpec(), "@daily", {"repeats": -1, "max_retries": -1})
    assert (spec.repeats, spec.failure_policy.max_retries) == (-1, -1)
