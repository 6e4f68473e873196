"""Knows which call has which option, and refuses one at the wrong place with the line to write instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from .option_kinds import BatchOptions, CallOptions, JobOptions, LambdaOptions

_ELSEWHERE: Final = (
    (CallOptions, "thumbnail.options({name}=…).prepare(…)"),
    (BatchOptions, "thumbnail.map(items, {name}=…)"),
    (JobOptions, "client.schedule_job(name, thumbnail.prepare(…), schedule, {name}=…)"),
    (LambdaOptions, "@app.task({name}=…)"),
)
"""A line that takes each kind of option; the first kind that has a name counts."""


def check_names(
    call: str, given: Iterable[str], known: Collection[str], instead: Mapping[str, str] | None = None
) -> None:
    """Refuses options that a call does not have.

    Args:
        call: as a message calls it.
        given: the names that it got.
        known: the names that it has.
        instead: by name, what to do in place of an option that other calls have.

    Raises:
        TypeError: names the first of them, and what to write instead.
    """
    for name in given:
        if name not in known:
            raise TypeError(f"{call} has no option {name!r}{_mend(name, known, instead or {})}")


def _mend(name: str, known: Collection[str], instead: Mapping[str, str]) -> str:
    if name in instead:
        return f": {instead[name]}"
    from difflib import get_close_matches

    if near := get_close_matches(name, known, n=1):
        return f"; did you mean {near[0]}?"
    if line := line_for(name):
        return f": write {line}"
    return f"; leave it out. It has {', '.join(sorted(known))}" if known else ": leave it out"


def line_for(name: str) -> str:
    """A line that takes an option of this name; empty: there is none."""
    return next((line.format(name=name) for kind, line in _ELSEWHERE if name in kind.__annotations__), "")
