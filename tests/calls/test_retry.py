"""What a duty says while its calls fail: one line, and a traceback for nothing but a bug."""

from __future__ import annotations

from typing import Any

from atf.calls.retry import Trouble
from atf.errors import Unavailable


class Log:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **more: self.said.append((level, event, str(more.get("error", ""))))


def test_calls_that_run_out_of_time_are_one_line_and_no_bug() -> None:
    log: Any = Log()
    trouble = Trouble(log, "controller")
    for lane in ("threads", "loop"):  # of a process that stood still, all of them at once
        trouble.failed(lane, TimeoutError())
    assert log.said == [("warning", "controller unavailable", "no answer in time")]
    trouble.failed("threads", Unavailable("away"))
    trouble.ended("threads")
    trouble.ended("loop")
    assert [event for _, event, _ in log.said] == ["controller unavailable", "controller available again"]


def test_what_nobody_thought_of_has_its_traceback() -> None:
    log: Any = Log()
    Trouble(log, "store").failed(0, KeyError("t"))
    assert [(level, event) for level, event, _ in log.said] == [("exception", "duty failed")]
