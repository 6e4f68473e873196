"""A question that is asked at several levels, on the page: a table with a line per level, and a bar per level for the picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .known import OURS
from .question import FULL_ROUNDS, Question
from .stats import figure, inner, spelled, spread
from .svg import ChartBar, number

NONE = "–"
Levels = Mapping[str, Mapping[str, Any]]


def table(question: Question, result: Mapping[str, Any]) -> str:
    """The first figure with its rounds, then the others; one that is a mapping has a column for each of its figures."""
    levels = _medians(result)
    first, *others = question.by_level
    columns: dict[str, str] = {}
    for path in others:
        names = dict.fromkeys(
            name for each in levels.values() if isinstance(found := inner(each, path), Mapping) for name in found
        )
        columns |= {f"{spelled(path)} {name}": f"{path}.{name}" for name in names} or {spelled(path): path}
    head = ["level", f"median ({question.unit})", "rounds", *columns]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for level, each in levels.items():
        said = spread(_rounds(result, level), first, FULL_ROUNDS, number) or NONE
        cells = [level, _shown(each, first), said, *(_shown(each, path) for path in columns.values())]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) if levels else ""


def bars(question: Question, result: Mapping[str, Any]) -> list[ChartBar]:
    """In the order of the levels: each is to be compared with the one before."""
    path, found = question.by_level[0], []
    for level, each in _medians(result).items():
        value = figure(each, path)
        if value is not None:
            rounds = [one for of_level in _rounds(result, level) if (one := figure(of_level, path)) is not None]
            found.append(ChartBar(level, value, min(rounds), max(rounds), ours=True))
    return found


def _medians(result: Mapping[str, Any]) -> Levels:
    found: Levels = inner(result, f"systems.{OURS}.median.levels")
    return found


def _rounds(result: Mapping[str, Any], level: str) -> list[Mapping[str, Any]]:
    """The level's part of every round, with where that was measured."""
    rounds = inner(result, f"systems.{OURS}.rounds") or []
    return [{**each, **each.get("levels", {}).get(level, {})} for each in rounds if level in each.get("levels", {})]


def _shown(level: Mapping[str, Any], path: str) -> str:
    value = figure(level, path)
    return number(value) if value is not None else NONE
