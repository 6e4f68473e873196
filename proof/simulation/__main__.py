"""make sim, make mutants: plays many seeds, shows how far it is, and says what was found.

    python -m proof.simulation run --seeds 500 [--base N] [--seconds S]    many seeds
    python -m proof.simulation seed N [--mutant NAME] [--story]            one, with its story
    python -m proof.simulation mutants [NAME ...] [--seeds 200]            every bug must be caught

`make chaos ROW=simulation N=20000` and `ROW=mutants` do the same at length, go on where they were, and record it.

A seed decides everything: it plays the same way again, to the byte, under the same minor version of Python. Under another one it is not played.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any, Final

from atf.task import MOVES

from . import calls, mutants
from .apart import play_all
from .nemesis import KINDS
from .net import KINDS as NET_KINDS
from .play import Result

PYTHON: Final = (3, 11)
"""The minor version under which seeds replay: other versions order and draw differently."""
NOT_RUN: Final = 4
"""The exit code under another version: `make test` goes on, and everything else fails."""
FEWEST: Final = 20
"""Times that each kind of fault and each move must have been seen, for a run to mean something."""
SOME: Final = 100
"""Seeds of which each has to have been seen at all, also where time was up before all were played. The rarest is seen in one of eight."""
ENOUGH: Final = 5_000
"""Seeds of which what is scarce must have been seen as often, too: that each call was disturbed, and JOB_MOVES."""
JOB_MOVES: Final = ("hold", "hold back", "go on", "run for the last time")
"""Moves that only the ticks of a job make which is paused or deleted. One seed in ten has such a job."""


def main() -> int:
    """Returns the exit code: 0 as it should be, 1 something was found or not caught, 2 bad input, NOT_RUN."""
    parser = argparse.ArgumentParser(
        prog="proof.simulation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="seeds at a time; default: all cores"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    many = commands.add_parser("run")
    many.add_argument("--seeds", type=int, default=200)
    many.add_argument("--base", type=int, default=1, help="the first seed")
    many.add_argument("--seconds", type=float, default=0, help="start no more seeds after so long")
    many.add_argument("--lines", action="store_true", help="a line of JSON per seed, and nothing else")
    one = commands.add_parser("seed")
    one.add_argument("seed", type=int)
    one.add_argument("--mutant", default="", choices=["", *mutants.MUTANTS])
    one.add_argument("--story", action="store_true", help="tell it even if nothing is wrong")
    bugs = commands.add_parser("mutants")
    bugs.add_argument("names", nargs="*", metavar="NAME")
    bugs.add_argument("--quick", action="store_true", help="those of every test run")
    bugs.add_argument("--seeds", type=int, default=200)
    bugs.add_argument("--lines", action="store_true", help="a line of JSON per bug, and nothing else")
    options = parser.parse_args()
    unknown = [name for name in getattr(options, "names", []) if name not in mutants.MUTANTS]
    if unknown:
        parser.error(f"no mutant {', '.join(unknown)}; there are {', '.join(mutants.MUTANTS)}")
    if sys.version_info[:2] != PYTHON:
        why = f"seeds replay under Python {PYTHON[0]}.{PYTHON[1]} alone, and this is {sys.version.split()[0]}"
        print(
            f"\n*** THE SIMULATION WAS NOT RUN ***\nsim: not run: {why}; make PYTHON=python{PYTHON[0]}.{PYTHON[1]} ...",
            flush=True,
        )
        return NOT_RUN
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of words must have one order in every run
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-P", "-m", "proof.simulation", *sys.argv[1:]])
    return {"run": run, "seed": seed, "mutants": catch}[options.command](options)


def run(options: Any) -> int:
    """Plays many seeds; every breach is a failure, and so is a kind of fault that hardly occurred."""
    began = time.monotonic()
    wanted = range(options.base, options.base + options.seeds)
    results: dict[int, Result] = {}

    def seeds() -> Iterator[tuple[int, str]]:
        for number in wanted:
            if options.seconds and time.monotonic() - began > options.seconds:
                return
            yield number, ""

    progress = _Progress()
    for _, result in play_all(seeds(), options.jobs):
        results[result.seed] = result
        if options.lines:
            print(json.dumps(result.as_json()), flush=True)
            continue
        if result.wrong and all(not each.wrong for each in results.values() if each is not result):
            print(result.story)  # of the first one; the others tell theirs by make sim SEED=n
        _say_wrong(result)
        bad = sum(bool(each.wrong) for each in results.values())
        progress(f"{len(results)} of {len(wanted)} seeds, {bad} with a breach, {time.monotonic() - began:.0f} s")
    if options.lines:
        return 0
    took = time.monotonic() - began
    virtual = sum(each.virtual_s for each in results.values())
    failures = [f"seed {number}: {each.wrong[0]}" for number, each in sorted(results.items()) if each.wrong]
    faults: Counter[str] = Counter(dict.fromkeys((*KINDS, *NET_KINDS), 0))
    moves: Counter[str] = Counter({move.name: 0 for move in MOVES})
    ways: Counter[str] = Counter()
    tally: Counter[str] = Counter()
    for each in results.values():
        faults.update(each.faults)
        moves.update(each.moves)
        ways.update(each.calls)
        tally.update(each.tally)
    disturbed = calls.disturbed(ways)
    print(
        f"\nfaults: {_counted(faults)}\ncalls disturbed: {_counted(disturbed)}\nmoves: {_counted(moves)}\ntasks: {_counted(tally)}"
    )
    print(
        f"sim: {len(results)} seeds from {options.base}: {len(failures)} with a breach;"
        f" {virtual:.0f} virtual seconds in {took:.0f} s ({virtual / took:.0f} per second)"
        + ("" if len(results) == len(wanted) else f"; time was up, {len(wanted)} were asked for")
    )
    counts, scarce = apart({**faults, **moves}, disturbed, len(results))
    if seldom := _fewer(scarce):
        print(f"sim: seen fewer than {FEWEST} times, which is a failure of {ENOUGH} seeds: {'; '.join(seldom)}")
    failed, said = too_little(counts, len(results), len(wanted))
    if said:
        print(f"sim: {said}")
    failures += [said] if failed else []
    return 1 if failures else 0


def apart(
    counts: Mapping[str, int], disturbed: Mapping[str, int], played: int
) -> tuple[dict[str, int], dict[str, int]]:
    """What so many seeds must have shown, and what only ENOUGH of them must.

    Args:
        counts: of each fault and move.
        disturbed: of each call.
        played: seeds.
    """
    scarce = {**disturbed, **{name: counts[name] for name in JOB_MOVES}}
    if played >= ENOUGH:
        return {**counts, **scarce}, {}
    return {name: count for name, count in counts.items() if name not in scarce}, scarce


def too_little(counts: Mapping[str, int], played: int, wanted: int) -> tuple[bool, str]:
    """Whether so little has happened that a run means too little, and what is to be said of that; "": nothing.

    Args:
        counts: of each fault and move.
        played: seeds.
        wanted: seeds that were asked for: time may have been up before.
    """
    few, never = _fewer(counts), [name for name, count in sorted(counts.items()) if not count]
    if few and played == wanted:
        return True, f"too little has happened to mean something (fewer than {FEWEST} times): {'; '.join(few)}"
    if never and played >= SOME:
        return True, f"in {played} seeds these never happened, which is no chance: {'; '.join(never)}"
    if few:
        return False, f"fewer than {FEWEST} times, which is a failure only if all seeds were played: {'; '.join(few)}"
    return False, ""


def _fewer(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} {count} times" for name, count in sorted(counts.items()) if count < FEWEST]


def seed(options: Any) -> int:
    """Plays one seed, and tells its story."""
    ((_, result),) = play_all([(options.seed, options.mutant)], 1)
    if result.wrong or options.story:
        print(result.story)
    _say_wrong(result)
    print(
        f"seed {result.seed}: {_counted(result.tally)}; {result.virtual_s:.0f} virtual seconds; digest {result.digest}"
    )
    return 1 if result.wrong else 0


def catch(options: Any) -> int:
    """Plays seeds with each bug until one shows it."""
    names = list(mutants.QUICK) if options.quick else options.names or list(mutants.MUTANTS)
    began = time.monotonic()
    kinds: Counter[str] = Counter()
    missed: list[str] = []
    for name in names:
        found = first_caught(name, options)
        if options.lines:
            print(json.dumps(caught(name, found)), flush=True)
            continue
        if found is None:
            missed.append(name)
            by = f" by {mutants.MUTANTS[name].by}" if mutants.MUTANTS[name].by else ""
            print(f"{name}: NOT CAUGHT{by} in {options.seeds} seeds: {mutants.MUTANTS[name].what}", flush=True)
            continue
        kinds.update(found.kinds)
        text = _sentence(name, found)
        print(
            f"{name}: caught by seed {found.seed}: {', '.join(found.kinds)} ({mutants.MUTANTS[name].what}): {text[:100]}",
            flush=True,
        )
    if options.lines:
        return 0
    print(
        f"mutants: {len(names) - len(missed)} of {len(names)} caught within {options.seeds} seeds, in {time.monotonic() - began:.0f} s;"
        f" by {', '.join(f'{kind} {kinds[kind]}' for kind in mutants.KINDS)}"
    )
    return 1 if missed else 0


def caught(name: str, found: Result | None) -> dict[str, Any]:
    """What `--lines` says of a mutant."""
    if found is None:
        return {"mutant": name, "seed": 0, "kinds": [], "text": ""}
    return {"mutant": name, "seed": found.seed, "kinds": found.kinds, "text": _sentence(name, found)}


def _sentence(name: str, found: Result) -> str:
    """The first sentence of the breach that has to catch a mutant; where any has, the first of all."""
    by = mutants.MUTANTS[name].by
    return next(text for breach, _, text in found.found if by in {"", breach})


def first_caught(name: str, options: Any) -> Result | None:
    stop = False

    def seeds() -> Iterator[tuple[int, str]]:
        for number in islice(filter(mutants.MUTANTS[name].seeds, count(1)), options.seeds):
            if stop:
                return
            yield number, name

    found: list[Result] = []
    beside = mutants.MUTANTS[name].beside
    for _, result in play_all(seeds(), options.jobs):
        # A crash says nothing about the checker, nor a seed that catches what the mutant includes about itself.
        if mutants.shows(name, result.kinds) and not (beside and _alone(beside, result.seed)):
            found.append(result)
            stop = True  # those under way come to their end
    return min(found, key=lambda each: each.seed, default=None)


def _alone(name: str, number: int) -> bool:
    ((_, result),) = play_all([(number, name)], 1)
    return bool(result.kinds)


def _say_wrong(result: Result) -> None:
    for breach, task_id, text in result.wrong[:10]:
        print(f"seed {result.seed}: {breach} {task_id} {text}"[:400], flush=True)
    if result.wrong:
        print(f"  its story: make sim SEED={result.seed}", flush=True)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


class _Progress:
    """Says how far it is: on a terminal in place, else a line now and then."""

    def __init__(self) -> None:
        self._said = 0.0

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said > 20:
            self._said = time.monotonic()
            print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
