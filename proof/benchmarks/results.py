"""Dated results of the benchmark, and the rounds that they are made of.

Every round of a system is a line of .build/bench/<code>-<measure>/<question>.jsonl, <code> a digest of the product's files and
<measure> of what measures them, so that a question which was interrupted goes on where it was, and can be asked in pieces. After
each piece proof/results/benchmarks/<date>-<question>-<code>.json holds all rounds of that code at these sizes. What could not run says "not run: why" there, never "ok".
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from atf.bench import proc
from proof.chaos import frame

from .known import PEERS, ROOT, SYSTEMS
from .question import FULL_ROUNDS, Question, Sizes, smaller
from .stats import count, figure, medians

RESULTS: Final = ROOT / "proof" / "results" / "benchmarks"
ROUNDS: Final = ROOT / ".build" / "bench"
NOT_RUN: Final = "not run: "
FAILED: Final = "failed: "
UNKNOWN: Final = "unknown"
"""The commit where git can't say it."""

_MEASURES: Final = ("driver.py", "floor.py", "ledger.py", "ours.py", "roles.py", "stats.py", "stores.py", "world.py")

_DECIDES: Final = (*frame.PRODUCT, "proof/benchmarks", "proof/chaos", "requirements", "tests", "tools")
"""What decides what a result means: the product, and what measures it."""

Round = dict[str, Any]


def rounds_folder() -> Path:
    """Where the rounds of this code are kept, as it is measured now."""
    digest, here = hashlib.sha256(), Path(__file__).parent
    for path in sorted([*here.glob("systems/*.py"), *here.glob("questions/*.py"), *map(here.joinpath, _MEASURES)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for path in sorted((ROOT / "requirements" / "peers").glob("*.txt")):
        digest.update(path.read_bytes())
    return ROUNDS / f"{frame.code()}-{digest.hexdigest()[:8]}"


def now() -> str:
    """An instant, for a round."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def rounds_of(folder: Path, question: Question, sizes: Sizes) -> list[Round]:
    """The rounds of a question that were done at these sizes."""
    wanted = sizes.as_json(question.sizes)
    return [each for each in frame.read_trials(folder / f"{question.name}.jsonl") if each["sizes"] == wanted]


def lacking(question: Question, systems: Sequence[str], rounds: Sequence[Round]) -> list[str]:
    """Of these systems those that have no figures yet in a round of which everything that was measured is given.

    In pairs only what was measured beside the pivot, in the same group, counts: a run that was stopped may have left a half of a pair.
    """
    measured: dict[Any, set[str]] = {}
    for each in rounds:
        if "figures" in each:
            measured.setdefault((each["run"], each.get("group")), set()).add(each["system"])
    whole = [names for names in measured.values() if question.pivot in names or not _in_pairs(question, systems)]
    there = set().union(*whole)
    return [name for name in systems if name not in there]


def _in_pairs(question: Question, systems: Sequence[str]) -> bool:
    return question.paired and question.pivot in systems


def groups(question: Question, number: int, systems: Sequence[str], missing: Sequence[str]) -> list[list[str]]:
    """In which order a round measures what is missing: what stands in one list is compared, and runs directly one after the other.

    Args:
        question: which.
        number: of the round; each begins with another system, so that none always runs on the machine as the same one left it.
        systems: those that take part.
        missing: those of them that are to be measured.
    """
    first = number % max(len(missing), 1)
    turned = [*missing[first:], *missing[:first]]
    if not _in_pairs(question, systems):
        return [[name] for name in turned]
    others = [name for name in turned if name != question.pivot]
    pairs = [others[start : start + 2] for start in range(0, len(others), 2)]
    # The pivot stands in the middle, so that it is the neighbour of both; of one alone it is now the first and now the second.
    found = [
        [*each[: number % 2], question.pivot, *each[number % 2 :]]
        if len(each) < 2
        else [each[0], question.pivot, each[1]]
        for each in pairs
    ]
    return found or [[question.pivot]] * (question.pivot in missing)


def result(
    question: Question, sizes: Sizes, asked: int, rounds: Sequence[Round], safe: Container[str] = ()
) -> dict[str, Any]:
    """The result of a question, from all its rounds.

    Args:
        question: which.
        sizes: of its measurements.
        asked: rounds that were asked for.
        rounds: all of them.
        safe: the peers of which it is known that they run every task.
    """
    used = sizes.as_json(question.sizes)
    found = {}
    for name in question.systems:
        mine = _by_best_way(question, name, [each for each in rounds if each["system"] == name])
        if mine:
            found[name] = _of_system(name, mine, asked)
    statuses = [each["status"] for each in found.values()]
    missing = [name for name in question.systems if name not in found]
    counts = [count(each["rounds"]) for each in found.values() if not each["status"].startswith(NOT_RUN)]
    least = min(counts, default=0)
    if not statuses or all(each.startswith(NOT_RUN) for each in statuses):
        status = statuses[0] if statuses else f"{NOT_RUN}no round was done"
    elif bad := [f"{name}: {each['status']}" for name, each in found.items() if each["status"].startswith(FAILED)]:
        status = FAILED + "; ".join(bad)
    else:
        status = "ok" if not missing and least >= asked else "in part"
    return {
        "question": question.name,
        "status": status,
        "figure": question.figure,
        "unit": question.unit,
        "more_is_better": question.more,
        "sizes": used,
        "full": not smaller(used) and rounds_that_count(question, found, safe) >= FULL_ROUNDS,
        "done": sum(len(each["rounds"]) for each in found.values()),
        "runs": len({each["run"] for each in rounds}),
        "systems": found,
        "missing": missing,
        **frame.circumstances(),
        **origin(),
        "cpu": proc.cpu_model(),
        "interpreter": " ".join(sys.version.split()),
    }


def origin(root: Path = ROOT) -> dict[str, Any]:
    """The commit that is measured, and whether files that decide what the result means have been changed since.

    Where git can't say it, the commit is "unknown", and dirty None: nothing is known of changes.
    """
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", *_DECIDES)
    return {"commit": commit or UNKNOWN, "dirty": None if changed is None else bool(changed)}


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def rounds_that_count(question: Question, found: Mapping[str, Any], safe: Container[str] = ()) -> int:
    """The rounds of ATF, of the best peer, of the best one that is safe, and of those that bars judge and compare with, whichever has fewest;
    none as long as one that is judged was not asked. Slower peers may have fewer still: a ratio to them decides nothing. Where every
    system's rounds decide something they all count.
    """
    judged = {bar.of for bar in question.bars}
    if not judged <= found.keys():
        return 0
    best = judged | {name for bar in question.bars if (name := bar.best(found, safe))}
    for peers in (PEERS, [name for name in PEERS if name in safe]):
        best |= {name for name in [best_of(question, found, peers)] if name}
    counts = [
        count(each["rounds"])
        for name, each in found.items()
        if (question.every or SYSTEMS[name].ours or name in best) and not each["status"].startswith(NOT_RUN)
    ]
    return min(counts, default=0)


def best_of(question: Question, found: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Who of these has the best median; None: none has any."""
    medians_ = {
        name: value
        for name in names
        if name in found and (value := figure(found[name]["median"], question.figure)) is not None
    }
    return (max if question.more else min)(medians_, key=lambda name: medians_[name]) if medians_ else None


def _by_best_way(question: Question, name: str, mine: list[Round]) -> list[Round]:
    """A system's rounds with the figure of one and the same way: the better draw of each round would be better than any way is."""
    found = medians([each["figures"] for each in mine if "figures" in each])
    ways = {way: found[way] for way in question.ways if way in found}
    if not ways:
        return mine
    way = question.ways[0] if SYSTEMS[name].ours else (max if question.more else min)(ways, key=lambda each: ways[each])
    return [
        each | {"figures": each["figures"] | {question.figure: each["figures"][way]}} if "figures" in each else each
        for each in mine
    ]


def _of_system(name: str, mine: Sequence[Round], asked: int) -> dict[str, Any]:
    good = [each for each in mine if "figures" in each]
    figures = [each["figures"] for each in good]
    last = mine[-1]
    if not good:
        status = NOT_RUN + last["not_run"] if "not_run" in last else FAILED + last.get("error", "no round was done")
    elif never := [each["never"] for each in figures if each.get("never")]:
        # What a kill costs a peer is what was asked.
        expected = not SYSTEMS[name].ours and all("killed" in each for each in figures)
        often = f", after {len(never)} of {len(figures)} kills" if expected else ""
        status = f"{'loses tasks: ' if expected else FAILED}{max(never)} tasks never ran{often}"
    elif (
        SYSTEMS[name].ours
        and any(each.get("twice") for each in figures)
        and not any("killed" in each for each in figures)
    ):
        status = f"{FAILED}{max(each.get('twice', 0) for each in figures)} tasks ran twice"
    else:
        status = "ok" if count(good) >= asked else f"in part: {count(good)} of {asked} rounds"
    return {
        "status": status,
        "median": medians(figures),
        "versions": good[-1]["versions"] if good else {},
        "settings": good[-1]["settings"] if good else "",
        "rounds": [_recorded(each) for each in good],
        "errors": [each["error"] for each in mine if "error" in each],
    }


def _recorded(one: Round) -> dict[str, Any]:
    where = {name: one[name] for name in ("run", "round", "group") if name in one}
    return {"at": one["at"], "load": one["load"], **where, **one["figures"]}


def medians_of(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Every system's medians."""
    return {name: each["median"] for name, each in result["systems"].items()}


def failed(result: Mapping[str, Any], name: str) -> bool:
    """Whether a system took part and failed."""
    return name in result["systems"] and str(result["systems"][name]["status"]).startswith(FAILED)


def write(found: dict[str, Any], folder: Path) -> Path:
    """Writes a result, unless that day's result of the same code is of more tasks or rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found['date']}-{found['question']}-{found['code']}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if before is None or _weight(before) <= _weight(found):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _weight(found: Mapping[str, Any]) -> tuple[bool, float, int]:
    sizes = [max(each) if isinstance(each, list) else each for each in found["sizes"].values()]
    return found["full"], sum(sizes), found["done"]


def latest(folder: Path, code: str = "") -> dict[str, dict[str, Any]]:
    """Of each question that has results the newest full one, else the newest; if so asked, of one code alone."""
    found: dict[str, dict[str, Any]] = {}
    read = [_as_counted_now(json.loads(path.read_text(encoding="utf-8"))) for path in folder.glob("*.json")]
    for each in sorted(read, key=lambda each: (each["full"], each["at"])):
        if code in {"", each["code"]}:
            found[each["question"]] = each
    return found


def _as_counted_now(result: dict[str, Any]) -> dict[str, Any]:
    """A result that was called full when some questions needed fewer rounds for that is not full if ATF has too few of them."""
    ours = [count(each["rounds"]) for name, each in result["systems"].items() if SYSTEMS[name].ours and each["rounds"]]
    return result | {"full": result["full"] and min(ours, default=FULL_ROUNDS) >= FULL_ROUNDS}
