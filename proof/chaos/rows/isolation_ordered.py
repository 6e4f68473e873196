"""Rows: many ordering keys whose tasks fail now and then, over four partitions, two store consumers and two controllers, while executors are
killed; then the same tasks without keys. On one server, and on a Redis Cluster whose masters are killed too: their replicas take over.

A worker is killed while it runs something, so that what is lost is the head of its key; a trial in which that did not happen often enough has
failed.

ATF_CHAOS_LINES_OF=6000x20 makes it smaller. What ran when is written down by the runs themselves.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from atf.client import AsyncClient
from atf.errors import Unavailable
from proof.chaos import lines
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.several import PARTITIONS, Several, available, fail_over, several

LINES: Final = 10_000
PLACES: Final = 20
CONSUMERS: Final = 2
KILL_EVERY_S: Final = (2.0, 5.0)
KILL_EVERY_ON_CLUSTER_S: Final = (4.0, 10.0)
"""There tasks are slower, and each failover holds up a third of them for seconds."""
KILLS: Final = 3
"""Executors that are killed at least while the tasks with keys run."""
RATE_BAR: Final = 0.5
"""Of the rate without keys, measured in the same trial with executors killed as often."""
_LOOK_S: Final = 0.002
"""Shorter than a run: a worker is killed in the midst of one."""
_STALLED_S: Final = 90.0
_SAY_S: Final = 15.0


class OrderedCourse:
    """One trial.

    Args:
        roles: whose executors are killed; on a Redis Cluster in turns with its masters, which are started again when their replicas have taken
            over. One server lives.
        folder: where runs write.
        count: keys.
        places: tasks of each.
        progress: is told how it goes.

    Attributes:
        killed: worker process -> when it was killed, by CLOCK_MONOTONIC.
        masters: how many were killed, and followed by their replicas.
    """

    def __init__(self, roles: Several, folder: Path, count: int, places: int, progress: Progress) -> None:
        self._roles, self._nodes, self._folder, self._progress = roles, roles.nodes, folder, progress
        self._lines, self._places = count, places
        self._open = lines.OpenRuns(folder)
        self.killed: dict[int, float] = {}
        self.masters = 0

    async def run(self) -> Trial:
        """The tasks with keys, and then without."""
        kills = asyncio.create_task(self._kill())
        try:
            ordered = await self._drain(ordered=True)
            runs, kills_of_ordered = lines.read(self._folder, self.killed), len(self.killed)
            masters_of_ordered = self.masters
            for each in self._folder.iterdir():
                os.truncate(each, 0)
            unordered = await self._drain(ordered=False)
        finally:
            kills.cancel()
            (ended,) = await asyncio.gather(
                kills, return_exceptions=True
            )  # a master that is being started is up by then
        if isinstance(ended, Exception):
            raise ended
        tasks = self._lines * self._places
        disorder, overlaps = lines.broken_order(runs)
        missing = tasks - len({(run.line, run.place) for run in runs if run.whole})
        self._progress.say(
            f"{ordered:.0f}/s with keys, {unordered:.0f}/s without; {len(runs)} runs, {len(self.killed)} kills of executors, {self.masters} of masters"
        )
        cut_off = sum(not run.whole for run in runs)
        slow = f"{ordered:.0f} tasks/s with keys, {unordered:.0f} without"
        return {
            "failures": broken(
                cut_off=cut_off,
                kills=kills_of_ordered,
                failovers=None if self._nodes is None else masters_of_ordered,
                disorder=disorder,
                overlaps=overlaps,
                missing=missing,
            ),
            "late": [slow] if ordered < RATE_BAR * unordered else [],
            "tasks": tasks,
            "runs": len(runs),
            "cut_off": cut_off,
            "kills": kills_of_ordered,
            **({} if self._nodes is None else {"masters_killed": masters_of_ordered}),
            "disorder": disorder,
            "overlaps": overlaps,
            "missing": missing,
            "ordered_per_second": round(ordered),
            "unordered_per_second": round(unordered),
        }

    async def _drain(self, *, ordered: bool) -> float:
        """From the first call to the last end: tasks a second."""
        began = time.monotonic()
        async with AsyncClient(self._roles.cluster.frontend_address, timeout=60) as client:
            await lines.schedule(client, self._lines, self._places, ordered=ordered)
            self._progress.say(f"scheduled after {time.monotonic() - began:.0f} s")
            await self._finished(client)
        return self._lines * self._places / (time.monotonic() - began)

    async def _finished(self, client: AsyncClient) -> None:
        """Waits until nothing is left, as long as tasks go on being run."""
        moved = said = time.monotonic()
        before = 0
        while time.monotonic() - moved < _STALLED_S:
            left = await _left(client)
            if left == 0:
                return
            if (now := lines.ended(self._folder)) > before:
                moved, before = time.monotonic(), now
            if time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                self._progress.say(f"{'?' if left is None else left} tasks are left")
            await asyncio.sleep(0.2)
        raise OSError(f"nothing ran for {_STALLED_S:g} s")

    async def _kill(self) -> None:
        """Kills a worker now and then; on a cluster a master after every other one."""
        on_cluster = self._nodes is not None
        for master in itertools.cycle((False, on_cluster, False)):
            await asyncio.sleep(random.uniform(*(KILL_EVERY_ON_CLUSTER_S if on_cluster else KILL_EVERY_S)))
            if master and self._nodes is not None:
                await fail_over(self._nodes)
                self.masters += 1
            else:
                await self._kill_worker()

    async def _kill_worker(self) -> None:
        """Kills a worker that runs something just now."""
        while True:
            busy = [each.worker for each in self._roles.executors() if self._open.of(each.worker) > 0]
            if busy:
                break
            await asyncio.sleep(_LOOK_S)
        pid = random.choice(busy)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed[pid] = time.monotonic()


def broken(*, cut_off: int, kills: int, failovers: int | None, disorder: int, overlaps: int, missing: int) -> list[str]:
    """What of the bar did not hold; `failovers` None: none are tried."""
    bars = {
        "no run of a key was cut off: no killed head was tried": cut_off == 0,
        f"{kills} executors were killed, {KILLS} at least are to be": kills < KILLS,
        "no replica took over from a killed master": failovers == 0,
        f"{disorder} runs out of their order": disorder > 0,
        f"{overlaps} runs began before the run before them had ended": overlaps > 0,
        f"{missing} tasks did not run": missing > 0,
    }
    return [said for said, so in bars.items() if so]


async def _left(client: AsyncClient) -> int | None:
    """Tasks that have not ended; None: a partition is away."""
    try:
        (info,) = await client.lambdas("lines/step")
    except Unavailable:
        return None
    return sum(count for status, count in info.counts.items() if not status.finished)


def _size() -> tuple[int, int]:
    count, _, places = os.environ.get("ATF_CHAOS_LINES_OF", f"{LINES}x{PLACES}").partition("x")
    return int(count), int(places)


async def _once(on_cluster: bool, progress: Progress) -> Trial:
    folder = Path(tempfile.mkdtemp(prefix="atf-lines-"))
    record = folder / "runs"
    record.mkdir()
    env = environment(folder, **{lines.FOLDER: str(record)})
    try:
        async with several("proof.chaos.lines:app", env, folder, on_cluster=on_cluster, consumers=CONSUMERS) as roles:
            trial = await OrderedCourse(roles, record, *_size(), progress).run()
    except BaseException:
        progress.say(f"what the roles said is in {folder}")
        raise
    if trial["failures"] or trial["late"]:
        progress.say(f"BROKEN; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return trial


async def _run(on_cluster: bool, n: int, progress: Progress) -> Sequence[Trial]:
    return [await _once(on_cluster, progress) async for _ in progress.trials(n)]


def _row(name: str, store: str, *, on_cluster: bool) -> Row:
    return Row(
        name=name,
        what=(
            f"{LINES:,} ordering keys × {PLACES} tasks, 5 % of them fail at first, over {PARTITIONS} partitions{store}, {CONSUMERS} store consumers"
            " and 2 controllers, while executors are killed in the midst of runs, at random"
        ),
        bar=f"{KILLS} executors killed at least, runs cut off{', and failovers' if on_cluster else ''}: no task out of its key's order, no two of a key at once, all ran, at {RATE_BAR:g} of the rate without keys at least",
        full=3,
        batch=1,
        run=functools.partial(_run, on_cluster),
        available=available,
    )


ROWS: Final = [
    _row("ordered", "", on_cluster=False),
    _row(
        "ordered-cluster",
        " on a Redis Cluster of 3 + 3 nodes, durability replicated, whose masters are killed in turns with executors, and followed by their replicas",
        on_cluster=True,
    ),
]
