"""Rewrites the rules of deploy/prometheus so that their hours are minutes: every duration divided by one factor.

What is counted (ten failed tasks, a share of the memory) stays as it is, and so do the promises, whose times are edges of buckets.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SCALE: Final = 30.0
"""Hours become two minutes, five minutes ten seconds."""
RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus"
_DURATION: Final = re.compile(r"(?<=[\[ ])(\d+)([smhd])(?=[\])\s]|$)", re.MULTILINE)
_SECONDS: Final = re.compile(r"(atf_due_oldest_seconds\) > |\[6h\]\) \* )(\d+)")
"""Seconds as plain numbers: how long a task has been due, and a window by which a rate is multiplied."""
_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def scaled(text: str, factor: float) -> str:
    """A file of rules, `factor` times as fast."""
    text = _SECONDS.sub(lambda found: f"{found[1]}{int(found[2]) / factor:g}", text)
    return _DURATION.sub(lambda found: f"{round(int(found[1]) * _MS[found[2]] / factor)}ms", text)


def write(folder: Path, factor: float) -> list[str]:
    """Writes the rules into a folder; the files' names."""
    names = ["recording.yml", "alerts.yml"]
    for name in names:
        (folder / name).write_text(scaled((RULES / name).read_text("utf-8"), factor), "utf-8")
    return names
