"""Rows: many ordering keys whose tasks fail now and then, over four partitions, two store consumers and two controllers, while executors are
killed; then the same tasks without keys. On one server, and on a Redis Cluster whose masters are killed too: their replicas take over.

A worker is killed while it runs something, so that what is lost is the head of its key; a trial in which that did not happen has failed.

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

import redis

from atf.cli.cluster import Cluster, ClusterSettings
from atf.cli.processes import ExecutorPids
from atf.client import AsyncClient
from atf.embedded import find_binary
from atf.errors import Unavailable
from tests.chaos import lines
from tests.chaos.another import Another
from tests.chaos.bench import environment
from tests.chaos.frame import Progress, Row, Trial
from tests.chaos.stores import DURABLE, REPLICATING, until
from tests.store.modes import Nodes, TcpServer, in_step

LINES: Final = 10_000
PLACES: Final = 20
PARTITIONS: Final = 4
CONTROLLERS: Final = 2
"""Each with one executor."""
KILL_EVERY_S: Final = (6.0, 14.0)
RATE_BAR: Final = 0.5
"""Of the rate without keys, measured in the same trial with executors killed as often."""
DURABILITY: Final = "replicated"
"""On a cluster: a replica has every task, claim and end before it is answered, so that a failover takes none of them back."""
NODE_SETTINGS: Final = tuple((name, value or '""') for name, value in (DURABLE | REPLICATING).items())
"""As in the other rows of a cluster."""
_LOOK_S: Final = 0.002
"""Shorter than a run: a worker is killed in the midst of one."""
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
        nodes: of the cluster, whose masters are killed in turns with executors, and started again when their replicas have taken over; None: one
            server, which lives.
        progress: is told how it goes.

    Attributes:
        killed: worker process -> when it was killed, by CLOCK_MONOTONIC.
        masters: how many were killed, and followed by their replicas.
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
        """Kills a worker now and then; on a cluster every other time a master."""
        for master in itertools.cycle((False, self._nodes is not None)):
            await asyncio.sleep(random.uniform(*KILL_EVERY_S))
            if master and self._nodes is not None:
                await _fail_over(self._nodes)
                self.masters += 1
            else:
                await self._kill_worker()

    async def _kill_worker(self) -> None:
        """Kills a worker that runs something just now."""
        while True:
            busy = [each.worker for each in self._executors() if self._open.of(each.worker) > 0]
            if busy:
                break
            await asyncio.sleep(_LOOK_S)
        pid = random.choice(busy)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed[pid] = time.monotonic()


def broken(*, cut_off: int, failovers: int | None, disorder: int, overlaps: int, missing: int) -> list[str]:
    """What of the bar did not hold; `failovers` None: none are tried."""
    bars = {
        "no run of a key was cut off: no killed head was tried": cut_off == 0,
        "no replica took over from a killed master": failovers == 0,
        f"{disorder} runs out of their order": disorder > 0,
        f"{overlaps} runs began before the run before them had ended": overlaps > 0,
        f"{missing} tasks did not run": missing > 0,
    }
    return [said for said, so in bars.items() if so]


async def _left(client: AsyncClient) -> int | None:
    """Tasks that have not ended; None: a partition is away."""
    try:
        (info,) = [each for each in await client.lambdas() if each.name == "lines/step"]
    except Unavailable:
        return None
    return sum(count for status, count in info.counts.items() if not status.finished)


async def _fail_over(nodes: Nodes) -> None:
    """Kills a master, and starts it again as soon as its replica is the master: nobody else has what that one takes on until then."""
    await until(lambda: len(_masters(nodes)) == len(nodes.servers) // 2, "every master has its replica")
    before = _masters(nodes)
    killed = random.choice(before)
    killed.kill()
    await until(lambda: any(_leads(each) for each in nodes.servers if each not in before), "a replica takes over")
    killed.start()  # not in a thread: that would go on when this is cancelled


def _masters(nodes: Nodes) -> list[TcpServer]:
    """The masters whose replicas are in step."""
    return [each for each in nodes.servers if _leads(each) and in_step(each) == 1]


def _leads(server: TcpServer) -> bool:
    try:
        return bool(server.info("replication")["role"] == "master")
    except (redis.RedisError, OSError):
        return False


def _size() -> tuple[int, int]:
    count, _, places = os.environ.get("ATF_CHAOS_LINES_OF", f"{LINES}x{PLACES}").partition("x")
    return int(count), int(places)


@asynccontextmanager
async def _roles(
    env: Mapping[str, str], folder: Path, redis_url: str
) -> AsyncIterator[tuple[str, Callable[[], list[ExecutorPids]]]]:
    """Every role, the store consumer and the controller twice: the frontend's address, and who knows the executors."""
    settings = ClusterSettings(
        redis_url=redis_url,
        data_dir=str(folder / "data"),
        free_ports=True,
        partitions=PARTITIONS,
        durability=DURABILITY if redis_url else "",
    )
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, ["tests.chaos.lines:app"], env=env, say=say))
        theirs = {**env, "ATF_REDIS_URL": cluster.redis_url}
        of_store = ["--listen", "127.0.0.1:0", "--partitions", str(PARTITIONS)]
        of_store += ["--durability", DURABILITY] if redis_url else []
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
    """Three masters and their replicas, which write to disk before they answer."""
    folder.mkdir()
    nodes = Nodes(str(find_binary().path), folder, replicas=True, settings=NODE_SETTINGS)
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
            f" and {CONTROLLERS} controllers, while executors are killed in the midst of runs, at random"
        ),
        bar=f"runs cut off{', and failovers' if on_cluster else ''}: no task out of its key's order, no two of a key at once, all ran, at {RATE_BAR:g} of the rate without keys at least",
        full=1,
        batch=1,
        run=functools.partial(_run, on_cluster),
    )


ROWS: Final = [
    _row("ordered", "", on_cluster=False),
    _row(
        "ordered-cluster",
        " on a Redis Cluster of 3 + 3 nodes, durability replicated, whose masters are killed in turns with executors, and followed by their replicas",
        on_cluster=True,
    ),
]
