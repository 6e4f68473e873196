"""Draws the table of moves and the picture of states in docs/reference/lifecycle.md from atf.task.MOVES; `--check` only compares.

Owns what stands between the page's markers and nothing else: the prose around them is written by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from atf.task import FINISHED, MOVES, Move, Status

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "lifecycle.md"
MARK = "<!-- {name}: drawn from MOVES in atf/task.py by tools/draw_lifecycle.py -->"
END = "<!-- end of {name} -->"


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws docs/reference/lifecycle.md from the table of moves.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page is not what would be written"
    )
    args = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8")
    new = put(put(old, "states", picture(MOVES)), "moves", table(MOVES))
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


def picture(moves: tuple[Move, ...]) -> str:
    """A mermaid diagram: one arrow per pair of states, labelled with all the moves that go that way."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for move in moves:
        for source in move.sources:
            target = move.target if move.target is not None else source
            arrows.setdefault((node(source), node(target)), []).append(move.name)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in arrows.items()]
    return "\n".join(
        ["```mermaid", "stateDiagram-v2", *lines, *(f"    {node(each)} --> [*]" for each in ends()), "```"]
    )


def node(status: Status | None) -> str:
    """A state's name in the picture; "no record" is its start."""
    return "[*]" if status is None else status.name


def ends() -> Iterator[Status]:
    """The states at rest, in the order of their numbers."""
    return (status for status in Status if status in FINISHED)


def table(moves: tuple[Move, ...]) -> str:
    """A row per move, in the order of the code."""
    rows = ["| move | from | to | if | who | next_timestamp |", "|---|---|---|---|---|---|"]
    for move in moves:
        source = ", ".join("–" if each is None else each.name for each in move.sources)
        target = "unchanged" if move.target is None else move.target.name
        rows.append(
            f"| {move.name} | {source} | {target} | {move.guard or '–'} | {move.who} | {move.next_at or 'none'} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
