"""`make drill FAULT=name`: injects a fault into a small real cluster, pages, and judges what is done about it.

The result goes to proof/results/drills/<date>-<fault>-<n>.json. It ends with 0 for "right action" alone; with 1 for every other verdict, among them
"right, with errors", where the fault is over and something that was done made it worse; and with 4 where nothing was tried. `make` itself ends
with 2 where this does not end with 0; the last lines say the verdict, and what was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from . import prometheus, rules
from .drill import Drill, tidy
from .faults import FAULTS

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "proof" / "results" / "drills"
NOT_RUN: Final = 4


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make drill", description="Injects a fault, pages, and judges what is done about it."
    )
    parser.add_argument("fault", choices=sorted(FAULTS))
    parser.add_argument(
        "--factor", type=float, default=rules.SCALE, help="how much faster than in deploy/ the rules are"
    )
    parser.add_argument("--folder", default="", help="an empty folder for everything of the drill; default: a new one")
    parser.add_argument("--keep", action="store_true", help="keep that folder, with the logs of all processes")
    parser.add_argument("--operator", default="", help="who is tried; for the result")
    given = parser.parse_args()
    if not prometheus.installed():
        print(prometheus.MISSING, file=sys.stderr)
        return NOT_RUN
    folder = Path(given.folder or tempfile.mkdtemp(prefix="atf-drill-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "page.txt"

    def say(line: str) -> None:
        print(line, flush=True)
        with page.open("a", encoding="utf-8") as out:
            print(line, file=out)

    print(f"starting a cluster in {folder}; the page will stand in {page}", flush=True)
    try:
        found = asyncio.run(Drill(FAULTS[given.fault], folder, given.factor, say).run())
    finally:
        if not given.keep:
            tidy(folder)
    for each in found["wrong_actions"]:
        print(f"wrong: {each['command']}: {each['why']}")
    print(f"{found['verdict']}: {write(found, given.operator)}")
    return 0 if found["verdict"] == "right action" else 1


def write(found: dict[str, Any], operator: str) -> Path:
    """Puts a result beside the others; where it is."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    date = time.strftime("%Y-%m-%d", time.gmtime())
    note = f"Durations of the rules were divided by {found['factor']:g}; counts, shares and promises were not."
    whole = {"date": date, "commit": commit.stdout.strip(), "operator": operator, "note": note, **found}
    RESULTS.mkdir(parents=True, exist_ok=True)
    number = 1
    while (path := RESULTS / f"{date}-{found['fault']}-{number}.json").exists():
        number += 1
    path.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
