"""Reads which rows of MOVES each Lua function makes, from the line MOVES of its header.

The form is `<move>, <move>: <STATE>, <STATE> -> <STATE>; ...`. A function may name fewer states than the row starts from. Without an
arrow the state stays, and `(no record)` stands for a task that is not stored yet.

A function that pushes what it makes due makes the moves of lua/shared/pushing.lua as well, also of tasks that it has just moved itself.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from typing import Final

from atf.store import library
from atf.task import MOVES, Move, Status

NOTHING: Final = "(no record)"
_ROWS: Final = {move.name: move for move in MOVES}


def header(text: str) -> list[str]:
    """The lines of comment that a function's file begins with."""
    return list(takewhile(lambda line: line.startswith("--"), text.splitlines()))


def moves_of(text: str) -> list[Move]:
    """The rows that the file of a function names, each with the states that it starts from there.

    Raises:
        ValueError: a row is unknown, or it does not go from or to where the header says.
    """
    said = ""
    for line in header(text):
        label, words = line[3:11].strip(), line[11:].strip()
        if label == "MOVES" or (said and not label):
            said += f" {words}"
        elif said:
            break
    return [move for clause in filter(None, map(str.strip, said.split(";"))) for move in _clause(clause)]


def _clause(text: str) -> list[Move]:
    found = re.fullmatch(r"([a-z ,]+): ([A-Z_, ]+|\(no record\))(?: -> ([A-Z_]+))?", text)
    if found is None:
        raise ValueError(f"{text!r}: write <move>: <STATE>, <STATE> -> <STATE>")
    names, sources, target = found.groups()
    states = tuple(None if each == NOTHING else Status[each] for each in sources.split(", "))
    moves = [_ROWS[name] for name in names.split(", ")]
    for move in moves:
        if not set(states) <= set(move.sources) or move.target is not (Status[target] if target else None):
            raise ValueError(f"{text!r} is not what MOVES says of {move.name!r}")
    return [replace(move, sources=states) for move in moves]


PUSHING: Final = "pushing"
"""The file of lua/shared that makes moves for several functions."""
PUSHED: Final = moves_of(library.shared()[PUSHING])
PUSHES: Final = {verb for verb, text in library.verbs().items() if f"{PUSHING}.around(" in text}
"""The functions that push what they make due."""
OWN: Final = {verb: moves for verb, text in library.verbs().items() if (moves := moves_of(text))}
"""Each function that moves tasks, with the rows that its header names."""
NAMED: Final = {verb: [*moves, *(PUSHED if verb in PUSHES else [])] for verb, moves in OWN.items()}
"""Each function that moves tasks, with the rows that it makes."""


def at_once(verb: str, source: Status | None, target: Status) -> list[tuple[Move, Move]]:
    """The ways in which a function makes two moves of a task in one call: one of its own, and one by which it pushes what is due then."""
    return [
        (first, then)
        for first in (OWN.get(verb, []) if verb in PUSHES else [])
        for then in PUSHED
        if source in first.sources and first.target in then.sources and (then.target or first.target) is target
    ]
