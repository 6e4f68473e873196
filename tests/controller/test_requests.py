"""What a call of NextWork may say, and which executors a controller serves."""

from __future__ import annotations

from typing import Any

import pytest

from atf.controller.requests import check_host, check_request
from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import controller_pb2 as c
from atf.task import US


def request(**fields: Any) -> c.NextWorkRequest:
    said: dict[str, Any] = {
        "executor_id": "e1",
        "nonce": "n1",
        "max_tasks": 1,
        "lambdas": ["shop/mail"],
        "signatures": ["d"],
        "boot_id": "boot",
        "heartbeat_timeout_us": 16 * US,
    }
    return c.NextWorkRequest(**{**said, **fields})


def check(**fields: Any) -> None:
    asked = request(**fields)
    check_request(asked)
    check_host(asked, "boot", "blue", 16 * US)


def test_a_call_that_breaks_a_rule_is_refused_with_the_rule() -> None:
    check()
    for fields, rule in (
        ({"max_tasks": 257}, "max_tasks 257"),
        ({"wait_us": 61 * US}, "wait_us"),
        ({"lambdas": []}, "name at least one"),
        ({"lambdas": ["mail"]}, "namespace/name"),
        ({"lambdas": ["shop/mail", "shop/bill"]}, "1 signatures of 2 lambdas"),
        ({"signatures": ["A B"]}, "signature 'A B'"),
        ({"executor_id": ""}, "executor_id"),
        ({"nonce": ""}, "nonce ''"),
    ):
        with pytest.raises(InvalidArgument, match=rule):
            check(**fields)


def test_an_executor_of_another_host_is_refused() -> None:
    with pytest.raises(FailedPrecondition, match="another host"):
        check(boot_id="another")


def test_an_executor_of_another_pool_is_refused() -> None:
    check(pool="blue")
    with pytest.raises(
        FailedPrecondition, match="the executor belongs to the pool 'gpu', and this controller to 'blue'"
    ):
        check(pool="gpu")


def test_an_executor_that_counts_on_other_leases_is_refused() -> None:
    for seconds in (15, 17):
        with pytest.raises(FailedPrecondition, match=rf"heartbeat_timeout = {seconds} s, and this controller to 16 s"):
            check(heartbeat_timeout_us=seconds * US)
