"""The deterministic simulation and its mutants at length; tests/sim is what they play."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from tests.chaos import frame
from tests.chaos.frame import Progress, Row, Trial
from tests.sim.__main__ import PYTHON
from tests.sim.mutants import MUTANTS

_LINE_BYTES: Final = 64 << 20


def _available() -> str:
    ours = sys.version_info[:2]
    return (
        "" if ours == PYTHON else f"seeds replay under Python {PYTHON[0]}.{PYTHON[1]}, and this is {ours[0]}.{ours[1]}"
    )


async def _lines(*arguments: str) -> AsyncIterator[dict[str, Any]]:
    """What the simulation, in a process of its own, says line by line."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(frame.ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "tests.sim", *arguments,
        stdout=asyncio.subprocess.PIPE, env=environment, cwd=frame.ROOT, limit=_LINE_BYTES,
    )  # fmt: skip
    assert process.stdout is not None
    async for line in process.stdout:
        yield json.loads(line)
    if code := await process.wait():
        raise OSError(f"the simulation ended with exit code {code}")


def _done(row: str) -> int:
    return len(frame.read_trials(frame.TRIALS / frame.code() / f"{row}.jsonl"))


async def _seeds(n: int, progress: Progress) -> Sequence[Trial]:
    trials = []
    async for made in _lines("run", "--lines", "--base", str(1 + _done("simulation")), "--seeds", str(n)):
        failures = [f"seed {made['seed']}: {' '.join(each)}"[:300] for each in made["wrong"]]
        for failure in failures:
            progress.say(failure)
        tally, faults, moves = made["tally"], made["faults"], made["moves"]
        counts = {name: tally[name] for name in ("attempted", "acknowledged", "repeated", "forgiven", "excused")}
        figures = {
            "virtual seconds": round(made["virtual_s"]),
            "faults": sum(faults.values()),
            "moves": sum(moves.values()),
        }
        trials.append({"failures": failures, **figures, **counts})
    return trials


async def _mutants(n: int, progress: Progress) -> Sequence[Trial]:
    done = _done("mutants")
    trials: list[Trial] = []
    async for made in _lines("mutants", "--lines", *list(MUTANTS)[done : done + n]):
        missed = [] if made["seed"] else [f"{made['mutant']} was not caught in 200 seeds"]
        progress.say(f"{made['mutant']}: {made['breach'] or 'NOT CAUGHT'}, seed {made['seed']}")
        trials.append(
            {"failures": missed, "caught": int(not missed), "mutant": made["mutant"], "breach": made["breach"]}
        )
    return trials


ROWS: Final = [
    Row(
        name="simulation",
        what="every process, the network, clocks and the store on virtual time: 120 s a seed, 10 to 20 faults beside those of the network",
        bar="0 violations",
        full=20_000,
        batch=200,
        run=_seeds,
        available=_available,
    ),
    Row(
        name="mutants",
        what="bugs switched on in the simulation, each to be caught within 200 seeds",
        bar="all caught",
        full=len(MUTANTS),
        batch=4,
        run=_mutants,
        available=_available,
    ),
]
