"""Dated results: what each row found, for this state of the pages and of what tries them.

A row that is done is .build/browser/rows/<code>/<row>.json, so that the whole can be tried in pieces; after each row
proof/results/browser/<date>-<code>.json has all rows of that code. A row that broke down is a finding.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from .cluster import ROOT
from .look import CHROMIUM

RESULTS: Final = ROOT / "proof" / "results" / "browser"
DONE: Final = ROOT / ".build" / "browser" / "rows"
_DECIDES: Final = ("atf/ui", "proof/browser")


def code() -> str:
    """A digest of the pages and of what tries them."""
    digest = hashlib.sha256()
    for folder in _DECIDES:
        for path in sorted(ROOT.joinpath(folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def done(row: str) -> dict[str, Any] | None:
    """What a row has found of this code."""
    path = _path(row)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def keep(row: str, figures: dict[str, Any]) -> None:
    """Writes what a row has found, and the dated result of all rows so far."""
    path = _path(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, ensure_ascii=False), encoding="utf-8")
    rows = {each.stem: json.loads(each.read_text(encoding="utf-8")) for each in sorted(path.parent.glob("*.json"))}
    RESULTS.mkdir(parents=True, exist_ok=True)
    chromium = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "code": code(),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {chromium}",
        "findings": sum(len(each["findings"]) for each in rows.values()),
        "rows": rows,
    }
    text = json.dumps(result, indent=2, ensure_ascii=True) + "\n"
    RESULTS.joinpath(f"{result['date']}-{code()}.json").write_text(text, encoding="utf-8")


def _path(row: str) -> Path:
    return DONE / code() / f"{row}.json"
