"""Shows where `atf verify` stands."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text


class VerifyProgress(NamedTuple):
    """Where it stands. Counts are of tasks."""

    phase: str
    seconds: float
    total_s: float
    called: int
    accepted: int
    runs: int
    running: int
    strikes: int

    def line(self) -> str:
        counts = (
            f"asked for {self.called:,}  accepted {self.accepted:,}  runs ended {self.runs:,}  running {self.running:,}"
        )
        return f"{self.phase}  {self.seconds:4.0f} s  {counts}  strikes {self.strikes}"

    def picture(self) -> Group:
        table = Table.grid(padding=(0, 3))
        columns = {
            "asked for": self.called,
            "accepted": self.accepted,
            "runs ended": self.runs,
            "running": self.running,
            "strikes": self.strikes,
        }
        for _ in columns:
            table.add_column(justify="right", min_width=9)
        table.add_row(*(Text(name, style="dim") for name in columns))
        table.add_row(*(Text(f"{value:,}", style="bold") for value in columns.values()))
        bar = ProgressBar(total=self.total_s, completed=min(self.seconds, self.total_s), width=70)
        return Group(table, Text(self.phase), bar)
