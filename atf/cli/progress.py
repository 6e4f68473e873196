"""What a long command shows while it runs: a live picture on a terminal, else a line every few seconds. It changes nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live

LINE_S: Final = 2.0


class Shown(Protocol):
    """Where something stands."""

    def line(self) -> str:
        """In a line."""
        ...

    def picture(self) -> RenderableType:
        """On a terminal."""
        ...


class View(Protocol):
    """Takes what happens."""

    def say(self, sentence: str) -> None:
        """Something worth a line of its own."""
        ...

    def show(self, now: Shown) -> None:
        """Where it stands now; may be called often."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lines:
    """A line every two seconds."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._next = 0.0

    def say(self, sentence: str) -> None:
        self._write(sentence)

    def show(self, now: Shown) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_S
            self._write(now.line())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""


class Screen:
    """A picture that stays in its place on a terminal; sentences scroll above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False)

    def show(self, now: Shown) -> None:
        self._live.update(now.picture())

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


def view(as_json: bool) -> View:
    """What fits where stdout goes. With JSON everything else goes to stderr."""
    if sys.stdout.isatty() and not as_json:
        return Screen(Console())
    return Lines(lambda line: print(line, file=sys.stderr if as_json else sys.stdout, flush=True))
