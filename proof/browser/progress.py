"""Says how a row goes on: over itself on a terminal, line by line elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Final

_EVERY_S: Final = 5.0


class RowProgress:
    """What is done now."""

    def __init__(self, row: str) -> None:
        self._row, self._said = row, 0.0
        self._begun = time.monotonic()

    def say(self, what: str) -> None:
        """Shows it; elsewhere than on a terminal every five seconds at most."""
        now = time.monotonic()
        if sys.stderr.isatty():
            print(f"\r\x1b[K{self._row}: {what}"[:150], end="", file=sys.stderr, flush=True)
        elif now - self._said > _EVERY_S:
            self._said = now
            print(f"{self._row} {now - self._begun:.0f} s: {what}", file=sys.stderr, flush=True)
