"""Runs the demo: schedules the tasks, follows them by the lambda's record, kills an executor half-way, collects the results."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from atf.cli.progress import View
from atf.client import AsyncClient, Handle
from atf.task import Status

from .files import KnownFile
from .lambdas import content_hash, hello
from .record import DemoRecord
from .report import NS, AcceptedTask
from .strike import KilledWorker, kill_one
from .view import DemoProgress, rates

BATCH: Final = 256
MOST_OUTSTANDING: Final = 1_000
"""Tasks accepted and not done at which the demo waits before it schedules more: a steady stream, no flood."""
STALLED_S: Final = 60.0
"""Seconds without a single task done after which the demo gives up on those that are left."""
WARM_UP_S: Final = 20.0
KILL_WITHIN_S: Final = 20.0
"""Seconds to go on looking for an executor with started tasks."""
COLLECT_S: Final = 10.0
"""Seconds to wait for results of tasks whose lambda has ended."""

_LOOK_S: Final = 0.05
_EVERY_FAILS_FIRST: Final = 50
_EVERY_DELAYED: Final = 200
_DELAYS_S: Final = (1.0, 2.0, 3.0, 4.0, 5.0)
_LINGERING: Final = 3
_LINGER_S: Final = 0.3


class PlannedHash(NamedTuple):
    """One task to be."""

    file: KnownFile
    delay: float
    fails_first: bool
    lingers: float


def plan(files: Sequence[KnownFile], tasks: int) -> Iterator[PlannedHash]:
    """One task per file, over again until there are enough: 1 in 50 fails at first, 1 in 200 is delayed.

    A few in the middle linger, as on a slow disk: those the kill finds started, however fast the machine is.
    """
    first = tasks // 2 + tasks // _EVERY_FAILS_FIRST
    for number, file in enumerate(itertools.islice(itertools.cycle(files), tasks)):
        lingers = 0 <= number - first < _LINGERING
        delayed = number % _EVERY_DELAYED == 3 and not lingers
        yield PlannedHash(
            file=file,
            delay=_DELAYS_S[number // _EVERY_DELAYED % len(_DELAYS_S)] if delayed else 0.0,
            fails_first=number % _EVERY_FAILS_FIRST == 7,
            lingers=_LINGER_S if lingers else 0.0,
        )


class Flow:
    """One demo on a system that runs.

    Args:
        client: of its frontend.
        record: the lambda's.
        workers: answers the process ids of the executors' workers that run now.
        view: is told how it goes.
    """

    def __init__(
        self, client: AsyncClient, record: DemoRecord, workers: Callable[[], Iterable[int]], view: View
    ) -> None:
        self.accepted = AcceptedTask()
        self.results: dict[str, str] = {}
        self.kill: KilledWorker | None = None
        self._client, self._record, self._workers, self._view = client, record, workers, view
        self._handles: list[Handle[str]] = []
        self._room = asyncio.Event()
        self._total = 0

    async def warm_up(self, executors: int) -> None:
        """Waits until so many executors run tasks, for a while at most: their start is not what is measured."""
        seen: set[int] = set()
        until = time.monotonic() + WARM_UP_S
        while len(seen) < executors and time.monotonic() < until:
            handles = await self._client.schedule_many([hello.prepare() for _ in range(16 * executors)])
            seen |= {task.result for task in await self._client.wait(handles, timeout=WARM_UP_S)}

    async def run(self, planned: Sequence[PlannedHash]) -> None:
        """Runs all of it. What is left undone shows in the accepted, the results and the record."""
        self._total = len(planned)
        batches = iter([planned[start : start + BATCH] for start in range(0, len(planned), BATCH)])
        # Two at once: one is made while the other travels.
        scheduling = [asyncio.create_task(self._schedule(batches)) for _ in range(2)]
        try:
            await self._follow(scheduling)
        finally:
            for each in scheduling:
                each.cancel()  # done, unless the demo has given up
        await self._collect()

    async def _schedule(self, batches: Iterator[Sequence[PlannedHash]]) -> None:
        for batch in batches:
            await self._room.wait()
            sent_ns = time.monotonic_ns()
            for each, handle in zip(batch, await self._send(batch), strict=True):
                self._handles.append(handle)
                self.accepted.file[handle.id] = each.file
                self.accepted.due_ns[handle.id] = sent_ns + int(each.delay * NS)
                if each.delay:
                    self.accepted.delayed.add(handle.id)

    async def _send(self, batch: Sequence[PlannedHash]) -> list[Handle[str]]:
        prepared = []
        for each in batch:
            task = content_hash.options(delay=each.delay) if each.delay else content_hash
            prepared.append(task.prepare(each.file.path, fails_first=each.fails_first, lingers=each.lingers))
        return await self._client.schedule_many(prepared)

    async def _follow(self, scheduling: Sequence[asyncio.Task[None]]) -> None:
        """Until all are done, or nothing has moved for a long time."""
        struck, moved_at, done = False, time.monotonic(), 0
        while done < self._total and time.monotonic() - moved_at < STALLED_S:
            await asyncio.sleep(_LOOK_S)
            self._look()
            for each in scheduling:
                if each.done():
                    each.result()  # raises what stopped it
            if len(self._record.done) > done:
                done, moved_at = len(self._record.done), time.monotonic()
            if not struck and done >= self._total // 2:
                struck = True
                await self._strike()

    def _look(self) -> None:
        record = self._record
        record.poll()
        if len(self._handles) - len(record.done) <= MOST_OUTSTANDING:
            self._room.set()
        else:
            self._room.clear()
        tasks_per_s, mib_per_s = rates(record.ends, time.monotonic_ns())
        running, done = record.running, len(record.done)
        self._view.show(DemoProgress(self._total, len(self._handles), running, done, tasks_per_s, mib_per_s))

    async def _strike(self) -> None:
        self.kill = await kill_one(self._workers, self._record, within=KILL_WITHIN_S)
        if self.kill is None:
            self._view.say("no executor was caught with started tasks; none was killed")
        else:
            tasks = len(self.kill.cut_off)
            self._view.say(f"killed an executor (SIGKILL to process {self.kill.pid}) that had started {tasks} tasks")

    async def _collect(self) -> None:
        """Asks ATF what became of them."""
        ids = [each.id for each in self._handles]
        for start in range(0, len(ids), BATCH):
            for task in await self._client.wait(ids[start : start + BATCH], timeout=COLLECT_S):
                if task.status is Status.SUCCESS:
                    self.results[task.id] = task.result
