"""Every role in one process on one virtual-time loop, joined by plain calls, with the task store in memory.

The roles are those of production. What is added serves the test:
- The store consumer waits for the test's leave, so that what a test schedules stays where it is until then.
- Whoever looks at tasks, or cancels one, has a heartbeat sent first or after it: nobody has to wait for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import fakeredis

from atf.client.registration import register_lambdas
from atf.config.settings import (
    StoreConsumerSettings,
    StoreSettings,
    Timing,
)
from atf.executor.worker_hooks import WorkerHooks, run_here
from atf.runtime import end
from atf.sdk.app import App
from atf.sdk.hooks import WorkerHook
from atf.store.values.lists import TaskQuery
from atf.task import FINISHED, LIVE, MAX_BATCH, WAITING, Status

from .gated import GatedStore, PipelineFrontend
from .runtime import VirtualRuntime
from .turns import ThreadTurn
from .wiring import Wiring
from .workers import TurnWorkers

_MAX_FINISHED: Final = 1_000_000
_RARELY_S: Final = 3_600.0
TIMING: Final = Timing(heartbeat_interval=600, heartbeat_timeout=2_400)
"""Heartbeats are rare: an executor in the same process can't be lost, and each of them costs the test real time."""


async def _run_hook(hook: WorkerHook) -> None:
    """A `def` runs as one of a lambda does: in a thread, while the loop stands still."""
    if hook.is_async:
        await run_here(hook)
    else:
        await ThreadTurn(hook.call).take()


class Census(NamedTuple):
    """Where the tasks stand.

    Attributes:
        busy: how many are due, queued or running; those of paused lambdas apart.
        finished: how many have finished.
    """

    busy: int
    finished: int


class _Patient(StoreSettings):
    """No wake-up is lost here, so it is no use to look for one: each look would cost the test real time."""

    def __post_init__(self) -> None:
        """Any poll_interval will do."""


class _Worker:
    """An executor with its heartbeats, both running.

    Args:
        name: of the executor.
        pipeline: whose lambdas it runs, and by whose roles.

    Attributes:
        leaving: it takes no more.
    """

    def __init__(self, name: str, pipeline: HarnessRoles) -> None:
        self.leaving = False
        wired = pipeline.wiring.executor(
            name, pipeline.lambdas, controller=pipeline.controller, hsc=pipeline.hsc, workers=TurnWorkers()
        )
        self._executor, self._beats = wired.executor, wired.heartbeats
        self.duties = {
            f"executor {name}": pipeline.runtime.spawn(self._executor.run(), name=name),
            f"heartbeats of {name}": pipeline.runtime.spawn(self._beats.run(), name=f"{name} beats"),
        }

    def drain(self) -> None:
        """Takes no more, and is gone once what it runs has ended."""
        self._executor.drain()
        self.leaving = True
        running, beating = self.duties.values()
        running.add_done_callback(lambda _: beating.cancel())

    async def beat(self) -> None:
        """Sends a heartbeat, unless it is gone."""
        if not any(each.done() for each in self.duties.values()):
            await self._beats.once()


class HarnessRoles:
    """The roles, running.

    Attributes:
        store: the task store.
        frontend: what a client calls.
    """

    def __init__(self, store: GatedStore, apps: Sequence[App], timing: Timing, runtime: VirtualRuntime) -> None:
        self.store = store
        self.frontend = PipelineFrontend(store, runtime)
        self.lambdas = {name: each for app in apps for name, each in app.lambdas.items()}
        self.runtime = runtime
        self.wiring = Wiring(runtime, timing)
        self.hsc = self.wiring.hsc(store, fresh=_RARELY_S)
        consumer = self.wiring.consumer(store, StoreConsumerSettings(sweep_interval=_RARELY_S))
        self.controller = self.wiring.controller(self.hsc, host="harness")
        self.frontend.beat = self._beat
        self._duties = {"store consumer": consumer.run(), "HSC": self.hsc.run(), "controller": self.controller.run()}
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._workers: list[_Worker] = []
        self._hooks: WorkerHooks
        self._of_hooks: set[asyncio.Task[Any]] = set()
        """What start hooks have begun on the loop, which goes on until the stop hooks have run."""

    @classmethod
    async def open(
        cls, apps: Sequence[App], timing: Timing, runtime: VirtualRuntime, *, partitions: int, executors: int
    ) -> HarnessRoles:
        """Opens a store in memory, calls the start hooks of the apps, registers their lambdas and starts the roles."""
        before, hooks = asyncio.all_tasks(), WorkerHooks(apps, _run_hook)
        await hooks.start()
        of_hooks = asyncio.all_tasks() - before
        # Nothing runs unasked: tasks are pushed by the passes that a test asks for.
        settings = _Patient(partitions=partitions, poll_interval=_RARELY_S, push_when_scheduled=False)
        store = await GatedStore.open(settings, timing, runtime, fake=fakeredis.FakeServer())
        assert isinstance(store, GatedStore)
        store.now = runtime.wall_us
        pipeline = cls(store, apps, timing, runtime)
        pipeline._hooks, pipeline._of_hooks = hooks, of_hooks
        specs = [each.spec() for each in pipeline.lambdas.values()]
        await register_lambdas(pipeline.frontend, specs)
        pipeline._running = {name: runtime.spawn(duty, name=name) for name, duty in pipeline._duties.items()}
        for number in range(executors):
            worker = _Worker(f"harness-{number}", pipeline)
            pipeline._workers.append(worker)
            pipeline._running |= worker.duties
        return pipeline

    async def stop_executor(self) -> None:
        """Has the executor that was started last take no more; it is gone once what it runs has ended.

        Raises:
            ValueError: it is the last one.
        """
        staying = [worker for worker in self._workers if not worker.leaving]
        if len(staying) == 1:
            raise ValueError(
                "stop_executor: it is the last one, and nothing would run any more; give the Harness more executors"
            )
        for name in staying[-1].duties:
            del self._running[name]
        staying[-1].drain()

    async def _beat(self) -> None:
        for worker in self._workers:
            await worker.beat()

    async def close(self) -> None:
        """Ends everything, lambdas that run included, and calls the stop hooks then."""
        me = {asyncio.current_task()}
        await end(task for task in asyncio.all_tasks() - me - self._of_hooks if task is not None)
        await self._hooks.stop(_RARELY_S)
        await end(task for task in asyncio.all_tasks() - me if task is not None)
        await self.store.close()

    def check(self) -> None:
        """Raises RuntimeError if a role has ended: none does while all is well."""
        for name, task in self._running.items():
            if task.done():
                error = None if task.cancelled() else task.exception()
                code = "" if error or task.cancelled() else f" with exit code {task.result()}"
                raise RuntimeError(f"the {name} of the harness has ended{code}") from error

    async def census(self) -> Census:
        """Counts the tasks of the apps' lambdas."""
        paused = {name for name, each in (await self.store.list_lambdas()).items() if each.paused}
        busy = finished = 0
        for name in self.lambdas:
            counts = await self.store.counts(name)
            finished += sum(counts[status] for status in FINISHED)
            if name not in paused:
                busy += sum(counts[status] for status in LIVE - WAITING)
                for status in WAITING:
                    busy += await self._due(name, status) if counts[status] else 0
        return Census(busy, finished)

    async def wake(self) -> None:
        """After a skip of time: has the store consumer look, and sweeps what has expired meanwhile."""
        await self.store.ring_due()
        for partition in range(self.store.partitions):
            while await self.store.sweep(partition, _MAX_FINISHED):
                pass

    async def _due(self, name: str, status: Status) -> int:
        """How many are due; some of them, where there are many."""
        query = TaskQuery(name, statuses=[status], until_us=self.runtime.wall_us() + 1, oldest_first=True)
        return len((await self.store.list_tasks(query, MAX_BATCH)).tasks)
