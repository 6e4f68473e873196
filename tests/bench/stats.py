"""Medians and percentiles of a measurement's figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that is at least as large as `percent` of all; 0.0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return float(ordered[max(-int(-len(ordered) * percent // 100) - 1, 0)])


def medians(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median of every figure over rounds, figure by figure; within figures that are mappings again. What is no number is left out."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in rounds for name in each):
        values = [each[name] for each in rounds if name in each]
        if all(isinstance(each, Mapping) for each in values):
            found[name] = medians(values)
        elif all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
            found[name] = statistics.median(values)
    return found


def inner(medians: Mapping[str, Any], path: str) -> Any:
    """What stands at a path, "lateness_ms" or "lateness_ms.p99": a figure, or a mapping of figures; {}: nothing."""
    found: Any = medians
    for name in path.split("."):
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found


def figure(medians: Mapping[str, Any], path: str) -> float | None:
    """A figure by its path; None: there is none."""
    found = inner(medians, path)
    return found if isinstance(found, int | float) else None


def by_round(rounds: Sequence[Mapping[str, Any]], path: str) -> dict[int, float]:
    """A figure by the number of its round; one that was recorded without a number has that of its place."""
    found = {each.get("round", place): figure(each, path) for place, each in enumerate(rounds, 1)}
    return {number: value for number, value in found.items() if value is not None}


def ratio(rounds: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], path: str) -> float | None:
    """The median of one system's figure in units of another's of the same round: what the machine does to both counts for neither.

    None where there is no such pair.
    """
    mine, theirs = by_round(rounds, path), by_round(others, path)
    pairs = [value / theirs[number] for number, value in mine.items() if theirs.get(number)]
    return statistics.median(pairs) if pairs else None


def spelled(path: str) -> str:
    """A path for people."""
    return path.replace("_", " ").replace(".", " ")


def spread(values: Sequence[float], wanted: int, shown: Callable[[float], str]) -> str:
    """How many rounds there are, of how many where these are too few, and the least and largest of their figures.

    Args:
        values: a figure of each round.
        wanted: rounds of a full measurement.
        shown: a figure for people.
    """
    if not values:
        return ""
    return f"{of_rounds(len(values), wanted)}: {shown(min(values))} to {shown(max(values))}"


def of_rounds(count: int, wanted: int) -> str:
    """ "3 of 5", or "5" where there are enough."""
    return str(count) if count >= wanted else f"{count} of {wanted}"


def lateness(due_ns: Sequence[float], starts_ns: Sequence[int], slack_ns: int = 0) -> dict[str, float]:
    """How late tasks started, in ms.

    Args:
        due_ns: when each was to start.
        starts_ns: when each did; 0: it has not, and is left out.
        slack_ns: by which the clocks of both may differ; a start is early only beyond it.
    """
    late = [start - due for due, start in zip(due_ns, starts_ns, strict=True) if start]
    ms = {f"p{percent}": round(percentile(late, percent) / 1e6, 3) for percent in (50, 99)}
    return {
        **ms,
        "max": round(max(late, default=0.0) / 1e6, 3),
        "min": round(min(late, default=0.0) / 1e6, 3),
        "early": sum(each < -slack_ns for each in late),
    }
