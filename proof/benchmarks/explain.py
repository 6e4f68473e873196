"""What explains the figures of one question by those of another, on the page: the budget and the trial, the store's part, the floor."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, Final

from . import svg, trial
from .known import FLOOR, OURS, PEERS, SYSTEMS
from .question import Bar, Question
from .results import failed, medians_of
from .stats import figure, inner, ratio
from .verdict import QUESTION as KILL, verdict

NONE: Final = "–"
END_TO_END: Final = "end-to-end"
DRAIN: Final = "drain"
CPU: Final = "cpu"
_BY_THE_PEERS: Final = "How far the machine explains what is over the budget can be told from the peers, which ran on that of the trial, too:"
Result = Mapping[str, Any]


def budget(question: Question, result: Result) -> str:
    """What each role may take, what it takes, and which is most beyond what it may."""
    measured = inner(medians_of(result).get(OURS, {}), "cpu_us")
    if not measured:
        return ""
    lines = ["| role of ATF | budget (µs) | measured (µs) | over by (µs) | of its budget |", "|---|---|---|---|---|"]
    taken = {role: (may, measured[role]) for role, may in question.budget.items() if role in measured}
    over = {role: took - may for role, (may, took) in taken.items()}
    together = sum(may for may, _ in taken.values()), sum(took for _, took in taken.values())
    for role, (may, took) in {**taken, "sum of these": together}.items():
        cells = [
            role,
            svg.number(may),
            svg.number(took),
            svg.number(took - may),
            f"{svg.number(took / may)} ×" if may else NONE,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    order = sorted((role for role in over if over[role] > 0), key=lambda role: -over[role])
    said = ", ".join(f"{role} {svg.number(over[role])} µs" for role in order)
    return "\n".join(lines) + (f"\n\nOver it, the largest first: {said}." if said else "\n\nNone is over it.")


def beside_the_trial(question: Question, found: Mapping[str, Result]) -> list[str]:
    """How much of what is over the budget the machine explains: by the peers, which were measured on that of the trial, too.

    Rates and CPU are of one and the same result.
    """
    kept = {
        name: here / then
        for name, then in trial.END_TO_END_PER_S.items()
        if (here := _rate_here(found, END_TO_END, name))
    }
    measured = inner(medians_of(found[END_TO_END]).get(OURS, {}), "cpu_us")
    if not kept or not measured or not question.budget:
        return []
    most, middle = max(kept.values()), statistics.median(kept.values())
    # A machine that made all faster explains nothing of what is over.
    machine = sorted(max(1 / each, 1.0) for each in (most, middle))
    over = sum(measured.values()) / sum(question.budget.values())
    rest = sorted(over / each for each in machine)
    best = next(name for name, each in kept.items() if each == most)
    explained = (
        f" Of that the machine explains a factor of {svg.number(machine[0])} by {SYSTEMS[best].title}, which kept most of its rate,"
        f" and of {svg.number(machine[1])} if all is put down to it that the median peer lost,"
        " which other versions, other settings and a busier machine may have cost as well."
        f" The rest, a factor of {svg.number(rest[0])} to {svg.number(rest[1])}, is ATF's own; the roles over their budgets stand above, the largest first."
        if machine[1] > 1
        else " The median peer is no slower here, so by the peers the machine explains nothing of it. Their versions and settings may be others than there."
    )
    said = (
        f"While tasks are being scheduled the peers do here {svg.number(min(kept.values()))} to {svg.number(most)} × what they did in the trial,"
        f" {svg.number(middle)} × at the median. In the same rounds ATF takes {svg.number(over)} × its budget.{explained}"
    )
    return [_BY_THE_PEERS, _rates_beside_the_trial(found), said]


def _rates_beside_the_trial(found: Mapping[str, Result]) -> str:
    lines = [
        "| peer | end-to-end, trial (tasks/s) | here | of the trial's | drain, trial (tasks/s) | here | of the trial's |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in trial.END_TO_END_PER_S:
        cells = [SYSTEMS[name].title]
        for asked, then in ((END_TO_END, trial.END_TO_END_PER_S[name]), (DRAIN, trial.DRAIN_PER_S[name])):
            here = _rate_here(found, asked, name) if comparable(found, asked, END_TO_END) else None
            cells += (
                [svg.number(then), NONE, NONE]
                if here is None
                else [svg.number(then), svg.number(here), svg.number(here / then)]
            )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rate_here(found: Mapping[str, Result], asked: str, name: str) -> float | None:
    result = found.get(asked)
    if result is None or failed(result, name):
        return None
    return figure(medians_of(result).get(name, {}), "per_s")


def beside_the_store(question: Question, found: Mapping[str, Result]) -> list[str]:
    """What the store has of a task's CPU, and how the rate that is to be reached compares with what its functions do alone."""
    result, said = found[question.name], []
    own = medians_of(result).get(OURS, {})
    total, store = figure(own, "cpu_us_total"), figure(own, "cpu_us.store")
    if total and store:
        said.append(
            f"Of the {svg.number(total)} µs of CPU that a task takes with ATF here the store has {svg.number(store)}, {100 * store / total:.0f} %."
        )
    if times := _floor_in_units_of_ours(found):
        another = (
            "" if comparable(found, FLOOR, END_TO_END) else ", of another code, machine or settings than these rounds"
        )
        said.append(
            f"The store's functions of a task's life alone, called in batches by one client, do {svg.number(times)} × ATF's rate beside them"
            f" ([floor](#floor){another})."
        )
        said += [
            f"{bar.limit:g} × {SYSTEMS[peer].title}'s rate are {svg.number(wanted)} × ATF's here, {_beside_the_limit(wanted / times)}."
            for bar in question.bars
            if (peer := bar.best(result["systems"], verdict(found.get(KILL)).safe))
            and (wanted := _in_units_of_ours(result, peer, bar))
        ]
    apart = figure(medians_of(found[CPU]).get(OURS, {}), "cpu_us_total") if CPU in found else None
    if total and apart:
        said.append(
            f"[{CPU}](#{CPU}) measures a task's CPU in rounds of its own, and finds {svg.number(apart)} µs; it says what differs."
        )
    return [" ".join(said)] if said else []


def _floor_in_units_of_ours(found: Mapping[str, Result]) -> float | None:
    """What the store's functions alone do in units of ATF's rate, both of the same rounds: of whichever code and machine, the same for both."""
    floor = found[FLOOR]["systems"] if FLOOR in found else {}
    return ratio(floor[FLOOR]["rounds"], floor[OURS]["rounds"], "per_s") if {OURS, FLOOR} <= floor.keys() else None


def _in_units_of_ours(result: Result, peer: str, bar: Bar) -> float | None:
    """The figure that a bar wants of ATF, in units of what ATF has beside that peer."""
    systems = result["systems"]
    found = ratio(systems[OURS]["rounds"], systems[peer]["rounds"], bar.figure) if OURS in systems else None
    return bar.limit / found if found else None


def _beside_the_limit(part: float) -> str:
    return f"{svg.number(part)} × what these functions do" + (": out of reach of this design" if part > 1 else "")


def resident_mib(result: Result) -> dict[str, float]:
    """What the processes of each system but client and store keep in memory: the medians of its roles, added up."""
    return {
        name: sum(mib for role, mib in roles.items() if role not in {"client", "store"})
        for name, each in medians_of(result).items()
        if not failed(result, name) and (roles := inner(each, "rss_mib"))
    }


def resident(result: Result) -> list[str]:
    """ATF's memory beside that of the peers."""
    together = resident_mib(result)
    peers = sorted((together[name], SYSTEMS[name].title) for name in PEERS if name in together)
    if OURS not in together or not peers:
        return []
    least, most = (f"{svg.number(mib)} MiB ({title})" for mib, title in (peers[0], peers[-1]))
    ours = svg.number(together[OURS])
    said = f"All processes but client and store together keep {ours} MiB resident with ATF, with the peers {least} to {most}"
    return [f"{said}; a page that several of them share counts in each."]


def other_rounds(questions: Mapping[str, Question], found: Mapping[str, Result]) -> str:
    """Why the CPU of a task stands on the page twice, in `cpu` and in `end-to-end`; "": it does not."""
    both = (CPU, END_TO_END)
    if not {*both} <= found.keys() or questions[CPU].measure is not questions[END_TO_END].measure:
        return ""
    alone, beside = (figure(medians_of(found[each]).get(OURS, {}), "cpu_us_total") for each in both)
    if alone is None or beside is None:
        return ""
    said = (
        f"ATF's {svg.number(alone)} µs in the rounds of `{CPU}` and {svg.number(beside)} in those of `{END_TO_END}` are of one and the same measurement,"
        f" taken at other times: {' and '.join(_rounds_of_ours(found[each]) for each in both)}."
    )
    if found[CPU]["sizes"] != found[END_TO_END]["sizes"] or not comparable(found, *both):
        return f"{said} They are not of the same sizes, machine, code, versions and settings."
    return (
        f"{said} Machine, code, versions, settings and sizes are the same in both; how fast the machine was just then is not recorded, so compare"
        " what stands in one table."
    )


def _rounds_of_ours(result: Result) -> str:
    """When ATF was measured, how often, beside whom, and what the machine did."""
    rounds = result["systems"][OURS]["rounds"]
    times, loads = sorted(each["at"] for each in rounds), [each["load"] for each in rounds]
    whom = "beside others" if len(result["systems"]) > 1 else "ATF alone"
    first, last = (each[:16].replace("T", " ") for each in (times[0], times[-1]))
    return f"{len(rounds)} runs from {first} to {last.removeprefix(first[:11])} ({whom}, load {svg.number(min(loads))} to {svg.number(max(loads))})"


def comparable(found: Mapping[str, Result], *questions: str) -> bool:
    """Whether these have results of one machine and one code, the systems that several of them have in the same versions and settings.

    The figures of others do not explain each other. The code is that of the product: two commits may have the same, since most change
    tests, words or results.
    """
    if not found.keys() >= {*questions}:
        return False
    same = ("cpu", "cores", "memory_mib", "kernel", "python", "interpreter", "server", "code")
    origins = {tuple(found[name].get(each) for each in same) for name in questions}
    set_as: dict[str, set[tuple[Any, ...]]] = {}
    for name in questions:
        for system, each in found[name]["systems"].items():
            if each["rounds"]:
                set_as.setdefault(system, set()).add((*sorted(each["versions"].items()), each["settings"]))
    return len(origins) == 1 and all(len(each) == 1 for each in set_as.values())
