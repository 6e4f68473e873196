"""What is known of the starts of a controller's executors: why none works, when no more are made, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from atf.controller import starts as starts_module
from atf.controller.starts import STARTING, Starts
from atf.errors import FailedPrecondition
from atf.task import STARTS

WHY = "app shop:app: /srv/shop.py line 3: SyntaxError: invalid syntax"


class Seen(Starts):
    """Starts of two executors, and what was said at each change."""

    def __init__(self, size: int = 2, retries: int | None = None) -> None:
        super().__init__(size, retries)
        self.said: list[str] = []
        self.changed.append(lambda: self.said.append(self.to_say))

    def fail(self, slot: int, why: str = WHY) -> None:
        self.failed(slot, why, 1.0)


def test_a_controller_without_executors_of_its_own_is_well_at_once() -> None:
    starts = Starts(0)
    assert (starts.why_not, starts.to_say) == ("", "")


def test_until_one_has_asked_for_work_they_are_starting() -> None:
    starts = Seen()
    assert (starts.why_not, starts.to_say) == (STARTING, STARTS)
    starts.began(0, "e1")
    assert (starts.why_not, starts.to_say) == (STARTING, STARTS)
    starts.called("by hand")
    assert starts.why_not == STARTING, "it is none of those that are started here"
    starts.called("e1")
    assert (starts.why_not, starts.to_say) == ("", "")
    starts.called("e1")
    assert starts.said == [""], "and that is said once"


def test_a_start_that_fails_is_the_reason_until_one_works() -> None:
    starts = Seen()
    starts.fail(0)
    assert starts.why_not == f"no executor can start: {WHY}"
    starts.fail(1)
    starts.fail(0, "it is killed")
    starts.began(1, "e2")
    starts.called("e2")
    assert starts.why_not == ""
    assert starts.said == [WHY, "it is killed", ""]


def test_beside_an_executor_that_works_a_start_may_fail_for_ever() -> None:
    starts = Seen(retries=1)
    starts.began(0, "e1")
    starts.called("e1")
    for _ in range(100):
        starts.fail(1)
    assert starts.why_not == ""
    starts.ended("e1")
    assert starts.why_not == "", "its successor may start"
    starts.fail(0)
    with pytest.raises(FailedPrecondition):
        starts.fail(0)
    assert starts.why_not == f"no executor can start: {WHY}"


@pytest.mark.parametrize(("retries", "tries"), [(0, "one try"), (1, "2 tries"), (5, "6 tries")])
def test_no_more_are_made_when_each_has_failed_so_often(retries: int, tries: str) -> None:
    starts = Seen(retries=retries)
    for _ in range(retries + 1):
        starts.fail(0)
    for _ in range(retries):
        starts.fail(1)
    with pytest.raises(FailedPrecondition, match=f"after {tries} of each: app shop:app: /srv/shop.py line 3"):
        starts.fail(1)


def test_a_good_start_begins_the_count_anew() -> None:
    starts = Seen(size=1, retries=1)
    for number in range(10):
        starts.fail(0)
        starts.began(0, f"e{number}")
        starts.called(f"e{number}")
        starts.ended(f"e{number}")
    starts.fail(0)
    with pytest.raises(FailedPrecondition):
        starts.fail(0)


def test_a_start_that_takes_long_is_said_to() -> None:
    starts = Seen()
    starts.slow("it is still importing shop:app, 30 s after its start")
    assert starts.why_not == "no executor can start: it is still importing shop:app, 30 s after its start"
    starts.began(0, "e1")
    starts.called("e1")
    starts.slow("it is still importing shop:app, 60 s after its start")
    assert starts.why_not == "", "the other one works"


def test_while_an_operator_has_the_host_drain_that_is_nobody_s_fault() -> None:
    starts = Seen()
    starts.fail(0)
    starts.hold(True)
    assert (starts.why_not, starts.to_say) == ("", "")
    starts.hold(False)
    assert starts.to_say == WHY
    assert starts.said == [WHY, "", WHY]


class Log:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, Any]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **fields: self.lines.append((level, event, fields.get("failed")))


def test_what_fails_alike_is_logged_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr(starts_module, "_log", log)
    starts = Seen(size=3)
    for _ in range(2):
        for slot in range(3):
            starts.fail(slot)
    starts.began(0, "e1")
    starts.called("e1")
    assert log.lines == [
        ("error", "executor can't start", 1),
        ("error", "executor can't start", 2),
        ("info", "executors start again", None),
    ]
