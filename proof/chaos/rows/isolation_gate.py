"""Row: a gate keeps many tasks, which costs the store consumer nothing; it is lifted, and all of them run.

The tasks of a collection, or by turns the whole lambda, are made due behind a gate: a pause, or in every third trial one that admits a tenth. What the store consumer works while they wait is held
against what it works when there is nothing at all. Then the gate is lifted, the store consumer killed while they come back, and the lambda's own record
tells what ran.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient
from proof.chaos import gated
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial

TASKS: Final = int(os.environ.get("ATF_GATE_TASKS", "100000"))
PARTITIONS: Final = 4
NAME: Final = f"{gated.app.namespace}/tell"
FLAT: Final = 0.01
"""Of a processor, by which the store consumer may work more beside all the kept tasks than beside none."""
ADMITTED: Final = 0.1
ADMITTED_OFF: Final = 5 * math.sqrt(ADMITTED * (1 - ADMITTED) / TASKS)
"""Of all tasks, by which those that were admitted may be more or fewer, five standard deviations: which pass hangs on their ids."""
_LOOK_S: Final = 20.0
_SETTLES_S: Final = 3.0
_AT_ONCE: Final = 1_000
_PATIENCE_S: Final = 900.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds of a processor that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class GateCourse:
    """One cluster, and trial after trial on it."""

    def __init__(self, cluster: Cluster, client: AsyncClient, record: Path) -> None:
        self._cluster, self._client, self._record = cluster, client, record

    async def trial(self, number: int) -> Trial:
        """Nothing, many that wait, and all that run."""
        first = number * TASKS
        labels = {} if number % 2 else gated.COLLECTION
        admits = ADMITTED if number % 3 == 2 else 0
        idle = await self._share()
        action, share = ("admit", admits) if admits else ("pause", None)
        await self._client.gate(NAME, action, share=share, labels=labels, why="the row gate", who="chaos")
        await self._schedule(first)
        await self._until(lambda: self._have_met_it(first))
        kept = await self._share()
        passed = self._ran(first)
        began = time.monotonic()
        await self._client.lift_gate(NAME, labels=labels, who="chaos")
        await asyncio.sleep(1)
        self._cluster.kill("store-consumer")
        await self._until(lambda: self._have_run(first))
        drained_s = time.monotonic() - began
        told = gated.read(self._record)
        lost = sum(told[each] == 0 for each in range(first, first + TASKS))
        twice = sum(told[each] > 1 for each in range(first, first + TASKS))
        failures = [f"{lost} of {TASKS} never ran"] if lost else []
        failures += [f"{twice} ran more than once"] if twice else []
        if abs(passed - admits * TASKS) > (ADMITTED_OFF * TASKS if admits else 0):
            failures.append(f"{passed} of {TASKS} passed a gate that admits {admits:.0%}")
        flat = (
            [f"the store consumer used {kept:.2%} of a processor, {idle:.2%} without tasks"]
            if kept > idle + FLAT
            else []
        )
        return {
            "failures": failures,
            "late": flat,
            "tasks": TASKS,
            "admitting": int(admits > 0),
            "admitted": passed,
            "drained_s": round(drained_s, 1),
            "idle_permille": round(idle * 1000, 2),
            "kept_permille": round(kept * 1000, 2),
        }

    async def _schedule(self, first: int) -> None:
        for start in range(first, first + TASKS, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, first + TASKS))
            tell = gated.tell.options(labels=gated.COLLECTION)
            await self._client.schedule_many([tell.prepare(each) for each in numbers])

    async def _have_met_it(self, first: int) -> bool:
        """Whether the gate has kept or admitted all of them, and these have run."""
        return sum(each.waiting for each in await self._client.gates(NAME)) + self._ran(first) >= TASKS

    def _ran(self, first: int) -> int:
        return sum(first <= each < first + TASKS for each in gated.read(self._record))

    async def _have_run(self, first: int) -> bool:
        return self._ran(first) >= TASKS

    async def _share(self) -> float:
        """Of a processor, what the store consumer uses now."""
        await asyncio.sleep(_SETTLES_S)
        pid = self._cluster.pid("store-consumer")
        before, began = cpu_s(pid), time.monotonic()
        await asyncio.sleep(_LOOK_S)
        return (cpu_s(pid) - before) / (time.monotonic() - began)

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Raises TimeoutError: it does not, after a long while."""
        async with asyncio.timeout(_PATIENCE_S):
            while not await holds():
                await asyncio.sleep(0.5)


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="atf-gate-"))
    record = folder / "record"
    record.mkdir()
    env = environment(folder, **{gated.FOLDER: str(record)})
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True, executors=2, partitions=PARTITIONS)
    found: list[Trial] = []
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, ["proof.chaos.gated:app"], env=env, say=say))
        client = await stack.enter_async_context(AsyncClient(cluster.frontend_address, timeout=60))
        course = GateCourse(cluster, client, record)
        async for number in progress.trials(n):
            found.append(await course.trial(number))
            progress.say(str(found[-1]))
    if any(each["failures"] for each in found):
        progress.say(f"BROKEN; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


ROWS: Final = [
    Row(
        name="gate",
        what=(
            f"{TASKS} due tasks of a collection, by turns of the whole lambda, meet a gate that pauses, or in every third trial admits {ADMITTED:.0%}, over {PARTITIONS}"
            " partitions; it is lifted, and the store consumer is killed while they come back"
        ),
        bar=f"nothing lost, nothing run twice or past the gate, admitted {ADMITTED:.0%} ± {ADMITTED_OFF:.1%}; the store consumer uses no more than {FLAT:.0%} of a processor more than idle",
        full=5,
        batch=5,
        run=_run,
    )
]
