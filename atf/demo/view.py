"""What a demo shows while it runs: a live table on a terminal, else a line every few seconds. It changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .record import Moment

LINE_S: Final = 2.0
_RATE_S: Final = 2.0


class Snapshot(NamedTuple):
    """Where the demo stands. Counts are of tasks; a running one is counted by the lambda's own record."""

    total: int
    scheduled: int
    running: int
    done: int
    tasks_per_s: float
    mib_per_s: float

    @property
    def queued(self) -> int:
        """Accepted and not yet started, or waiting for another attempt."""
        return max(self.scheduled - self.running - self.done, 0)

    def line(self) -> str:
        return (
            f"scheduled {self.scheduled:,}  queued {self.queued:,}  running {self.running:,}  done {self.done:,}"
            f" of {self.total:,}  {self.tasks_per_s:,.0f} tasks/s  {self.mib_per_s:,.1f} MiB/s"
        )


def rates(ends: list[Moment], now_ns: int) -> tuple[float, float]:
    """Tasks and MiB per second over the last two seconds. The ends of one process are in order, so the last ones are at the end."""
    since = now_ns - int(_RATE_S * 1e9)
    count = size = 0
    for end in reversed(ends):
        if end.at_ns < since - int(_RATE_S * 1e9):
            break
        if end.at_ns >= since:
            count += 1
            size += end.size
    return count / _RATE_S, size / _RATE_S / (1 << 20)


class View(Protocol):
    """Takes what happens."""

    def say(self, sentence: str) -> None:
        """Something worth a line of its own."""
        ...

    def show(self, snapshot: Snapshot) -> None:
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

    def show(self, snapshot: Snapshot) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_S
            self._write(snapshot.line())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""


class Screen:
    """A table that stays in its place on a terminal; sentences scroll above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False)

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(_picture(snapshot))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


def _picture(snapshot: Snapshot) -> Group:
    table = Table.grid(padding=(0, 3))
    columns = {
        "scheduled": f"{snapshot.scheduled:,}",
        "queued": f"{snapshot.queued:,}",
        "running": f"{snapshot.running:,}",
        "done": f"{snapshot.done:,}",
        "tasks/s": f"{snapshot.tasks_per_s:,.0f}",
        "MiB/s": f"{snapshot.mib_per_s:,.1f}",
    }
    for _ in columns:
        table.add_column(justify="right", min_width=9)
    table.add_row(*(Text(name, style="dim") for name in columns))
    table.add_row(*(Text(value, style="bold") for value in columns.values()))
    return Group(table, ProgressBar(total=max(snapshot.total, 1), completed=snapshot.done, width=70))
