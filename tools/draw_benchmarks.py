"""Draws docs/benchmarks/ from the results in benchmarks/ and the words in docs/benchmarks/words.toml, or checks that it is current."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the questions are not installed

from tests.bench import levels, results, svg, trial  # noqa: E402
from tests.bench.known import AT_LEAST_ONCE, FLOOR, OURS, PEERS, SYSTEMS  # noqa: E402
from tests.bench.question import FULL_ROUNDS, Question, all_questions, smaller  # noqa: E402
from tests.bench.run import settings  # noqa: E402
from tests.bench.stats import figure, inner, of_rounds, ratio, spelled, spread  # noqa: E402

FOLDER: Final = ROOT / "docs" / "benchmarks"
WORDS: Final = FOLDER / "words.toml"
_NONE: Final = "–"
_LOSES: Final = "loses what a killed process had taken from the queue"
_END_TO_END: Final = "end-to-end"
_DRAIN: Final = "drain"
_CPU: Final = "cpu"
FIGURE: Final = re.compile(r"\{(?P<question>[a-z-]+)/(?P<system>[a-z-]+):(?P<path>[\w.-]+)\}")
"""In the words a median of a recorded result: {batch/atf:submit_cpu_us.store}."""

Result = Mapping[str, Any]
Pages = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws docs/benchmarks/ from the results in benchmarks/.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the pages are not what would be written"
    )
    args = parser.parse_args()
    pages = draw(all_questions(), results.latest(results.RESULTS), tomllib.loads(WORDS.read_text(encoding="utf-8")))
    stale = [name for name, text in pages.items() if _read(FOLDER / name) != text]
    left_over = sorted(each.name for each in FOLDER.glob("*.svg") if each.name not in pages)
    if args.check and (stale or left_over):
        sys.exit(
            f"docs/benchmarks/ is not what the results in benchmarks/ say ({', '.join([*stale, *left_over])})."
            " Run make benchmarks and commit the pages."
        )
    for name in stale:
        (FOLDER / name).write_text(pages[name], encoding="utf-8")
        print(f"wrote {FOLDER / name}")
    for name in left_over:
        (FOLDER / name).unlink()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def draw(questions: Mapping[str, Question], found: Mapping[str, Result], words: Mapping[str, Any]) -> Pages:
    """Every file of the folder by name: the page, and a picture for each question that has figures."""
    machines: list[str] = []
    parts = [f"# {words['title']}", words["intro"].strip(), overview(questions, found)]
    pages: Pages = {}
    for name, question in questions.items():
        why = filled(words.get("questions", {}).get(name, {}).get("why", ""), found)
        parts.append(_section(questions, question, found, why, machines))
        if name == _CPU and name in found:
            parts += _beside_the_trial(question, found)
        if name == _CPU and _END_TO_END in found and (also := _cpu_of_others(question, found)):
            parts.append(also)
        if name == _END_TO_END and name in found:
            parts += _beside_the_store(question, found)
        if name in found and (bars := _bars(question, found[name])):
            pages[f"{name}.svg"] = svg.chart(question.what, question.unit, bars)
    parts += ["## How each system is set", *_settings()]
    if machines:
        parts += ["## Machines", "\n".join(f"{number}. {each}" for number, each in enumerate(machines, 1))]
    return {"index.md": "\n\n".join(parts) + "\n", **pages}


# --- the table of all questions ---------------------------------------------------------------------------------------


def overview(questions: Mapping[str, Question], found: Mapping[str, Result]) -> str:
    """A line per question: ours, the best peer's, and what was to be reached."""
    lines = ["| question | ATF | best peer | ATF to it | to reach | reached |", "|---|---|---|---|---|---|"]
    for name, question in questions.items():
        result = found.get(name)
        judged = _judged(questions, question, found)
        bars = "; ".join(words for words, _ in judged) or _NONE
        if result is None:
            lines.append(
                f"| [{name}](#{name}) | not run: no result is recorded | {_NONE} | {_NONE} | {bars} | {_NONE} |"
            )
            continue
        medians = _medians(result)
        own = figure(medians.get(OURS, {}), question.figure)
        best = _best(question, result)
        cells = [
            f"[{name}](#{name})",
            _shown(own, question.unit) + _few(result, OURS) if own is not None else _status(result, OURS),
            f"{SYSTEMS[best[0]].title}, {_shown(best[1], question.unit)}{_few(result, best[0])}" if best else _NONE,
            _times(_ratio(question, result, OURS, best[0])) if best else _NONE,
            bars,
            "; ".join(reached for _, reached in judged) or _NONE,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _medians(result: Result) -> dict[str, Mapping[str, Any]]:
    return {name: each["median"] for name, each in result["systems"].items()}


def _ratio(question: Question, result: Result, name: str, other: str) -> float | None:
    """A system's figure in units of another one's, round by round."""
    systems = result["systems"]
    if name not in systems or other not in systems:
        return None
    return ratio(systems[name]["rounds"], systems[other]["rounds"], question.figure)


def _times(value: float | None) -> str:
    return _NONE if value is None else f"{svg.number(value)} ×"


def _best(question: Question, result: Result) -> tuple[str, float] | None:
    """The best peer, those left out that failed or that a kill costs tasks: being fast at losing is no merit."""
    others = {
        name: value
        for name, each in _medians(result).items()
        if name in AT_LEAST_ONCE
        and not result["systems"][name]["status"].startswith(results.FAILED)
        and (value := figure(each, question.figure)) is not None
    }
    if not others:
        return None
    name = (max if question.more else min)(others, key=lambda each: others[each])
    return name, others[name]


def _few(result: Result, name: str) -> str:
    """How many rounds of a system there are, where they are fewer than a full measurement has."""
    count = len(result["systems"][name]["rounds"])
    return "" if count >= FULL_ROUNDS else f" ({of_rounds(count, FULL_ROUNDS)} rounds)"


def _judged(
    questions: Mapping[str, Question], question: Question, found: Mapping[str, Result]
) -> list[tuple[str, str]]:
    """The words of each bar, those of other questions that belong to this one included, and whether it was reached."""
    judged = _reached(question, found.get(question.name))
    for name in question.also_judged:
        if name in questions:
            also = _reached(questions[name], found.get(name))
            judged += [(f"{words} ([{name}](#{name}))", reached) for words, reached in also]
    return judged


def _reached(question: Question, result: Result | None) -> list[tuple[str, str]]:
    """Of each bar whether it was reached; not known as long as a peer is missing that it compares with."""
    said: list[str] = []
    if result is None:
        return [(bar.words, "not known") for bar in question.bars]
    for bar in question.bars:
        reached = bar.reached(result["systems"])
        missing = [name for name in bar.against if name not in result["systems"] or _failed(result, name)]
        if reached is None or missing or _failed(result, bar.of):
            said.append("not known")
            continue
        value, enough = reached
        few = of_rounds(results.rounds_that_count(question, result["systems"]), FULL_ROUNDS)
        small = "" if result["full"] else "at small sizes " if smaller(result["sizes"]) else f"in {few} rounds "
        said.append(f"{small}{'yes' if enough else '**no**'}, {svg.number(value)}{' ×' if bar.against else ''}")
    return [(bar.words, each) for bar, each in zip(question.bars, said, strict=True)]


def _failed(result: Result, name: str) -> bool:
    return name in result["systems"] and str(result["systems"][name]["status"]).startswith(results.FAILED)


def _shown(value: float, unit: str) -> str:
    return f"{svg.number(value)} {unit}"


# --- one question -----------------------------------------------------------------------------------------------------


def _section(
    questions: Mapping[str, Question], question: Question, found: Mapping[str, Result], why: str, machines: list[str]
) -> str:
    parts = [f"## {question.name}", f"{question.what[0].upper()}{question.what[1:]}."]
    result = found.get(question.name)
    if result is None:
        return "\n\n".join([*parts, "Not run: no result is recorded."])
    if _bars(question, result):
        parts.append(f"![{question.what}]({question.name}.svg)")
    parts.append(_table(question, result))
    if judged := _judged(questions, question, found):
        parts.append("\n".join(f"* to reach: {words}; reached: {reached}" for words, reached in judged))
    if question.by_level and (table := levels.table(question, result)):
        parts.append(table)
    if question.budget and (table := _budget(question, result)):
        parts.append(table)
    parts.append(_when(result, machines))
    parts += [f"Not run: {why}" for why in _not_run(result)]
    if result["status"] != "ok":
        parts.append(f"This result is {result['status']}.")
    if not result["full"]:
        parts.append(_not_full(question, result))
    if ahead := _ahead(question, result):
        parts.append(ahead)
    if why:
        parts.append(why)
    return "\n\n".join(parts)


def filled(words: str, found: Mapping[str, Result]) -> str:
    """Words with the figures that they name, each as FIGURE has it; a figure that is not recorded is a dash."""

    def shown(match: re.Match[str]) -> str:
        value = recorded(match, found)
        return _NONE if value is None else svg.number(value)

    return FIGURE.sub(shown, words).strip()


def recorded(match: re.Match[str], found: Mapping[str, Result]) -> float | None:
    """The figure that words name; None: it is not recorded."""
    result = found.get(match["question"])
    return figure(_medians(result).get(match["system"], {}), match["path"]) if result else None


def _not_full(question: Question, result: Result) -> str:
    """In what a result falls short of a full measurement."""
    if small := smaller(result["sizes"]):
        sizes = ", ".join(
            f"{name.replace('_', ' ')} {_size(result['sizes'][name])} in place of {_size(full)}"
            for name, full in small.items()
        )
        return (
            f"These sizes are smaller than those of a full measurement ({sizes}): their figures are a first indication."
        )
    count = results.rounds_that_count(question, result["systems"])
    return (
        f"{of_rounds(count, FULL_ROUNDS)} rounds: the sizes are those of a full measurement, which has {FULL_ROUNDS} rounds of ATF and of those"
        " that decide what was reached. What differs by less than the rounds of one system do says nothing."
    )


def ahead(question: Question, result: Result) -> dict[str, float]:
    """The peers whose figure is better than ATF's, and that figure in units of ATF's, the best first."""
    found = {
        name: round(value, 2)
        for name in PEERS
        if not _failed(result, name) and (value := _ratio(question, result, name, OURS)) is not None
    }
    better = {name: value for name, value in found.items() if (value > 1 if question.more else value < 1)}
    return dict(sorted(better.items(), key=lambda each: each[1], reverse=question.more))


def _ahead(question: Question, result: Result) -> str:
    said = [
        f"{SYSTEMS[name].title} ({_times(value)} ATF's{f', and {_LOSES}' if SYSTEMS[name].loses else ''})"
        for name, value in ahead(question, result).items()
    ]
    return f"Ahead of ATF: {'; '.join(said)}." if said else ""


def _budget(question: Question, result: Result) -> str:
    """What each role may take, what it takes, and which is most beyond what it may."""
    measured = inner(_medians(result).get(OURS, {}), "cpu_us")
    if not measured:
        return ""
    lines = ["| role of ATF | budget (µs) | measured (µs) | over by (µs) | of its budget |", "|---|---|---|---|---|"]
    taken = {role: (may, measured[role]) for role, may in question.budget.items() if role in measured}
    over = {role: took - may for role, (may, took) in taken.items()}
    together = sum(may for may, _ in taken.values()), sum(took for _, took in taken.values())
    for role, (may, took) in {**taken, "sum of these": together}.items():
        cells = [role, svg.number(may), svg.number(took), svg.number(took - may), _times(took / may if may else None)]
        lines.append("| " + " | ".join(cells) + " |")
    order = sorted((role for role in over if over[role] > 0), key=lambda role: -over[role])
    said = ", ".join(f"{role} {svg.number(over[role])} µs" for role in order)
    return "\n".join(lines) + (f"\n\nOver it, the largest first: {said}." if said else "\n\nNone is over it.")


def _beside_the_trial(question: Question, found: Mapping[str, Result]) -> list[str]:
    """How much of what is over the budget the machine explains: by the peers, which were measured on that of the trial, too."""
    kept = {
        name: here / then
        for name, then in trial.END_TO_END_PER_S.items()
        if (here := _rate_here(found, _END_TO_END, name))
    }
    measured = inner(_medians(found[question.name]).get(OURS, {}), "cpu_us")
    if not kept or not measured or not question.budget:
        return []
    most, middle = max(kept.values()), statistics.median(kept.values())
    # A machine that made all faster explains nothing of what is over.
    machine = sorted(max(1 / each, 1.0) for each in (most, middle))
    over = sum(measured.values()) / sum(question.budget.values())
    rest = sorted(over / each for each in machine)
    best = next(name for name, each in kept.items() if each == most)
    said = (
        f"While tasks are being scheduled the peers do here {svg.number(min(kept.values()))} to {svg.number(most)} × what they did in the trial,"
        f" {svg.number(middle)} × at the median. ATF takes {svg.number(over)} × its budget. Of that the machine explains a factor of {svg.number(machine[0])}"
        f" by {SYSTEMS[best].title}, which kept most of its rate, and of {svg.number(machine[1])} if all is put down to it that the median peer lost,"
        " which other versions, other settings and a busier machine may have cost as well."
        f" The rest, a factor of {svg.number(rest[0])} to {svg.number(rest[1])}, is ATF's own; the roles over their budgets stand above, the largest first."
    )
    return [_rates_beside_the_trial(found), said]


def _rates_beside_the_trial(found: Mapping[str, Result]) -> str:
    lines = [
        "| peer | end-to-end, trial (tasks/s) | here | of the trial's | drain, trial (tasks/s) | here | of the trial's |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in trial.END_TO_END_PER_S:
        cells = [SYSTEMS[name].title]
        for asked, then in ((_END_TO_END, trial.END_TO_END_PER_S[name]), (_DRAIN, trial.DRAIN_PER_S[name])):
            here = _rate_here(found, asked, name)
            cells += (
                [svg.number(then), _NONE, _NONE]
                if here is None
                else [svg.number(then), svg.number(here), svg.number(here / then)]
            )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rate_here(found: Mapping[str, Result], asked: str, name: str) -> float | None:
    result = found.get(asked)
    if result is None or _failed(result, name):
        return None
    return figure(_medians(result).get(name, {}), "per_s")


def _cpu_of_others(question: Question, found: Mapping[str, Result]) -> str:
    """What the rounds of `end-to-end` took, which measure the same, as long as not every system was asked for its CPU by itself."""
    if question.name in found and set(question.systems) <= set(found[question.name]["systems"]):
        return ""
    return f"The rounds of [{_END_TO_END}](#{_END_TO_END}) measure it, too:\n\n{_table(question, found[_END_TO_END])}"


def _beside_the_store(question: Question, found: Mapping[str, Result]) -> list[str]:
    """What the store has of a task's CPU, and how the rate that is to be reached compares with what its functions do alone."""
    result, said = found[question.name], []
    own = _medians(result).get(OURS, {})
    total, store = figure(own, "cpu_us_total"), figure(own, "cpu_us.store")
    if total and store:
        said.append(
            f"Of the {svg.number(total)} µs of CPU that a task takes with ATF here the store has {svg.number(store)}, {100 * store / total:.0f} %."
        )
    floor = found.get(FLOOR, {}).get("systems", {})
    limit = figure(floor.get(FLOOR, {}).get("median", {}), "per_s")
    part = ratio(floor[OURS]["rounds"], floor[FLOOR]["rounds"], "per_s") if {OURS, FLOOR} <= floor.keys() else None
    if limit and part:
        said.append(
            f"The store's functions of a task's life alone, called in batches by one client, do {svg.number(limit)} tasks/s in a run of their own ([floor](#floor));"
            f" ATF's rate beside them is {100 * part:.0f} % of that."
        )
        said += [
            f"{bar.limit:g} × {SYSTEMS[peer].title}'s median are {svg.number(bar.limit * rate)} tasks/s, {svg.number(bar.limit * rate / limit)} × what these functions do."
            for bar in question.bars
            if (peer := bar.best(result["systems"])) and (rate := figure(_medians(result)[peer], bar.figure))
        ]
    return [" ".join(said)] if said else []


def _not_run(result: Result) -> list[str]:
    """What a round left out, and why: each once."""
    said = [
        f"{SYSTEMS[name].title} with {what}: {why}."
        for name, each in result["systems"].items()
        for one in each["rounds"]
        for what, why in one.get("not_run", {}).items()
    ]
    return list(dict.fromkeys(said))


def _bars(question: Question, result: Result) -> list[svg.Bar]:
    return levels.bars(question, result) if question.by_level else _bars_by_system(question, result)


def _bars_by_system(question: Question, result: Result) -> list[svg.Bar]:
    bars = []
    for name in question.systems:
        if name not in result["systems"]:
            continue
        each = result["systems"][name]
        value = figure(each["median"], question.figure)
        rounds = [found for one in each["rounds"] if (found := figure(one, question.figure)) is not None]
        if value is None:
            bars.append(svg.Bar(SYSTEMS[name].title, None, word=_short(each["status"])))
        else:
            bars.append(svg.Bar(SYSTEMS[name].title, value, min(rounds), max(rounds), SYSTEMS[name].ours))
    known = [each for each in bars if each.value is not None]
    return (
        sorted(known, key=lambda each: each.value or 0.0, reverse=question.more)
        + [each for each in bars if each.value is None]
        if known
        else []
    )


def _short(status: str) -> str:
    return status if len(status) <= 60 else f"{status[:57]}..."


def _table(question: Question, result: Result) -> str:
    also = [spelled(path) for path in question.also]
    head = ["system", f"median ({question.unit})", "rounds", "to ATF", *also, "result"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, each in result["systems"].items():
        value = figure(each["median"], question.figure)
        rounds = [found for one in each["rounds"] if (found := figure(one, question.figure)) is not None]
        versions = ", ".join(f"{what} {which}" for what, which in each["versions"].items())
        cells = [
            f"{SYSTEMS[name].title}{f' ({versions})' if versions else ''}",
            svg.number(value) if value is not None else _NONE,
            spread(rounds, FULL_ROUNDS, svg.number) or _NONE,
            _times(_ratio(question, result, name, OURS)),
            *(_also(each["median"], path) for path in question.also),
            str(each["status"]) + (f"; {_LOSES}" if SYSTEMS[name].loses else ""),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    # Those that became part of the question after the result was recorded are not in its list of what is missing.
    missing = [name for name in question.systems if name not in result["systems"]]
    lines += [f"| {SYSTEMS[name].title} |" + f" {_NONE} |" * (len(head) - 2) + " not run |" for name in missing]
    return "\n".join(lines)


def _also(medians: Mapping[str, Any], path: str) -> str:
    found = inner(medians, path)
    if isinstance(found, Mapping):
        return ", ".join(f"{name} {svg.number(value)}" for name, value in found.items()) or _NONE
    return svg.number(found)


def _when(result: Result, machines: list[str]) -> str:
    memory = f"{result['memory_mib'] / 1024:.0f} GiB"
    machine = f"{result['cpu']}, {result['cores']} cores, {memory}, {result['kernel']}, Python {result['python']}; {result['server']}"
    if machine not in machines:
        machines.append(machine)
    sizes = ", ".join(f"{name.replace('_', ' ')} {_size(value)}" for name, value in result["sizes"].items())
    changed = ", with changes" if result["dirty"] else ""
    runs = "" if result["runs"] == 1 else f", in {result['runs']} runs"
    number = machines.index(machine) + 1
    return f"{result['date']}, {result['commit'][:8]}{changed}, {sizes}{runs}, machine {number}{_load(result)}."


def _load(result: Result) -> str:
    """How many processes wanted a core in the minute before each round began."""
    loads = [each["load"] for system in result["systems"].values() for each in system["rounds"]]
    return f", load {svg.number(min(loads))} to {svg.number(max(loads))} on {result['cores']} cores" if loads else ""


def _size(value: Any) -> str:
    return ", ".join(map(_size, value)) if isinstance(value, Sequence) else f"{value:,.10g}"


def _status(result: Result, name: str) -> str:
    """In place of a figure: why there is none."""
    found = result["systems"].get(name)
    if not found:
        return "not run"
    status = str(found["status"])
    return (
        status if status.startswith((results.NOT_RUN, results.FAILED)) else "not known: its rounds have no such figure"
    )


def _settings() -> Iterator[str]:
    """What the docstring of each system's module says."""
    for system in SYSTEMS.values():
        if system.module == system.name:
            yield f"### {system.title}"
            yield settings(system)


if __name__ == "__main__":
    main()
