"""Row: many ordering keys whose tasks fail now and then, over four partitions, two store consumers and two controllers, while executors are
killed; then the same tasks without keys.

ATF_CHAOS_LINES_OF=1000x20 makes it smaller. What ran when is written down by the runs themselves.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from atf.cli.cluster import Cluster, ClusterSettings
from atf.cli.processes import ExecutorPids
from atf.client import AsyncClient
from tests.chaos import lines
from tests.chaos.another import Another
from tests.chaos.bench import environment
from tests.chaos.frame import Progress, Row, Trial

LINES: Final = 10_000
PLACES: Final = 20
PARTITIONS: Final = 4
CONTROLLERS: Final = 2
"""Each with one executor."""
KILL_EVERY_S: Final = (6.0, 14.0)
RATE_BAR: Final = 0.5
"""Of the rate without keys, measured in the same trial with executors killed as often."""
_STALLED_S: Final = 90.0
_SAY_S: Final = 15.0
_UP_S: Final = 60.0


class Course:
    """One trial.

    Args:
        frontend: its address.
        executors: says which run now.
        folder: where runs write.
        count: keys.
        places: tasks of each.
        progress: is told how it goes.

    Attributes:
        killed: worker process -> when it was killed, by CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        frontend: str,
        executors: Callable[[], Sequence[ExecutorPids]],
        folder: Path,
        count: int,
        places: int,
        progress: Progress,
    ) -> None:
        self._frontend, self._executors, self._folder, self._progress = frontend, executors, folder, progress
        self._lines, self._places = count, places
        self.killed: dict[int, float] = {}

    async def run(self) -> Trial:
        """The tasks with keys, and then without."""
        kills = asyncio.create_task(self._kill())
        try:
            ordered = await self._drain(ordered=True)
            runs, kills_of_ordered = lines.read(self._folder, self.killed), len(self.killed)
            for each in self._folder.iterdir():
                os.truncate(each, 0)
            unordered = await self._drain(ordered=False)
        finally:
            kills.cancel()
        tasks = self._lines * self._places
        disorder, overlaps = lines.broken_order(runs)
        missing = tasks - len({(run.line, run.place) for run in runs if run.whole})
        self._progress.say(
            f"{ordered:.0f}/s with keys, {unordered:.0f}/s without; {len(runs)} runs, {len(self.killed)} kills"
        )
        bars = {
            f"{disorder} runs out of their order": disorder,
            f"{overlaps} runs began before the run before them had ended": overlaps,
            f"{missing} tasks did not run": missing,
        }
        slow = f"{ordered:.0f} tasks/s with keys, {unordered:.0f} without"
        return {
            "failures": [said for said, broken in bars.items() if broken],
            "late": [slow] if ordered < RATE_BAR * unordered else [],
            "tasks": tasks,
            "runs": len(runs),
            "cut_off": sum(not run.whole for run in runs),
            "kills": kills_of_ordered,
            "disorder": disorder,
            "overlaps": overlaps,
            "missing": missing,
            "ordered_per_second": round(ordered),
            "unordered_per_second": round(unordered),
        }

    async def _drain(self, *, ordered: bool) -> float:
        """From the first call to the last end: tasks a second."""
        began = time.monotonic()
        async with AsyncClient(self._frontend, timeout=60) as client:
            await lines.schedule(client, self._lines, self._places, ordered=ordered)
            self._progress.say(f"scheduled after {time.monotonic() - began:.0f} s")
            await self._finished(client)
        return self._lines * self._places / (time.monotonic() - began)

    async def _finished(self, client: AsyncClient) -> None:
        """Waits until nothing is left, as long as tasks go on being run."""
        moved = said = time.monotonic()
        before = 0
        while time.monotonic() - moved < _STALLED_S:
            (info,) = [each for each in await client.lambdas() if each.name == "lines/step"]
            left = sum(count for status, count in info.counts.items() if not status.finished)
            if left == 0:
                return
            if (now := lines.ended(self._folder)) > before:
                moved, before = time.monotonic(), now
            if time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                self._progress.say(f"{left} tasks are left")
            await asyncio.sleep(0.2)
        raise OSError(f"nothing ran for {_STALLED_S:g} s")

    async def _kill(self) -> None:
        """Kills a worker now and then."""
        while True:
            await asyncio.sleep(random.uniform(*KILL_EVERY_S))
            workers = [each.worker for each in self._executors()]
            if workers:
                pid = random.choice(workers)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.killed[pid] = time.monotonic()


def _size() -> tuple[int, int]:
    count, _, places = os.environ.get("ATF_CHAOS_LINES_OF", f"{LINES}x{PLACES}").partition("x")
    return int(count), int(places)


@asynccontextmanager
async def _roles(env: Mapping[str, str], folder: Path) -> AsyncIterator[tuple[str, Callable[[], list[ExecutorPids]]]]:
    """Every role, the store consumer and the controller twice: the frontend's address, and who knows the executors."""
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True, partitions=PARTITIONS)
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, ["tests.chaos.lines:app"], env=env, say=say))
        theirs = {**env, "ATF_REDIS_URL": cluster.redis_url}
        of_store = ["--listen", "127.0.0.1:0", "--partitions", str(PARTITIONS)]
        addresses = ["--hsc", cluster.addresses["hsc"], "--frontend", cluster.frontend_address]
        consumer = Another(theirs, ["store-consumer", *of_store], folder / "consumer-2.log")
        words = ["controller", *of_store, "--executors", "1", *addresses, "tests.chaos.lines:app"]
        controller = Another(theirs, words, folder / "controller-2.log")
        for each in (consumer, controller):
            each.start()
            stack.push_async_callback(each.kill)

        def executors() -> list[ExecutorPids]:
            return [*cluster.executors(), *controller.executors()]

        async with asyncio.timeout(_UP_S):
            while len(executors()) < CONTROLLERS:
                await asyncio.sleep(0.1)
        yield cluster.frontend_address, executors


async def _once(progress: Progress) -> Trial:
    folder = Path(tempfile.mkdtemp(prefix="atf-lines-"))
    record = folder / "runs"
    record.mkdir()
    try:
        async with _roles(environment(folder, **{lines.FOLDER: str(record)}), folder) as (frontend, executors):
            trial = await Course(frontend, executors, record, *_size(), progress).run()
    except BaseException:
        progress.say(f"what the roles said is in {folder}")
        raise
    if trial["failures"] or trial["late"]:
        progress.say(f"BROKEN; what the roles said, and the record, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return trial


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    return [await _once(progress) async for _ in progress.trials(n)]


ROWS: Final = [
    Row(
        name="ordered",
        what=(
            f"{LINES:,} ordering keys × {PLACES} tasks, 5 % of them fail at first, over {PARTITIONS} partitions, 2 store consumers and"
            f" {CONTROLLERS} controllers, while executors are killed at random"
        ),
        bar=f"no task out of its key's order, no two of a key at once, all ran, at {RATE_BAR:g} of the rate without keys at least",
        full=1,
        batch=1,
        run=_run,
    )
]
