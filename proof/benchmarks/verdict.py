"""Which peers run every task at least once, by what the question `kill` found. Other questions ask it before they compare with one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from .known import AT_DEFAULTS, PEERS, SYSTEMS

QUESTION = "kill"


class BenchmarkVerdict(NamedTuple):
    """The peers by what is known of them; one that is in neither was not killed yet with all workers that it is measured with.

    Attributes:
        safe: every task ran after each kill, with each of the workers that it is measured with.
        loses: a kill cost it tasks, or may by what its documentation says.
    """

    safe: frozenset[str] = frozenset()
    loses: frozenset[str] = frozenset()


def verdict(kill: Mapping[str, Any] | None) -> BenchmarkVerdict:
    """What follows from the result of that question; None: there is none."""
    rounds = {name: each["rounds"] for name, each in (kill or {}).get("systems", {}).items()}
    lost: Counter[str] = Counter()
    for name, each in rounds.items():
        lost[SYSTEMS[name].module] += sum(one["never"] for one in each)
    unkilled = {each.module for name, each in SYSTEMS.items() if name not in AT_DEFAULTS and not rounds.get(name)}
    loses = frozenset(name for name in PEERS if lost[name] or SYSTEMS[name].loses)
    return BenchmarkVerdict(frozenset(PEERS) - unkilled - loses, loses)
