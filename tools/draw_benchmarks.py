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
from tests.bench.known import AT_LEAST_ONCE, FLOOR, OURS, SYSTEMS  # noqa: E402
from tests.bench.question import Question, all_questions  # noqa: E402
from tests.bench.run import settings  # noqa: E402
from tests.bench.stats import figure, inner, spelled  # noqa: E402

FOLDER: Final = ROOT / "docs" / "benchmarks"
WORDS: Final = FOLDER / "words.toml"
_NONE: Final = "–"
_LOSES: Final = "loses what a killed process had taken from the queue"
_BESIDE_THE_FLOOR: Final = "end-to-end"

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
        if name == _BESIDE_THE_FLOOR and FLOOR in found and (sentence := _floor(found[FLOOR])):
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
            f"{svg.number(own / best[1])} ×" if own is not None and best and best[1] else _NONE,
            bars,
            _reached(question, result),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _medians(result: Result) -> dict[str, Mapping[str, Any]]:
    return {name: each["median"] for name, each in result["systems"].items()}


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
        reached = bar.reached(_medians(result))
        missing = [name for name in bar.against if name in result["missing"] or _failed(result, name)]
        if reached is None or missing or _failed(result, OURS):
            said.append("not known")
            continue
        value, enough = reached
        small = "" if result["full"] else "at small sizes "
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
    parts.append(_when(result, machines))
    parts += [f"Not run: {why}" for why in _not_run(result)]
    if result["status"] != "ok":
        parts.append(f"This result is {result['status']}.")
    if not result["full"]:
        parts.append(
            "These are sizes or rounds smaller than those of a full measurement: they only show that it works."
        )
    parts += [f"{words[slot].strip()}" for slot in ("ahead", "why") if words.get(slot)]
    return "\n\n".join(parts)


def _floor(result: Result) -> str:
    """How far ATF is from the limit of its design, both measured in turns."""
    medians = _medians(result)
    limit, own = (medians.get(name, {}).get("per_s") for name in (FLOOR, OURS))
    if not limit or own is None:
        return ""
    rate = svg.number(limit)
    return f"The store's functions alone, called in batches by one client, do {rate} tasks/s ([floor](#floor)); ATF's rate beside it is {100 * own / limit:.0f} % of that."


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
    own = figure(result["systems"].get(OURS, {}).get("median", {}), question.figure)
    for name, each in result["systems"].items():
        value = figure(each["median"], question.figure)
        rounds = [found for one in each["rounds"] if (found := figure(one, question.figure)) is not None]
        versions = ", ".join(f"{what} {which}" for what, which in each["versions"].items())
        cells = [
            f"{SYSTEMS[name].title}{f' ({versions})' if versions else ''}",
            svg.number(value) if value is not None else _NONE,
            f"{len(rounds)}: {svg.number(min(rounds))} to {svg.number(max(rounds))}" if rounds else _NONE,
            f"{svg.number(value / own)} ×" if value is not None and own else _NONE,
            *(_also(each["median"], path) for path in question.also),
            str(each["status"]) + (f"; {_LOSES}" if SYSTEMS[name].loses else ""),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += [
        f"| {SYSTEMS[name].title} |" + f" {_NONE} |" * (len(head) - 2) + " not run |" for name in result["missing"]
    ]
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
    return f"{result['date']}, {result['commit'][:8]}{changed}, {sizes}{runs}, machine {number}."


def _size(value: Any) -> str:
    return ", ".join(map(_size, value)) if isinstance(value, Sequence) else f"{value:,g}"


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
