"""What an executor says of runs that end: one line per failed attempt, and none of what succeeds."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import atf
from atf import log
from atf.config.settings import LogSettings
from atf.testing import Harness

app = atf.App("said")


@app.task(max_attempts=3, backoff=atf.Backoff(1, factor=1, jitter=0), redact=["password"])
def pay(ctx: atf.Context, how: str = "", password: str = "") -> str:
    match how:
        case "fail":
            raise ValueError(f"no card\nfor {password}")
        case "fatal":
            raise atf.Fatal("never")
        case "retry":
            raise atf.Retry("the bank is closed")
        case "back":
            if ctx.run == 1:
                raise atf.HandBack("not now")
        case "late":
            if ctx.attempt == 1:
                raise ValueError("once")
    return "paid"


@pytest.fixture
def lines() -> Iterator[Any]:
    stream = io.StringIO()

    def said(level: str = "info") -> list[dict[str, Any]]:
        found = [json.loads(line) for line in stream.getvalue().splitlines()]
        found = [
            each for each in found if each["event"] not in {"register_lambdas", "audit"}
        ]  # of the process or a person, not of a run
        return [each for each in found if level == "debug" or each["level"] != "debug"]

    def start(level: str) -> Any:
        log.setup(LogSettings(log_level=level, log_format="json"), "executor", stream=stream)
        return said

    before = log.output.logger, log.output.debug
    yield start
    log.output.logger, log.output.debug = before
    assert sys.stderr is not stream


def test_each_failed_attempt_is_a_line_and_the_last_one_an_error(lines: Any) -> None:
    said = lines("info")
    with Harness(app) as h:
        handle = pay.schedule("fail", password="hunter2")
        h.advance(60)
        found = said()
    assert [(each["level"], each["attempt"], each["last"]) for each in found] == [
        ("warning", "1 of 3", False),
        ("warning", "2 of 3", False),
        ("error", "3 of 3", True),
    ]
    for each in found:
        assert (each["event"], each["task"], each["lambda_name"]) == ("attempt failed", handle.id, "said/pay")
        assert (each["error_type"], each["error"]) == ("ValueError", "ValueError: no card for [redacted]")
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("fatal", [("error", "1 of 3", "Fatal: never")]),
        ("late", [("warning", "1 of 3", "ValueError: once")]),
        (
            "retry",
            [
                (level, f"{each} of 3", "the bank is closed")
                for each, level in enumerate(("warning", "warning", "error"), 1)
            ],
        ),
        ("back", []),
        ("", []),
    ],
)
def test_what_counts_as_failed(lines: Any, how: str, expected: list[tuple[str, str, str]]) -> None:
    said = lines("info")
    with Harness(app) as h:
        pay.schedule(how)
        h.advance(60)
        found = [(each["level"], each["attempt"], each["error"]) for each in said()]
    assert found == expected


def test_a_cancelled_run_has_not_failed(lines: Any) -> None:
    said = lines("info")
    with Harness(app) as h:
        pay.options(delay=5).schedule("fail").cancel()
        h.advance(60)
        assert said() == []


def test_thousands_that_succeed_leave_no_line_at_info(lines: Any) -> None:
    said = lines("info")
    with Harness(app) as h:
        pay.map([()] * 1_000)
        for _ in range(10):
            pay.schedule()
        h.advance(60)
        assert said() == []


def test_debug_has_a_line_for_each_run(lines: Any) -> None:
    said = lines("debug")
    with Harness(app) as h:
        handles = [pay.schedule(), pay.schedule("back")]
        h.advance(60)
        ran = [(each["task"], each["how"]) for each in said("debug") if each["event"] == "run ended"]
    assert sorted(ran) == sorted(
        [(handles[0].id, "succeeded"), (handles[1].id, "handed back"), (handles[1].id, "succeeded")]
    )
