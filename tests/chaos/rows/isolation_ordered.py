"""Rows: many ordering keys whose tasks fail now and then, over four partitions, two store consumers and two controllers, while executors are
killed; then the same tasks without keys. On one server, and on a Redis Cluster whose masters are killed too.

ATF_CHAOS_LINES_OF=1000x20 makes it smaller. What ran when is written down by the runs themselves.
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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from atf.cli.cluster import Cluster, ClusterSettings
from atf.cli.processes import ExecutorPids
from atf.client import AsyncClient
from atf.embedded import find_binary
from tests.chaos import lines
from tests.chaos.another import Another
from tests.chaos.bench import environment
from tests.chaos.frame import Progress, Row, Trial
from tests.store.modes import Nodes

LINES: Final = 10_000
PLACES: Final = 20
PARTITIONS: Final = 4
CONTROLLERS: Final = 2
"""Each with one executor."""
KILL_EVERY_S: Final = (6.0, 14.0)
RATE_BAR: Final = 0.5
"""Of the rate without keys, measured in the same trial with executors killed as often."""
DISK: Final = (
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("maxmemory-policy", "noeviction"),
    ("hash-max-listpack-value", "1024"),
)
"""Settings of a cluster's nodes, as `atf up` sets its own server."""
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
        nodes: of the cluster, whose masters are killed in turns with executors, and started again at once; None: one server, which lives.
        progress: is told how it goes.

    Attributes:
        killed: worker process -> when it was killed, by CLOCK_MONOTONIC.
        masters: how many were killed.
    """

    def __init__(
        self,
        frontend: str,
        executors: Callable[[], Sequence[ExecutorPids]],
        folder: Path,
        count: int,
        places: int,
        nodes: Nodes | None,
        progress: Progress,
    ) -> None:
        self._frontend, self._executors, self._folder, self._progress = frontend, executors, folder, progress
        self._lines, self._places, self._nodes = count, places, nodes
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
            await asyncio.gather(
                kills, return_exceptions=True
            )  # a master that is being started is up before it is ended
        tasks = self._lines * self._places
        disorder, overlaps = lines.broken_order(runs)
        missing = tasks - len({(run.line, run.place) for run in runs if run.whole})
        self._progress.say(
            f"{ordered:.0f}/s with keys, {unordered:.0f}/s without; {len(runs)} runs, {len(self.killed)} kills of executors, {self.masters} of masters"
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
        """Kills a worker now and then; on a cluster every other time a master."""
        for master in itertools.cycle((False, self._nodes is not None)):
            await asyncio.sleep(random.uniform(*KILL_EVERY_S))
            if master and self._nodes is not None:
                node = random.choice(self._nodes.servers)
                node.kill()
                node.start()  # not in a thread: that would go on when this is cancelled
                self.masters += 1
                continue
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
async def _roles(
    env: Mapping[str, str], folder: Path, redis_url: str
) -> AsyncIterator[tuple[str, Callable[[], list[ExecutorPids]]]]:
    """Every role, the store consumer and the controller twice: the frontend's address, and who knows the executors."""
    settings = ClusterSettings(
        redis_url=redis_url, data_dir=str(folder / "data"), free_ports=True, partitions=PARTITIONS
    )
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


@contextmanager
def _cluster(folder: Path) -> Iterator[Nodes]:
    """Three masters, which write to disk before they answer."""
    folder.mkdir()
    nodes = Nodes(str(find_binary().path), folder, replicas=False, settings=DISK)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.kill()


async def _once(on_cluster: bool, progress: Progress) -> Trial:
    folder = Path(tempfile.mkdtemp(prefix="atf-lines-"))
    record = folder / "runs"
    record.mkdir()
    env = environment(folder, **{lines.FOLDER: str(record)})
    try:
        with _cluster(folder / "nodes") if on_cluster else nullcontext() as nodes:
            async with _roles(env, folder, nodes.url if nodes else "") as (frontend, executors):
                trial = await Course(frontend, executors, record, *_size(), nodes, progress).run()
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
            f"{LINES:,} ordering keys × {PLACES} tasks, 5 % of them fail at first, over {PARTITIONS} partitions{store}, 2 store consumers"
            f" and {CONTROLLERS} controllers, while executors are killed at random"
        ),
        bar=f"no task out of its key's order, no two of a key at once, all ran, at {RATE_BAR:g} of the rate without keys at least",
        full=1,
        batch=1,
        run=functools.partial(_run, on_cluster),
    )


ROWS: Final = [
    _row("ordered", "", on_cluster=False),
    _row(
        "ordered-cluster",
        " on the 3 masters of a Redis Cluster, which are killed in turns with executors",
        on_cluster=True,
    ),
]
