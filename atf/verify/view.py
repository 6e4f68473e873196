"""Shows where `atf verify` stands."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Group
from rich.text import Text

from atf.cli.progress import counters


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
        counts = {
            "asked for": f"{self.called:,}",
            "accepted": f"{self.accepted:,}",
            "runs ended": f"{self.runs:,}",
            "running": f"{self.running:,}",
            "strikes": f"{self.strikes:,}",
        }
        return counters(counts, min(self.seconds, self.total_s), self.total_s, Text(self.phase))
