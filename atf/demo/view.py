"""Shows where a demo stands. It changes nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

from rich.console import Group

from atf.cli.progress import counters

from .record import SuccessfulEnd

_RATE_S: Final = 2.0


class DemoProgress(NamedTuple):
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

    def picture(self) -> Group:
        counts = {
            "scheduled": f"{self.scheduled:,}",
            "queued": f"{self.queued:,}",
            "running": f"{self.running:,}",
            "done": f"{self.done:,}",
            "tasks/s": f"{self.tasks_per_s:,.0f}",
            "MiB/s": f"{self.mib_per_s:,.1f}",
        }
        return counters(counts, self.done, max(self.total, 1))


def rates(ends: list[SuccessfulEnd], now_ns: int) -> tuple[float, float]:
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
