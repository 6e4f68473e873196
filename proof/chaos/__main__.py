"""`make chaos [ROW=name[,name]] [N=trials]`: runs rows, and ends with 0 if all that ran held their bars."""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests import surroundings

from . import frame


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description="Breaks things under load, at length, and judges.")
    parser.add_argument("--row", default="", help="names of rows, separated by commas; default: all that are not done")
    parser.add_argument("--trials", type=int, default=0, help="how many of each; default: the row's own number")
    parser.add_argument("--list", action="store_true", help="list the rows")
    given = parser.parse_args()
    surroundings.pin_server()
    rows = frame.all_rows()
    if given.list:
        for row in rows.values():
            print(
                f"{row.name:<24} {row.full:>4} × {row.what}"
                + (f" [not here: {why}]" if (why := row.available()) else "")
            )
        return 0
    names = [each for each in given.row.split(",") if each]
    if unknown := [each for each in names if each not in rows]:
        print(f"no row is called {', '.join(unknown)}; there are {', '.join(rows)}", file=sys.stderr)
        return 2
    began = time.monotonic()

    def say(row: str, line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {row:<20} {line}", flush=True)

    try:
        results = frame.run(names, given.trials, say)
    except KeyboardInterrupt:
        return 130
    for each in results:
        print(f"\n{each['row']}: {each['status']}, {each['done']} of {each['asked']} trials in {each['seconds']:.0f} s")
        for failure in each["failures"]:
            print(f"  {failure}")
        print(f"  {json.dumps(each['figures'])}")
    return 1 if any(each["status"] == "failed" for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
