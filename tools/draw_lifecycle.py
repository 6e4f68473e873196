"""Draws the two tables of moves in docs/reference/lifecycle.md from atf.task.MOVES and the functions' headers; `--check` only compares.

Owns what stands between the page's markers and nothing else: the prose around them is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from atf.task import MOVES, Move, Status

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the tools are not installed

from tools.move_headers import OWN, PUSHED, PUSHING  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "lifecycle.md"
MARK = "<!-- {name}: drawn from MOVES in atf/task.py by tools/draw_lifecycle.py -->"
END = "<!-- end of {name} -->"


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws docs/reference/lifecycle.md from the table of moves.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page is not what would be written"
    )
    args = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8")
    new = put(put(old, "states", matrix(MOVES)), "moves", table(MOVES))
    if args.check and new != old:
        sys.exit(
            "docs/reference/lifecycle.md is not what MOVES in atf/task.py says. Run tools/draw_lifecycle.py and commit the page."
        )
    if new != old:
        PAGE.write_text(new, encoding="utf-8")
        print(f"wrote {PAGE}")


def put(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers of `name`."""
    start, end = MARK.format(name=name), END.format(name=name)
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"docs/reference/lifecycle.md has lost its markers:\n{start}\n{end}")
    return f"{before}{start}\n{text}\n{end}{after}"


def matrix(moves: tuple[Move, ...]) -> str:
    """A row for each state that moves leave, a column for each that they reach, and the moves of that way where they meet."""
    ways: dict[tuple[str, str], list[str]] = {}
    for move in moves:
        for source in move.sources:
            target = move.target if move.target is not None else source
            ways.setdefault((node(source), node(target)), []).append(move.name)
    names = [node(None), *(status.name for status in Status)]
    rows = [name for name in names if any(source == name for source, _ in ways)]
    columns = [name for name in names if any(target == name for _, target in ways)]
    lines = [f"| from, to | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| **{row}** | {' | '.join(', '.join(ways.get((row, each), [])) for each in columns)} |" for row in rows]
    return "\n".join(re.sub(r"  +", " ", line) for line in lines)


def node(status: Status | None) -> str:
    """A state's name."""
    return "no record" if status is None else status.name


def table(moves: tuple[Move, ...]) -> str:
    """A row per move, in the order of the code, with the Lua functions whose headers name it."""
    rows = ["| move | from | to | if | who | function | next_timestamp |", "|---|---|---|---|---|---|---|"]
    for move in moves:
        source = ", ".join("–" if each is None else each.name for each in move.sources)
        target = "unchanged" if move.target is None else move.target.name
        verbs = ", ".join(
            f"`{verb}`"
            for verb, rows_of in {**OWN, PUSHING: PUSHED}.items()
            if move.name in {each.name for each in rows_of}
        )
        rows.append(
            f"| {move.name} | {source} | {target} | {move.guard or '–'} | {move.who} | {verbs} | {move.next_at or 'none'} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
