"""What a long command writes where there is no terminal."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from rich.console import RenderableType

from atf.cli.progress import LINE_S, LineView


@dataclass
class Count:
    done: int

    def line(self) -> str:
        return f"{self.done} of 3"

    def picture(self) -> RenderableType:
        raise AssertionError("there is no terminal")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_every_two_seconds_and_the_last_at_the_end() -> None:
    written: list[str] = []
    clock = Clock()
    with LineView(written.append, clock=clock) as lines:
        lines.show(Count(0))
        lines.show(Count(1))
        assert written == ["0 of 3"]
        clock.now += LINE_S
        lines.show(Count(2))
        assert written == ["0 of 3", "2 of 3"]
        lines.show(Count(3))
    assert written == ["0 of 3", "2 of 3", "3 of 3"]


def test_nothing_is_written_twice() -> None:
    written: list[str] = []
    with LineView(written.append, clock=Clock()) as lines:
        lines.show(Count(0))
        lines.show(Count(3))
        lines.say("3 of 3")
    assert written == ["0 of 3", "3 of 3"]


def test_what_was_shown_last_is_written_where_the_command_failed() -> None:
    written: list[str] = []
    with suppress(KeyError), LineView(written.append, clock=Clock()) as lines:
        lines.show(Count(0))
        lines.show(Count(1))
        raise KeyError
    assert written == ["0 of 3", "1 of 3"]
