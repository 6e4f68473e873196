"""What was killed in other versions or settings than it is measured with, on the page: a kill tells of what was killed alone.

Nobody is left out for that: which versions matter to what a kill costs nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .known import SYSTEMS
from .verdict import QUESTION

Result = Mapping[str, Any]


def otherwise(found: Mapping[str, Result]) -> str:
    """A line for each system that was, with what differs, and in which questions; "": none was."""
    lines = []
    for name, killed in found[QUESTION]["systems"].items() if QUESTION in found else ():
        measured = _measured(found, name) if killed["rounds"] else {}
        differs: dict[str, list[str]] = {}
        for question, (code, each) in measured.items():
            if how := _differs(killed, each, another_code=SYSTEMS[name].ours and code != found[QUESTION]["code"]):
                differs.setdefault(how, []).append(question)
        said = [f"{how} ({_which(questions, len(measured))})" for how, questions in differs.items()]
        lines += [f"* {SYSTEMS[name].title}: {'; '.join(said)}"] if said else []
    return (
        "\n".join(
            [
                "Killed otherwise than measured, as far as both are recorded (of settings, what is said of them):\n",
                *lines,
            ]
        )
        if lines
        else ""
    )


def _measured(found: Mapping[str, Result], name: str) -> dict[str, tuple[str, Result]]:
    """The questions that have figures of a system, or of another one of the same module: of which code, and the system's part."""
    return {
        question: (found[question]["code"], each)
        for question in sorted(found.keys() - {QUESTION})
        for other, each in found[question]["systems"].items()
        if SYSTEMS[other].module == SYSTEMS[name].module and each["rounds"]
    }


def _differs(killed: Result, measured: Result, *, another_code: bool) -> str:
    """In what; packages that only one of both has on record are left out."""
    before, now = killed["versions"], measured["versions"]
    others = [each for each in before if each in now and before[each] != now[each]]
    said = [f"killed with {_versions(others, before)}, measured with {_versions(others, now)}"] if others else []
    said += ["another code"] if another_code else []
    said += ["other settings"] if killed["settings"] != measured["settings"] else []
    return ", ".join(said)


def _versions(names: Sequence[str], versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {versions[name]}" for name in names)


def _which(questions: Sequence[str], of: int) -> str:
    return "everywhere" if len(questions) == of else ", ".join(questions)
