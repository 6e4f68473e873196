"""Keeps what long runs came to: seeds already played, so that a run goes on where it was, and dated results."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from tests.chaos import frame

from .play import Result

HERE: Final = Path(__file__).parent


def _digest() -> str:
    """Of the product and the simulation: what was played under another one counts for nothing."""
    digest = hashlib.sha256(frame.code().encode())
    for path in sorted(HERE.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Played:
    """The seeds played under this very code; each stands in a line of a file."""

    def __init__(self) -> None:
        self._path = frame.ROOT / ".build" / "sim" / f"{_digest()}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def results(self) -> dict[int, Result]:
        """Of each seed; a line that was cut off is passed over."""
        if not self._path.exists():
            return {}
        lines = [each for each in self._path.read_text("utf-8").splitlines(keepends=True) if each.endswith("\n")]
        return {result.seed: result for result in (Result.from_json(json.loads(each)) for each in lines)}

    def add(self, result: Result) -> None:
        """One more."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**result.as_json(), "story": ""}) + "\n")


def record(
    row: str, *, asked: int, done: int, full: int, figures: dict[str, Any], failures: list[str], seconds: float
) -> None:
    """Writes a dated result beside those of `make chaos`."""
    found = {
        "row": row,
        "status": "ok" if not failures and done >= asked else "failed",
        "asked": asked,
        "done": done,
        "full": full,
        "figures": figures,
        "failures": failures[:50],
        "seconds": round(seconds, 1),
        **frame.circumstances(),
    }
    frame.write(found, frame.ROOT / "reliability")
