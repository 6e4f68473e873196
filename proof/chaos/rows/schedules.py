"""Rows: when jobs tick, at length: random expressions beside another library, and a year of daily jobs by a simulated clock.

What is computed is played by tests/schedule; these rows count it, go on where they were, and record it.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from proof.chaos.frame import ROOT, Progress, Row, Trial
from tests.schedule.crosscheck import TICKS, compare

EXPRESSIONS: Final = 1_000
"""Of one trial."""
PLAYED: Final = ("tests/schedule",)


async def _expressions(n: int, progress: Progress) -> Sequence[Trial]:
    return [await asyncio.to_thread(_compared, random.SystemRandom().getrandbits(32)) async for _ in progress.trials(n)]


def _compared(seed: int) -> Trial:
    found = [compare(random.Random(f"{seed} {number}")) for number in range(EXPRESSIONS)]
    return {
        "failures": [f"seed {seed}: {each}" for each in found if each.ours != each.theirs],
        "seed": str(seed),
        "expressions": len(found),
        "ticks": sum(len(each.ours) for each in found),
        "never fire": sum(not each.ours for each in found),
    }


async def _year(n: int, progress: Progress) -> Sequence[Trial]:
    return [await asyncio.to_thread(_daily) async for _ in progress.trials(n)]


def _daily() -> Trial:
    command = [sys.executable, "-P", "-m", "tests.schedule.year"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, check=False
    )
    if not done.stdout:
        return {"failures": [f"it ended with {done.returncode} and said nothing"]}
    said = json.loads(done.stdout)
    return {"failures": [str(each) for each in said["differing"]], "jobs": said["jobs"], "ticks": said["ticks"]}


ROWS: Final = [
    Row(
        name="expressions",
        what=f"the next {TICKS} ticks of random cron expressions within the common grammar, beside the library cronsim; {EXPRESSIONS:,} a trial",
        bar="the same ticks",
        full=100,
        batch=5,
        run=_expressions,
        also=PLAYED,
    ),
    Row(
        name="daily-year",
        what="a year of jobs that tick once a day, in five zones with changes of the clocks, under each policy for them: every tick a task"
        " that runs, by a simulated clock",
        bar="the expected ticks at the expected instants, and no others",
        full=1,
        batch=1,
        run=_year,
        also=PLAYED,
    ),
]
