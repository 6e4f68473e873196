"""Draws docs/benchmarks/ from the results in proof/results/benchmarks/ and the words in docs/benchmarks/words.toml, or checks that it is current.

In docs/how-to/scaling.md it draws the figures alone: what stands between <!--=question/system:path--> and <!--/-->. Names in a path may have
spaces and commas, as those of levels have; without a system it is a path of the result itself: <!--=scale:cpu-->.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the questions are not installed

from proof.benchmarks import explain, killed, levels, results, svg  # noqa: E402
from proof.benchmarks.explain import CPU, END_TO_END, NONE, budget  # noqa: E402
from proof.benchmarks.known import OURS, PEERS, SYSTEMS  # noqa: E402
from proof.benchmarks.question import FULL_ROUNDS, Bar, Question, all_questions, smaller  # noqa: E402
from proof.benchmarks.results import failed, medians_of  # noqa: E402
from proof.benchmarks.run import settings  # noqa: E402
from proof.benchmarks.stats import count, figure, inner, of_rounds, ratios, spelled, spread  # noqa: E402
from proof.benchmarks.verdict import (  # noqa: E402
    QUESTION as KILL,
    BenchmarkVerdict,
    verdict,
)
from tools import benchmark_front  # noqa: E402

FOLDER: Final = ROOT / "docs" / "benchmarks"
WORDS: Final = FOLDER / "words.toml"
_LOSES: Final = "loses what a killed process had taken from the queue"
_UNKILLED: Final = "not killed with all the workers that it is measured with"
SCALING: Final = ROOT / "docs" / "how-to" / "scaling.md"
_NAMED: Final = r"(?P<question>[a-z-]+)(/(?P<system>[a-z-]+))?:(?P<path>\w([\w., -]*\w)?)"
FIGURE: Final = re.compile(rf"\{{{_NAMED}\}}")
"""In the words a median of a recorded result: {batch/atf:submit_cpu_us.store}."""
IN_PLACE: Final = re.compile(rf"(?P<before><!--={_NAMED}-->)[^<]*(?P<after><!--/-->)")
"""The same in a page that is written by hand, with the figure that was drawn last."""

Result = Mapping[str, Any]
Pages = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Draws docs/benchmarks/ from the results in proof/results/benchmarks/."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the pages are not what would be written"
    )
    args = parser.parse_args()
    found = results.latest(results.RESULTS)
    drawn = draw(all_questions(), found, tomllib.loads(WORDS.read_text(encoding="utf-8")))
    pages = {FOLDER / name: text for name, text in drawn.items()} | {SCALING: with_figures(_read(SCALING), found)}
    stale = [path for path, text in pages.items() if _read(path) != text]
    left_over = sorted(path for path in FOLDER.glob("*.svg") if path not in pages)
    if args.check and (stale or left_over):
        names = ", ".join(str(path.relative_to(ROOT)) for path in [*stale, *left_over])
        sys.exit(
            f"what is drawn is not what the results in proof/results/benchmarks/ say ({names}). Run make benchmarks and commit the pages."
        )
    for path in stale:
        path.write_text(pages[path], encoding="utf-8")
        print(f"wrote {path}")
    for path in left_over:
        path.unlink()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def draw(questions: Mapping[str, Question], found: Mapping[str, Result], words: Mapping[str, Any]) -> Pages:
    """Every file of the folder by name: the opening page, the method, the figures, and a picture for each question that has some."""
    machines: list[str] = []
    parts = [f"# {words['figures']['title']}", words["figures"]["intro"].strip(), overview(questions, found)]
    pages: Pages = {}
    for name, question in questions.items():
        why = filled(words.get("questions", {}).get(name, {}).get("why", ""), found)
        parts.append(_section(questions, question, found, why, machines))
        if name == CPU and explain.comparable(found, CPU, END_TO_END):
            parts += explain.beside_the_trial(question, found)
        if name == CPU and END_TO_END in found and (also := _cpu_of_others(question, found)):
            parts.append(also)
        if name == CPU and (twice := explain.other_rounds(questions, found)):
            parts.append(twice)
        if name == explain.DRAIN and name in found:
            parts += explain.resident(found[name])
        if name == KILL and (otherwise := killed.otherwise(found)):
            parts.append(otherwise)
        if name == END_TO_END and name in found:
            parts += explain.beside_the_store(question, found)
        if name in found and (bars := _bars(question, found[name])):
            pages[f"{name}.svg"] = svg.chart(question.what, question.unit, bars)
    if machines:
        parts += ["## Machines", "\n".join(f"{number}. {each}" for number, each in enumerate(machines, 1))]
    return {"figures.md": "\n\n".join(parts) + "\n", **pages, **around(questions, found, words)}


def around(questions: Mapping[str, Question], found: Mapping[str, Result], words: Mapping[str, Any]) -> Pages:
    """The pages in front of the figures: the opening page with its picture, and the method."""
    method = [f"# {words['method']['title']}", words["method"]["intro"].strip(), "## How each system is set"]
    lines = front_lines(questions, found)
    means = {name: filled(each["means"], found) for name, each in words["questions"].items() if "means" in each}
    pages = {
        "index.md": benchmark_front.page(words["front"], lines, means) + "\n",
        "method.md": "\n\n".join([*method, *_settings()]) + "\n",
    }
    return pages | ({benchmark_front.PICTURE: benchmark_front.picture(lines)} if benchmark_front.bars(lines) else {})


def front_lines(questions: Mapping[str, Question], found: Mapping[str, Result]) -> list[benchmark_front.Line]:
    """What the opening page shows of each question that has a figure of ATF's."""
    lines = []
    for name, question in questions.items():
        result = found.get(name)
        own = figure(medians_of(result).get(OURS, {}), question.figure) if result else None
        if result is None or own is None:
            continue
        best = _best(question, result, verdict(found.get(KILL)).safe)
        pairs = _ratios(question, result, OURS, best[0]) if best else []
        lines.append(
            benchmark_front.Line(
                name,
                _shown(own, question.unit),
                f"{SYSTEMS[best[0]].title}, {_shown(best[1], question.unit)}" if best else "",
                pairs if question.more else [1 / each for each in pairs if each],
            )
        )
    return lines


# --- the table of all questions ---------------------------------------------------------------------------------------


def overview(questions: Mapping[str, Question], found: Mapping[str, Result]) -> str:
    """A line per question: ours, the best peer's, and what was to be reached."""
    lines = ["| question | ATF | best peer | ATF to it | to reach | reached |", "|---|---|---|---|---|---|"]
    for name, question in questions.items():
        result = found.get(name)
        judged = _judged(questions, question, found)
        bars = "; ".join(words for words, _ in judged) or NONE
        if result is None:
            lines.append(f"| [{name}](#{name}) | not run: no result is recorded | {NONE} | {NONE} | {bars} | {NONE} |")
            continue
        medians = medians_of(result)
        own = figure(medians.get(OURS, {}), question.figure)
        best = _best(question, result, verdict(found.get(KILL)).safe)
        cells = [
            f"[{name}](#{name})",
            _shown(own, question.unit) + _few(result, OURS) if own is not None else _status(result, OURS),
            f"{SYSTEMS[best[0]].title}, {_shown(best[1], question.unit)}{_few(result, best[0])}" if best else NONE,
            _times(_ratios(question, result, OURS, best[0])) if best else NONE,
            bars,
            "; ".join(reached for _, reached in judged) or NONE,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ratios(question: Question, result: Result, name: str, other: str) -> list[float]:
    """A system's figure in units of another one's, pair by pair."""
    systems = result["systems"]
    if name not in systems or other not in systems:
        return []
    return ratios(systems[name]["rounds"], systems[other]["rounds"], question.figure)


def _times(pairs: Sequence[float], unit: str = " ×") -> str:
    """The median of ratios, and where there are several the least and largest."""
    if not pairs:
        return NONE
    least, most = svg.number(min(pairs)), svg.number(max(pairs))
    return f"{svg.number(statistics.median(pairs))}{unit}" + (f" ({least} to {most})" if len(pairs) > 1 else "")


def _best(question: Question, result: Result, safe: Container[str]) -> tuple[str, float] | None:
    """The best peer, those left out that failed or of which it is not known that a kill costs them nothing: being fast at losing is no merit."""
    peers = [name for name in PEERS if name in safe and not failed(result, name)]
    name = results.best_of(question, result["systems"], peers)
    return (name, figure(medians_of(result)[name], question.figure) or 0.0) if name else None


def _few(result: Result, name: str) -> str:
    """How many rounds of a system there are, where they are fewer than a full measurement has."""
    rounds = count(result["systems"][name]["rounds"])
    return "" if rounds >= FULL_ROUNDS else f" ({of_rounds(rounds, FULL_ROUNDS)} rounds)"


def _judged(
    questions: Mapping[str, Question], question: Question, found: Mapping[str, Result]
) -> list[tuple[str, str]]:
    """The words of each bar, those of other questions that belong to this one included, and whether it was reached."""
    kills = verdict(found.get(KILL))
    judged = _reached(question, found.get(question.name), kills)
    for name in question.also_judged:
        if name in questions:
            also = _reached(questions[name], found.get(name), kills)
            judged += [(f"{words} ([{name}](#{name}))", reached) for words, reached in also]
    return judged


def _reached(question: Question, result: Result | None, kills: BenchmarkVerdict) -> list[tuple[str, str]]:
    """Of each bar whether it was reached; not known as long as a peer is missing that it compares with, or was not killed and would be the best."""
    said: list[str] = []
    if result is None:
        return [(bar.words, "not known") for bar in question.bars]
    for bar in question.bars:
        reached = bar.reached(result["systems"], kills.safe)
        missing = [
            name
            for name in bar.against
            if name not in result["systems"]
            or failed(result, name)
            or (bar.at_least_once and name not in kills.safe | kills.loses and _would_be_best(bar, name, result, kills))
        ]
        if reached is None or missing or failed(result, bar.of):
            said.append("not known")
            continue
        few = of_rounds(results.rounds_that_count(question, result["systems"], kills.safe), FULL_ROUNDS)
        small = "" if result["full"] else "at small sizes " if smaller(result["sizes"]) else f"in {few} rounds "
        value = _times(reached.pairs) if bar.against else svg.number(reached.value)
        said.append(f"{small}{'yes' if reached.enough else '**no**'}, {value}")
    return [(bar.words, each) for bar, each in zip(question.bars, said, strict=True)]


def _would_be_best(bar: Bar, name: str, result: Result, kills: BenchmarkVerdict) -> bool:
    """Whether a peer would be the one to compare with if it were known that it loses nothing."""
    return bar.best(result["systems"], {*kills.safe, name}) == name


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
    kills = verdict(found.get(KILL))
    parts.append(_table(question, result, kills))
    if judged := _judged(questions, question, found):
        parts.append("\n".join(f"* to reach: {words}; reached: {reached}" for words, reached in judged))
    if question.by_level and (table := levels.table(question, result)):
        parts.append(table)
    if question.budget and (table := budget(question, result)):
        parts.append(table)
    parts.append(_when(result, machines))
    parts += [f"Not run: {why}" for why in _not_run(result)]
    parts += _falls_short(question, result, kills)
    if ahead := _ahead(question, result, kills):
        parts.append(ahead)
    if why:
        parts.append(why)
    return "\n\n".join(parts)


def filled(words: str, found: Mapping[str, Result]) -> str:
    """Words with the figures that they name, each as FIGURE has it; a figure that is not recorded is a dash."""
    return FIGURE.sub(lambda match: _named(match, found), words).strip()


def with_figures(page: str, found: Mapping[str, Result]) -> str:
    """A page that is written by hand, with the figures that it names as they are recorded now."""
    return IN_PLACE.sub(lambda match: f"{match['before']}{_named(match, found)}{match['after']}", page)


def _named(match: re.Match[str], found: Mapping[str, Result]) -> str:
    value = recorded(match, found)
    return NONE if value is None else value if isinstance(value, str) else svg.number(value)


def recorded(match: re.Match[str], found: Mapping[str, Result]) -> float | str | None:
    """The figure that words name, or what a result says of itself; None: it is not recorded."""
    result = found.get(match["question"])
    if result is None:
        return None
    value = inner(medians_of(result).get(match["system"], {}) if match["system"] else result, match["path"])
    return value if isinstance(value, int | float | str) else None


def _falls_short(question: Question, result: Result, kills: BenchmarkVerdict) -> list[str]:
    """What a result lacks, and what its ratios therefore can't tell."""
    said = [] if result["status"] == "ok" else [f"This result is {result['status']}."]
    if not result["full"]:
        said.append(_not_full(question, result, kills))
    rounds = [one for each in result["systems"].values() for one in each["rounds"]]
    if len(result["systems"]) > 1 and result["runs"] > 1 and not all("run" in one for one in rounds):
        said.append(
            "It is not recorded of which run its rounds are: those of one number, which are compared, may lie hours apart."
        )
    elif len(result["systems"]) > 1 and question.paired and not all("group" in one for one in rounds):
        said.append("It was measured in turns, not in pairs: those that are compared ran minutes apart.")
    if len(pythons := {which for each in result["systems"].values() if (which := each["versions"].get("python"))}) > 1:
        said.append(
            f"Its systems ran on different builds of Python ({', '.join(sorted(pythons))}), whose speed differs."
        )
    return said


def _not_full(question: Question, result: Result, kills: BenchmarkVerdict) -> str:
    """In what a result falls short of a full measurement."""
    if small := smaller(result["sizes"]):
        sizes = ", ".join(
            f"{name.replace('_', ' ')} {_size(result['sizes'][name])} in place of {_size(full)}"
            for name, full in small.items()
        )
        return (
            f"These sizes are smaller than those of a full measurement ({sizes}): their figures are a first indication."
        )
    rounds = results.rounds_that_count(question, result["systems"], kills.safe)
    return (
        f"{of_rounds(rounds, FULL_ROUNDS)} rounds: the sizes are those of a full measurement. That has {FULL_ROUNDS} rounds of ATF and of those"
        " that decide what was reached. A difference within the spread of one system's rounds says nothing."
    )


def ahead(question: Question, result: Result) -> dict[str, float]:
    """The peers whose figure is better than ATF's, and that figure in units of ATF's, the best first."""
    found = {
        name: round(statistics.median(pairs), 2)
        for name in PEERS
        if not failed(result, name) and (pairs := _ratios(question, result, name, OURS))
    }
    better = {name: value for name, value in found.items() if (value > 1 if question.more else value < 1)}
    return dict(sorted(better.items(), key=lambda each: each[1], reverse=question.more))


def _ahead(question: Question, result: Result, kills: BenchmarkVerdict) -> str:
    said = [
        f"{SYSTEMS[name].title} ({svg.number(value)} × ATF's{f', and {_LOSES}' if name in kills.loses else ''})"
        for name, value in ahead(question, result).items()
    ]
    return f"Ahead of ATF: {'; '.join(said)}." if said else ""


def _cpu_of_others(question: Question, found: Mapping[str, Result]) -> str:
    """What the rounds of `end-to-end` took, which measure the same, as long as not every system was asked for its CPU by itself."""
    if question.name in found and set(question.systems) <= set(found[question.name]["systems"]):
        return ""
    return f"The rounds of [{END_TO_END}](#{END_TO_END}) measure it, too:\n\n{_table(question, found[END_TO_END], verdict(found.get(KILL)))}"


def _not_run(result: Result) -> list[str]:
    """What a round left out, and why: each once."""
    said = [
        f"{SYSTEMS[name].title} with {what}: {why}."
        for name, each in result["systems"].items()
        for one in each["rounds"]
        for what, why in one.get("not_run", {}).items()
    ]
    return list(dict.fromkeys(said))


def _bars(question: Question, result: Result) -> list[svg.ChartBar]:
    return levels.bars(question, result) if question.by_level else _bars_by_system(question, result)


def _bars_by_system(question: Question, result: Result) -> list[svg.ChartBar]:
    bars = []
    for name in question.systems:
        if name not in result["systems"]:
            continue
        each = result["systems"][name]
        value = figure(each["median"], question.figure)
        rounds = [found for one in each["rounds"] if (found := figure(one, question.figure)) is not None]
        if value is None:
            bars.append(svg.ChartBar(SYSTEMS[name].title, None, word=_short(each["status"])))
        else:
            bars.append(svg.ChartBar(SYSTEMS[name].title, value, min(rounds), max(rounds), SYSTEMS[name].ours))
    known = [each for each in bars if each.value is not None]
    return (
        sorted(known, key=lambda each: each.value or 0.0, reverse=question.more)
        + [each for each in bars if each.value is None]
        if known
        else []
    )


def _short(status: str) -> str:
    return status if len(status) <= 60 else f"{status[:57]}..."


def _table(question: Question, result: Result, kills: BenchmarkVerdict) -> str:
    also = [spelled(path) for path in question.also]
    head = ["system", f"median ({question.unit})", "rounds", "to ATF", *also, "result"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, each in result["systems"].items():
        value = figure(each["median"], question.figure)
        versions = ", ".join(f"{what} {which}" for what, which in each["versions"].items())
        cells = [
            f"{SYSTEMS[name].title}{f' ({versions})' if versions else ''}",
            svg.number(value) if value is not None else NONE,
            spread(each["rounds"], question.figure, FULL_ROUNDS, svg.number) or NONE,
            "1 ×" if name == OURS and value is not None else _times(_ratios(question, result, name, OURS)),
            *(_also(each["median"], path) for path in question.also),
            str(each["status"]) + _by_kills(name, kills),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    # Those that became part of the question after the result was recorded are not in its list of what is missing.
    missing = [name for name in question.systems if name not in result["systems"]]
    lines += [f"| {SYSTEMS[name].title} |" + f" {NONE} |" * (len(head) - 2) + " not run |" for name in missing]
    return "\n".join(lines)


def _by_kills(name: str, kills: BenchmarkVerdict) -> str:
    """What kills have told of a peer, where it is no proof that it loses nothing."""
    module = SYSTEMS[name].module
    if module not in PEERS or module in kills.safe:
        return ""
    return f"; {_LOSES if module in kills.loses else _UNKILLED}"


def _also(medians: Mapping[str, Any], path: str) -> str:
    found = inner(medians, path)
    if isinstance(found, Mapping):
        return ", ".join(f"{name}: {svg.with_unit(value, path)}" for name, value in found.items()) or NONE
    return svg.number(found)


def _when(result: Result, machines: list[str]) -> str:
    memory = f"{result['memory_mib'] / 1024:.0f} GiB"
    machine = f"{result['cpu']}, {result['cores']} cores, {memory}, {result['kernel']}, Python {result.get('interpreter', result['python'])}; {result['server']}"
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
