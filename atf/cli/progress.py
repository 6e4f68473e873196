"""Shows how far a long command is: a live picture on a terminal, else a line every few seconds. It changes nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from atf.process.streams import protect_stdout

from .options import wants_json

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

    def __exit__(self, *error: object) -> None: ...


class LineView:
    """A line every two seconds, and the last one at the end: a file must not stop at "0 of 3"."""

    def __init__(self, write: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = write
        self._clock = clock
        self._next = clock()
        self._written = ""
        self._kept: Shown | None = None
        """What was shown last, if it came too soon to be written."""

    def say(self, sentence: str) -> None:
        self._write(sentence)

    def show(self, now: Shown) -> None:
        if self._clock() < self._next:
            self._kept = now
            return
        self._next = self._clock() + LINE_S
        self._kept = None
        self._write(now.line())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._kept is not None and (line := self._kept.line()) != self._written:
            self._write(line)

    def _write(self, line: str) -> None:
        self._written = line
        self._out(line)


class ScreenView:
    """A picture that stays in its place on a terminal; sentences scroll above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False)

    def show(self, now: Shown) -> None:
        self._live.update(now.picture())

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


def counters(counts: Mapping[str, str], done: float, total: float, *below: RenderableType) -> Group:
    """Counts beside each other under their names, and a bar of how much is done; `below` stands between them."""
    table = Table.grid(padding=(0, 3))
    for _ in counts:
        table.add_column(justify="right", min_width=9)
    table.add_row(*(Text(name, style="dim") for name in counts))
    table.add_row(*(Text(value, style="bold") for value in counts.values()))
    return Group(table, *below, ProgressBar(total=total, completed=done, width=70))


def view() -> View:
    """What fits where stdout goes. With --json everything else goes to stderr. No write error of either ends the command."""
    protect_stdout()
    if sys.stdout.isatty() and not wants_json():
        return ScreenView(Console())
    out = sys.stderr if wants_json() else sys.stdout
    return LineView(lambda line: print(line, file=out, flush=True))
