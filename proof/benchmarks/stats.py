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


def place(one: Mapping[str, Any], number: int = 0) -> tuple[str, int]:
    """In which run and in which of its rounds something was measured; one that was recorded without a number has that of its place."""
    return str(one.get("run", "")), int(one.get("round", number))


def count(rounds: Sequence[Mapping[str, Any]]) -> int:
    """How many rounds these are: what was measured several times in one counts once."""
    return len({place(each, number) for number, each in enumerate(rounds, 1)})


def ratios(rounds: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], path: str) -> list[float]:
    """One system's figure in units of another's of the same run, round and group, for each such pair.

    What the machine does to both counts for neither: those of a group ran directly one after the other.
    """
    mine, theirs = _by_group(rounds, path), _by_group(others, path)
    return [value / theirs[group] for group, value in mine.items() if theirs.get(group)]


def _by_group(rounds: Sequence[Mapping[str, Any]], path: str) -> dict[tuple[str, int, int], float]:
    found = {
        (*place(each, number), int(each.get("group", 0))): figure(each, path) for number, each in enumerate(rounds, 1)
    }
    return {group: value for group, value in found.items() if value is not None}


def ratio(rounds: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], path: str) -> float | None:
    """The median of these ratios; None where there is no pair."""
    found = ratios(rounds, others, path)
    return statistics.median(found) if found else None


def spelled(path: str) -> str:
    """A path for people."""
    return path.replace("_", " ").replace(".", " ")


def spread(rounds: Sequence[Mapping[str, Any]], path: str, wanted: int, shown: Callable[[float], str]) -> str:
    """How many rounds have a figure, of how many where these are too few, and the least and largest of it; "": none has.

    Args:
        rounds: what was measured; in one round it may have been several times.
        path: of the figure.
        wanted: rounds of a full measurement.
        shown: a figure for people.
    """
    having = [each for each in rounds if figure(each, path) is not None]
    if not having:
        return ""
    values = [figure(each, path) or 0.0 for each in having]
    often = f", measured {len(having)} times" if len(having) > count(having) else ""
    return f"{of_rounds(count(having), wanted)}{often}: {shown(min(values))} to {shown(max(values))}"


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
