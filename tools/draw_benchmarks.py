"""Draws docs/benchmarks/ from the results in benchmarks/ and the words in docs/benchmarks/words.toml, or checks that it is current."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the questions are not installed

from tests.bench import levels, results, svg  # noqa: E402
from tests.bench.known import AT_LEAST_ONCE, FLOOR, OURS, PEERS, SYSTEMS  # noqa: E402
from tests.bench.question import FULL_ROUNDS, Question, all_questions, smaller  # noqa: E402
from tests.bench.run import settings  # noqa: E402
from tests.bench.stats import figure, inner, ratio, spelled  # noqa: E402

FOLDER: Final = ROOT / "docs" / "benchmarks"
WORDS: Final = FOLDER / "words.toml"
_NONE: Final = "–"
_LOSES: Final = "loses what a killed process had taken from the queue"
_END_TO_END: Final = "end-to-end"
_CPU: Final = "cpu"

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
        parts.append(_section(question, found.get(name), words.get("questions", {}).get(name, {}), machines))
        if name == _CPU and _END_TO_END in found and (also := _cpu_of_others(question, found)):
            parts.append(also)
        if name == _END_TO_END and FLOOR in found and (sentence := _floor(found[FLOOR])):
            parts.append(sentence)
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
        bars = "; ".join(each.words for each in question.bars) or _NONE
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
            _shown(own, question.unit) if own is not None else _status(result, OURS),
            f"{SYSTEMS[best[0]].title}, {_shown(best[1], question.unit)}" if best else _NONE,
            _times(_ratio(question, result, OURS, best[0])) if best else _NONE,
            bars,
            _reached(question, result),
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


def _reached(question: Question, result: Result) -> str:
    """Of each bar whether it was reached; not known as long as a peer is missing that it compares with."""
    said = []
    for bar in question.bars:
        reached = bar.reached(result["systems"])
        missing = [name for name in bar.against if name not in result["systems"] or _failed(result, name)]
        if reached is None or missing or _failed(result, bar.of):
            said.append("not known")
            continue
        value, enough = reached
        small = "" if result["full"] else "at small sizes " if smaller(result["sizes"]) else "in few rounds "
        said.append(f"{small}{'yes' if enough else '**no**'}, {svg.number(value)}{' ×' if bar.against else ''}")
    return "; ".join(said) or _NONE


def _failed(result: Result, name: str) -> bool:
    return name in result["systems"] and str(result["systems"][name]["status"]).startswith(results.FAILED)


def _shown(value: float, unit: str) -> str:
    return f"{svg.number(value)} {unit}"


# --- one question -----------------------------------------------------------------------------------------------------


def _section(question: Question, result: Result | None, words: Mapping[str, str], machines: list[str]) -> str:
    parts = [f"## {question.name}", f"{question.what[0].upper()}{question.what[1:]}."]
    if result is None:
        return "\n\n".join([*parts, "Not run: no result is recorded."])
    if _bars(question, result):
        parts.append(f"![{question.what}]({question.name}.svg)")
    parts.append(_table(question, result))
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
    if why := words.get("why"):
        parts.append(why.strip())
    return "\n\n".join(parts)


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
    wanted = min(FULL_ROUNDS, question.rounds)
    return (
        f"The sizes are those of a full measurement, which has {wanted} rounds; not all here have so many:"
        " what differs by less than the rounds of one system do says nothing."
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
    lines = ["| role of ATF | budget (µs) | measured (µs) | over by (µs) |", "|---|---|---|---|"]
    over = {role: measured.get(role, 0.0) - may for role, may in question.budget.items()}
    for role, may in question.budget.items():
        lines.append(
            f"| {role} | {svg.number(may)} | {svg.number(measured.get(role, 0.0))} | {svg.number(over[role])} |"
        )
    together = sum(question.budget.values()), sum(measured.values())
    lines.append(
        f"| sum of these | {svg.number(together[0])} | {svg.number(together[1])} | {svg.number(together[1] - together[0])} |"
    )
    worst = max(over, key=lambda role: over[role])
    largest = (
        f"The largest excess is that of: {worst}, {svg.number(over[worst])} µs."
        if over[worst] > 0
        else "None is over it."
    )
    return "\n".join(lines) + f"\n\n{largest}"


def _cpu_of_others(question: Question, found: Mapping[str, Result]) -> str:
    """What the rounds of `end-to-end` took, which measure the same, as long as not every system was asked for its CPU by itself."""
    if question.name in found and set(question.systems) <= set(found[question.name]["systems"]):
        return ""
    return f"The rounds of [{_END_TO_END}](#{_END_TO_END}) measure it, too:\n\n{_table(question, found[_END_TO_END])}"


def _floor(result: Result) -> str:
    """How far ATF is from the limit of its design, both measured in turns."""
    systems = result["systems"]
    if FLOOR not in systems or OURS not in systems:
        return ""
    limit = figure(systems[FLOOR]["median"], "per_s")
    part = ratio(systems[OURS]["rounds"], systems[FLOOR]["rounds"], "per_s")
    if limit is None or part is None:
        return ""
    return f"The store's functions alone, called in batches by one client, do {svg.number(limit)} tasks/s ([floor](#floor)); ATF's rate beside it is {100 * part:.0f} % of that."


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
            f"{len(rounds)}: {svg.number(min(rounds))} to {svg.number(max(rounds))}" if rounds else _NONE,
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
    found = result["systems"].get(name)
    return str(found["status"]) if found else "not run"


def _settings() -> Iterator[str]:
    """What the docstring of each system's module says."""
    for system in SYSTEMS.values():
        if system.module == system.name:
            yield f"### {system.title}"
            yield settings(system)


if __name__ == "__main__":
    main()
