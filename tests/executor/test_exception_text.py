"""The text that is kept of an exception: nothing of its causes, notes and members is lost that has room, and what is left out is said."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

import atf
from atf.executor.exception_text import text_of
from atf.sdk.failure import TRACEBACK, Failure, failure_of, sentence_of, summary_of
from atf.task import MAX_ERROR_BYTES


def raised(call: Callable[[], Any], redact: Callable[[str], str] = str, **bound: int) -> str:
    try:
        call()
    except BaseException as error:  # noqa: BLE001  as the executor does
        text = text_of(error, redact, **bound)
        assert len(text.encode()) <= bound.get("most_bytes", MAX_ERROR_BYTES)
        return text
    raise AssertionError("nothing was raised")


def deep(n: int, error: BaseException) -> None:
    if n:
        deeper(n - 1, error)
    raise error


def deeper(n: int, error: BaseException) -> None:
    if n:
        deep(n - 1, error)
    raise error


def caused() -> None:
    try:
        raise KeyError("card")
    except KeyError as error:
        error.add_note("of customer 7")
        raise RuntimeError("can't pay") from error


def test_a_long_message_is_kept_whole_as_long_as_frames_can_go() -> None:
    message = "the server said: " + "so much " * 400
    text = raised(lambda: deep(40, ValueError(message)))
    assert text.startswith(f"ValueError: {message}\nTraceback")
    assert "frames left out" in text
    text = raised(lambda: deep(40, ValueError(message * 2)))
    assert 2_000 < text.index(" … (cut)") < 2_100, "as much of it as leaves room for where it came from"
    assert "frames left out" in text


def while_handling() -> None:
    try:
        raise KeyError("card")
    except KeyError:
        raise RuntimeError("can't pay")  # noqa: B904


def from_none() -> None:
    try:
        raise KeyError("card")
    except KeyError:
        raise RuntimeError("can't pay") from None


def test_a_cause_a_context_and_notes() -> None:
    text = raised(caused)
    assert failure_of(text)[:2] == ("RuntimeError", "can't pay")
    assert text.index("in caused") < text.index("Caused by: KeyError: 'card'") < text.index("Note: of customer 7")
    assert "While handling: KeyError: 'card'" in raised(while_handling)
    assert "KeyError" not in raised(from_none).replace("raise KeyError", "")


def test_members_of_groups_with_their_causes_and_groups_within() -> None:
    def group() -> None:
        try:
            caused()
        except RuntimeError as error:
            raise ExceptionGroup("all", [error, ExceptionGroup("inner", [OSError(2, "gone")])]) from ValueError("first")

    text = raised(group)
    assert failure_of(text)[:2] == ("ExceptionGroup", "all (2 sub-exceptions)")
    for line in (
        "  +---- 1 of 2",
        "  | RuntimeError: can't pay",
        "  | Caused by: KeyError: 'card'",
        "  | Note: of customer 7",
        "  +---- 2 of 2",
        "  |   | FileNotFoundError: [Errno 2] gone",
        "Caused by: ValueError: first",
    ):
        assert line in text.split("\n"), line


def test_middle_frames_go_first_and_are_counted() -> None:
    text = raised(lambda: deep(300, ValueError("x" * 600)))
    assert text.startswith(f"ValueError: {'x' * 600}\nTraceback")
    left_out = next(line for line in text.split("\n") if "left out" in line)
    shown = sum(line.startswith("  File") for line in text.split("\n"))
    assert left_out == f"  … {303 - shown} frames left out …"
    assert shown > 5
    assert "in raised" in text
    assert text.rstrip("~^ \n").endswith("raise error")


def test_a_recursion_is_counted_not_repeated() -> None:
    def endless() -> None:
        endless()

    text = raised(endless)
    assert "Previous line repeated" in text
    assert failure_of(text).type == "RecursionError"


def test_messages_go_last_and_say_that_they_were_cut() -> None:
    def huge() -> None:
        try:
            deep(50, ValueError("é" * 10_000))
        except ValueError as error:
            raise RuntimeError("y" * 10_000) from error

    text = raised(huge)
    assert text.startswith("RuntimeError: yyyy")
    assert "Caused by: ValueError: éé" in text
    assert text.count("… (cut)") == 2
    assert "in huge" in text
    assert "frames left out" in text


def test_long_chains_and_wide_groups_keep_both_ends() -> None:
    def chain() -> None:
        error: Exception = ValueError("first")
        for each in range(500):
            following = RuntimeError(f"link {each}")
            following.__cause__ = error
            error = following
        raise error

    text = raised(chain)
    assert text.startswith("RuntimeError: link 499\n")
    assert "causes left out" in text
    assert text.endswith("Caused by: ValueError: first")

    text = raised(lambda: (_ for _ in ()).throw(ExceptionGroup("wide", [ValueError(str(each)) for each in range(900)])))
    assert "members left out" in text
    assert "ValueError: 0" in text
    assert "ValueError: 899" in text


def test_a_chain_that_bites_its_tail_ends() -> None:
    def circle() -> None:
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        raise one

    assert raised(circle).count("Caused by") == 1


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_what_can_not_be_said() -> None:
    assert raised(lambda: deep(0, Unspeakable())).startswith("Unspeakable: (its message can't be shown)\n")
    assert raised(lambda: deep(0, ValueError("a\udcffb"))).startswith("ValueError: a\\udcffb\n")
    odd = ValueError("odd")
    odd.__notes__ = 5  # type: ignore[assignment]
    assert raised(lambda: deep(0, odd)).startswith("ValueError: odd\n")


def test_a_syntax_error_shows_its_place_and_its_message_is_the_message() -> None:
    text = raised(lambda: compile("x = (1 +\n  y z", "shop.py", "exec"))
    failure = failure_of(text)
    assert failure[:2] == ("SyntaxError", "'(' was never closed (shop.py, line 1)")
    assert 'File "shop.py", line 1' in failure.traceback
    assert summary_of(text) == "SyntaxError: '(' was never closed (shop.py, line 1)"


def test_a_message_that_holds_a_traceback_is_still_the_message() -> None:
    try:
        caused()
    except RuntimeError:
        remote = traceback.format_exc()
    failure = failure_of(raised(lambda: deep(0, OSError(f"the other side said\n{remote}"))))
    assert failure.message.startswith("the other side said\n  Traceback (most recent call last):\n")
    assert failure.message.rstrip().endswith("RuntimeError: can't pay")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("", Failure("", "", "")),
        ("timed out after 3 s", Failure("", "timed out after 3 s", "")),
        ("lost: its executor died", Failure("", "lost: its executor died", "")),
        (
            "ValueError\nTraceback (most recent call last):\n  x",
            Failure("ValueError", "", "Traceback (most recent call last):\n  x"),
        ),
    ],
)
def test_other_errors_are_their_message(error: str, expected: Failure) -> None:
    assert failure_of(error) == expected


def test_summaries() -> None:
    assert (
        summary_of("ValueError: \n\n  three\nlines\nTraceback (most recent call last):\n") == "ValueError: three lines"
    )
    assert summary_of("ValidationError: 1 error\nname\n  missing") == "ValidationError: 1 error"
    assert summary_of("x" * 300) == "x" * 200 + "…"
    assert sentence_of(f"ValueError: a\n  b\n{TRACEBACK}\n  File") == "ValueError: a b"
    assert sentence_of("exit code 1: gone\n{}\nstderr") == "exit code 1: gone"


def test_the_error_of_a_failed_task_begins_with_its_message_and_keeps_the_rest() -> None:
    failed = atf.TaskFailed.of(raised(caused), "item 3 of batch b: ")
    assert str(failed).splitlines()[0] == "item 3 of batch b: RuntimeError: can't pay"
    assert (failed.error_type, failed.error_message) == ("RuntimeError", "can't pay")
    assert "Caused by: KeyError" in str(failed)
    assert str(atf.TaskFailed.of("timed out after 3 s")) == "timed out after 3 s"


def test_values_are_taken_out_of_every_part_before_anything_is_cut() -> None:
    def secret() -> None:
        try:
            raise KeyError("hunter2")
        except KeyError as error:
            error.add_note("pw=hunter2")
            raise ExceptionGroup("hunter2", [ValueError("x" * 1_015 + "hunter2")]) from error

    text = raised(secret, lambda text: text.replace("hunter2", "[redacted]"))
    assert "hunt" not in text
    assert "Note: pw=[redacted]" in text
