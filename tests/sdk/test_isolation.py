"""What a lambda's code says so that it keeps apart from the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import atf
from atf.rpc import frontend_pb2 as f, task_pb2 as t

app = atf.App("photos")


@app.task(
    owner="web team",
    runbook="https://wiki/thumbnails",
    rate=12.5,
    burst=20,
    max_pending=1_000,
    max_running=3,
    shares={"low": 0.1, 0: 0.5},
    pool="gpu",
    placement="sticky",
    stop_on_fatal=True,
    version=4,
    gate_at_fatal=0.25,
    slo=" 5s 99.0%",
    logs="all",
)
def thumbnail(path: str) -> None: ...


def test_it_is_registered_with_what_it_declares() -> None:
    assert thumbnail.spec() == f.LambdaSpec(
        name="photos/thumbnail",
        options={},
        signature="(path: str) -> None",
        owner="web team",
        runbook="https://wiki/thumbnails",
        rate=12.5,
        burst=20,
        max_pending=1_000,
        max_running=3,
        shares={2: 0.1, 0: 0.5},
        pool="gpu",
        placement=f.STICKY,
        stop_on_fatal=True,
        version=4,
        gate_at_fatal=0.25,
        slo="5s 99%",
        logs=t.LOGS_OF_ALL,
        digest=thumbnail.digest,
    )
    assert thumbnail.options(affinity_key="cat").prepare("a").request.spec.affinity_key == "cat"


@pytest.mark.parametrize(
    "name",
    ["rate", "burst", "max_pending", "max_running", "queue_limit", "enqueue_timeout", "version", "gate_at_fatal"],
)
@pytest.mark.parametrize(
    "bad", [0, -1, "x", True, float("nan"), float("inf"), 10**400, []], ids=lambda bad: str(bad)[:5]
)
def test_numbers_that_mean_nothing_are_refused_by_name(name: str, bad: Any) -> None:
    with pytest.raises(atf.InvalidArgument, match=f"lambda photos/bad: {name} "):
        app.task(**{"name": "bad", "rate": 1, name: bad})(lambda: None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"burst": 5}, "burst 5: of no use without a rate; leave the burst out, too"),
        (
            {"rate": 100, "burst": 10},
            "burst 10: less than the rate, 100, so that 10 a second .*; give 100 or more, or leave it out",
        ),
        ({"pool": "default"}, "pool 'default': that is what the hosts without a pool are called; leave the pool out"),
        (
            {"version": 0},
            "version 0: give a whole number from 1 to 9007199254740991, or leave it out where nobody asks for versions",
        ),
        (
            {"gate_at_fatal": 0},
            "gate_at_fatal 0: give a number of more than 0 and at most 1, or leave it out: then failures",
        ),
        ({"rate": 1, "burst": 0}, "burst 0: .* or leave it out for a quarter more than the rate"),
        ({"max_running": 0}, "max_running 0: .*, or leave it out for no bound"),
        ({"rate": 100_001}, "rate 100001"),
        (
            {"shares": {"low": 0}},
            "shares 0: give a number of more than 0 and at most 1, or leave this priority out: it has a twentieth",
        ),
        ({"shares": {"low": 0.6, "high": 0.5}}, r"shares: they add up to 1\.1"),
        ({"shares": {"lowest": 0.5}}, "priority 'lowest': use 0"),
        ({"shares": 0.5}, "shares 0.5: give them by priority"),
        ({"logs": "some"}, "logs 'some': use failed .of runs that fail, the default., all .of every run. or none"),
        ({"logs": True}, "logs True: use failed"),
        ({"placement": "near"}, "placement 'near': use any, sticky, spread"),
        ({"pool": "a b"}, "pool 'a b': use 1 to 64"),
        ({"owner": 7}, "owner 7: give a text"),
        ({"owner": "\ud800"}, "owner"),
        ({"owner": "x" * 201}, "owner: 201 characters, at most 200"),
        ({"runbook": "a\nb"}, "runbook"),
        (
            {"queue_limit": 1_000_001},
            "queue_limit 1000001: give a whole number from 1 to 1000000, or leave it out for the default, 100000",
        ),
        (
            {"enqueue_timeout": 0.05},
            r"enqueue_timeout 0\.05: give seconds, a timedelta or text such as 30s, from 0\.1 s to a day, or leave it out for the",
        ),
        ({"enqueue_timeout": timedelta(days=2)}, "enqueue_timeout .*from 0.1 s to a day"),
        ({"stop_on_fatal": "no"}, "stop_on_fatal 'no': give True or False"),
    ],
    ids=str,
)
def test_other_nonsense_is_refused_with_a_sentence(options: dict[str, Any], says: str) -> None:
    with pytest.raises(atf.InvalidArgument, match=f"lambda photos/bad: {says}"):
        app.task(name="bad", **options)(lambda: None)


def test_none_is_as_if_it_were_left_out() -> None:
    options: dict[str, Any] = {"name": "open", "rate": None, "pool": None, "shares": {}}
    made = app.task(**options)(lambda: None)
    assert made.spec() == f.LambdaSpec(name="photos/open", options={}, signature="()", digest=made.digest)
