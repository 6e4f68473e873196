"""Prints what commands say: tables for people, columns between tabs in a pipe, or JSON for programs. It reads no settings, calls nobody.

What came from others is printed so that it can't act on the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from atf.visible import one_line, visible

from .json_values import print_json
from .options import kept, wants_json

R = TypeVar("R")
Columns = Mapping[str, str | Callable[[R], object]]
"""A table of things: by the headings of its columns the attribute that stands there, or what makes it from a thing."""

_STYLES = {
    "SUCCESS": "green",
    "FATAL_FAILURE": "red",
    "RETRIABLE_FAILURE": "yellow",
    "PROCESSING": "cyan",
    "CLAIMED": "cyan",
    "ok": "green",
    "warn": "yellow",
    "refuse": "bold red",
}
_COLORS: Final = {
    "store": 33,
    "hsc": 35,
    "frontend": 32,
    "store-consumer": 34,
    "controller": 36,
    "ui": 31,
    "server": 32,
    "worker": 36,
    "atf": 90,
}
"""Of the processes' names, as a terminal numbers them."""
_WIDTH: Final = max(map(len, _COLORS))
_LEAST: Final = 20
"""Characters that the last column of a table keeps, however narrow the terminal is."""


def show(value: Any, *lines: str) -> None:
    """What a command has done: a value for programs, with --json, else lines for people."""
    if wants_json():
        print_json(value)
    else:
        for line in lines:
            print(one_line(line))


def show_fields(value: Any, facts: Sequence[tuple[str, object]]) -> None:
    """One thing: a value for programs, with --json, else its facts for people; see `print_fields`."""
    if wants_json():
        print_json(value)
    else:
        print_fields(facts)


def show_rows(rows: Iterable[R], as_json: Callable[[R], Any], columns: Columns[R]) -> None:
    """What a command has found: a list for programs, with --json, each as `as_json` has it, else a table."""
    if wants_json():
        print_json([as_json(row) for row in rows])
        return
    made = columns.values()
    print_table(
        [*columns], [[getattr(row, each) if isinstance(each, str) else each(row) for each in made] for row in rows]
    )


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on a terminal; elsewhere a line per row, its values separated by tabs. The first line names the columns, but for --no-header.

    A terminal shows no column in which every value is empty. Only the last column is folded to fit a terminal: an id that is broken or cut can't be copied.
    """
    shown = [[one_line(str(value)) for value in row] for row in rows]
    headed = not kept("no_header")
    if not sys.stdout.isatty():
        for row in [columns, *shown] if headed else shown:
            print("\t".join(row))
        return
    filled = [place for place in range(len(columns)) if not shown or any(row[place] for row in shown)]
    columns, shown = [columns[place] for place in filled], [[row[place] for place in filled] for row in shown]
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=headed)
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], overflow="fold")
    for row in shown:
        table.add_row(*(Text(value, style=_STYLES.get(value, "")) for value in row))
    wide = sum(2 + max(map(cell_len, cells)) for cells in zip(columns, *shown, strict=True)) - 2
    last = max(cell_len(row[-1]) for row in [columns, *shown])
    seen = Console().size
    width = max(seen.width, wide - last + min(last, _LEAST))
    Console(width=width, height=seen.height).print(table)


def print_fields(facts: Sequence[tuple[str, object]]) -> None:
    """Name and value by line, without those that have no value. Further lines of a value stand below its first."""
    shown = [(name, str(value)) for name, value in facts if value not in ("", None)]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        lines = visible(value).replace("\n", f"\n{'':{width}}  ")
        print(f"{name:<{width}}  {lines}")


def say(name: str, line: str) -> None:
    """A line on stderr under the name of the process that it is of."""
    print(under_name(name, line), file=sys.stderr)


def under_name(name: str, line: str) -> str:
    """A line under the name of the process that it is of."""
    prefix = f"{name:<{_WIDTH}} |"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        prefix = f"\x1b[{_COLORS.get(name, 37)}m{prefix}\x1b[0m"
    return f"{prefix} {line}"


def when(at_us: int) -> str:
    """An instant for people, in local time; empty for none."""
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).astimezone().isoformat(" ", "milliseconds") if at_us else ""
    except (ValueError, OverflowError, OSError):  # no year has it
        return f"{at_us} µs"
