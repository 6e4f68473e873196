"""The deterministic simulation and its mutants at length; proof/simulation is what they play."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from atf.task import MOVES
from proof.chaos import frame
from proof.chaos.frame import Figures, Progress, Row, Trial
from proof.simulation import calls
from proof.simulation.__main__ import FEWEST, PYTHON
from proof.simulation.mutants import KINDS as BREACHES, MUTANTS
from proof.simulation.nemesis import KINDS
from proof.simulation.net import KINDS as NET_KINDS
from proof.simulation.play import AT_KILL

SEEDS: Final = 20_000
PLAYED: Final = ("proof/simulation", "tests/store/world.py")
"""What decides what a seed means, beside the product."""
THIS: Final = "proof/chaos/rows/simulation.py"
"""What of the chaos does, too: how real processes are tried has no part in it."""
_FAULT, _MOVE, _CALL, _WAY = "faults: ", "moves: ", "disturbed: ", "ways: "
_BY: Final = "caught by: "
_LINE_BYTES: Final = 64 << 20


def _available() -> str:
    ours = sys.version_info[:2]
    return (
        "" if ours == PYTHON else f"seeds replay under Python {PYTHON[0]}.{PYTHON[1]}, and this is {ours[0]}.{ours[1]}"
    )


async def _lines(*arguments: str) -> AsyncGenerator[dict[str, Any], None]:
    """What the simulation, in a process of its own, says line by line. It ends with the generator; Ctrl-C does not reach it."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(frame.ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "proof.simulation", *arguments,
        stdout=asyncio.subprocess.PIPE, env=environment, cwd=frame.ROOT, limit=_LINE_BYTES, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            yield json.loads(line)
        if code := await process.wait():
            raise OSError(f"the simulation ended with exit code {code}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _done(row: str) -> int:
    trials = frame.TRIALS / frame.proof(*PLAYED, harness=THIS) / f"{row}.jsonl"
    return len(frame.whole(frame.read_trials(trials)))


async def _seeds(n: int, progress: Progress) -> Sequence[Trial]:
    base, found = 1 + _done("simulation"), dict[int, Trial]()
    async with aclosing(_lines("run", "--lines", "--base", str(base), "--seeds", str(n))) as lines:
        async for made in lines:
            trial = found[made["seed"]] = trial_of(made)
            for failure in trial["failures"]:
                progress.say(failure)
            if progress.stopping:
                break
    return unbroken(found, base)


def unbroken(found: Mapping[int, Trial], base: int) -> list[Trial]:
    """The trials from a seed on without a gap. They come as they end: a stop may leave gaps, and what follows one is played again."""
    return [found[seed] for seed in itertools.takewhile(found.__contains__, itertools.count(base))]


def trial_of(made: Mapping[str, Any]) -> Trial:
    """A seed's trial: what was wrong, and how often each kind of fault and each move occurred, those among them that did not.

    And of each call, of a role or of the store, how often it was disturbed, and how often in each way that it was.
    """
    counts = {name: made["tally"].get(name, 0) for name in ("attempted", "acknowledged", "repeated", "forgiven")}
    faults = dict.fromkeys((*KINDS, *NET_KINDS), 0) | made["faults"]
    moves = dict.fromkeys((move.name for move in MOVES), 0) | made["moves"]
    return {
        "failures": [f"seed {made['seed']}: {' '.join(each)}"[:300] for each in made["wrong"]],
        "seeds": 1,
        "virtual seconds": round(made["virtual_s"]),
        **counts,
        **{name: made["tally"].get(name, 0) for name in ("excused", AT_KILL)},
        **{f"{_FAULT}{name}": count for name, count in faults.items()},
        **{f"{_MOVE}{name}": count for name, count in moves.items()},
        **{f"{_CALL}{name}": count for name, count in calls.disturbed(made["calls"]).items()},
        **{f"{_WAY}{name}": count for name, count in sorted(made["calls"].items())},
    }


def too_few(figures: Figures) -> list[str]:
    """What hardly occurred in a full run, which then means nothing for it."""
    if figures["seeds"] < SEEDS:
        return []
    return [
        f"{name} {count} times: fewer than {FEWEST} mean nothing"
        for name, count in figures.items()
        if name.startswith((_FAULT, _MOVE, _CALL)) and count < FEWEST
    ] + [f"{_WAY}{name} 0 times: nobody knows what comes of it" for name in calls.WAYS if not figures.get(_WAY + name)]


async def _mutants(n: int, progress: Progress) -> Sequence[Trial]:
    done = _done("mutants")
    trials: list[Trial] = []
    async with aclosing(_lines("mutants", "--lines", *list(MUTANTS)[done : done + n])) as lines:
        async for made in lines:
            missed = [] if made["seed"] else [f"{made['mutant']} was not caught in 200 seeds"]
            progress.say(f"{made['mutant']}: {', '.join(made['kinds']) or 'NOT CAUGHT'}, seed {made['seed']}")
            by = {f"{_BY}{kind}": int(kind in made["kinds"]) for kind in BREACHES}
            trials.append({"failures": missed, "mutants": 1, "caught": int(not missed), **by, "found": caught_by(made)})
            if progress.stopping:
                break
    return trials


def caught_by(made: Mapping[str, Any]) -> str:
    """By what a mutant was caught, with the first sentence that says so."""
    if not made["seed"]:
        return f"{made['mutant']}: nothing"
    return f"{made['mutant']}: {', '.join(made['kinds'])}, seed {made['seed']}: {made['text']}"[:300]


def blind(figures: Figures) -> list[str]:
    """The breaches by which no mutant was caught, where all were tried: nobody knows whether the checker would see one."""
    if figures["mutants"] < len(MUTANTS):
        return []
    return [f"no mutant was caught by {kind}" for kind in BREACHES if not figures[_BY + kind]]


ROWS: Final = [
    Row(
        name="simulation",
        what="every process, the network, clocks and the store on virtual time: 120 s a seed, 10 to 20 faults beside those of the network",
        bar=f"0 violations; every kind of fault and every move occurred {FEWEST} times at least, and every call of a role and of the store"
        " was disturbed as often, at least once in each way",
        full=SEEDS,
        batch=200,
        run=_seeds,
        available=_available,
        verdict=too_few,
        also=PLAYED,
        harness=THIS,
        sums=True,
    ),
    Row(
        name="mutants",
        what="bugs switched on in the simulation, each to be caught within 200 seeds",
        bar=f"all caught, at least one by each of {', '.join(BREACHES)}",
        full=len(MUTANTS),
        batch=4,
        run=_mutants,
        available=_available,
        verdict=blind,
        also=PLAYED,
        harness=THIS,
    ),
]
