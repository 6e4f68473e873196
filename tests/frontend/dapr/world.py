"""Dapr's scheduler service on frontends, a store consumer and a real task store (on fakeredis), and watchers that do as the test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import fakeredis

from atf.config.settings import StoreConsumerSettings, StoreSettings, Timing
from atf.frontend.dapr.scheduler import SchedulerService
from atf.frontend.service import FrontendService
from atf.rpc import dapr_scheduler_pb2 as d
from atf.runtime import end
from atf.store.store import Store
from atf.store.values.jobs import JobRecord
from atf.store.values.tasks import TaskRecord
from atf.store_consumer.consumer import Consumer
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring

TIMING = Timing()


class Watcher:
    """A sidecar's stream. Acknowledges nothing by itself."""

    def __init__(self, scheduler: SchedulerService, runtime: VirtualRuntime, *first: d.WatchJobsRequest) -> None:
        self.triggers: list[d.WatchJobsResponse] = []
        self._said: asyncio.Queue[d.WatchJobsRequest | None] = asyncio.Queue()
        for each in first:
            self._said.put_nowait(each)
        self._got = asyncio.Event()
        self.stream = runtime.spawn(self._read(scheduler), name="a watcher")

    async def _requests(self) -> AsyncIterator[d.WatchJobsRequest]:
        while (request := await self._said.get()) is not None:
            yield request

    async def _read(self, scheduler: SchedulerService) -> None:
        async with contextlib.aclosing(scheduler.watch_jobs(self._requests())) as responses:
            async for each in responses:
                self.triggers.append(each)
                self._got.set()

    async def next(self) -> d.WatchJobsResponse:
        """The next trigger; TimeoutError after ten minutes without one."""
        async with asyncio.timeout(600):
            while not self.triggers:
                self._got.clear()
                await self._got.wait()
        return self.triggers.pop(0)

    def says(self, trigger: d.WatchJobsResponse | int, status: d.WatchJobsRequestResultStatus = d.SUCCESS) -> None:
        """Acknowledges a trigger."""
        number = trigger if isinstance(trigger, int) else trigger.id
        self.sends(d.WatchJobsRequest(result=d.WatchJobsRequestResult(id=number, status=status)))

    def sends(self, request: d.WatchJobsRequest | None) -> None:
        """A message; None: nothing more will come."""
        self._said.put_nowait(request)

    async def leave(self) -> None:
        """Breaks the connection."""
        await end([self.stream])


class World:
    """Attributes:
    frontends: each with a store of its own in `stores`.
    schedulers: one per frontend.
    """

    def __init__(self, stores: list[Store], runtime: VirtualRuntime) -> None:
        self.stores = stores
        self.runtime = runtime
        self.frontends = [Wiring(runtime, Timing()).frontend(each) for each in stores]
        self.schedulers = [self._scheduler(*each) for each in zip(self.frontends, stores, strict=True)]
        self.scheduler = self.schedulers[0]
        self._consumer: asyncio.Task[None] | None = None

    def _scheduler(self, frontend: FrontendService, store: Store) -> SchedulerService:
        scheduler = SchedulerService(frontend=frontend, store=store, timing=TIMING, runtime=self.runtime)
        scheduler.hosts = ("here:7401",)
        return scheduler

    def start_consumer(self) -> None:
        consumer = Consumer(
            store=self.stores[-1], settings=StoreConsumerSettings(), timing=TIMING, runtime=self.runtime
        )
        self._consumer = self.runtime.spawn(consumer.run(), name="consumer")

    async def stop_consumer(self) -> None:
        if self._consumer is not None:
            await end([self._consumer])

    async def schedule(
        self, name: str = "backup", of: d.JobMetadata | None = None, *, overwrite: bool = False, **fields: Any
    ) -> None:
        job = d.Job(**(fields or {"due_time": "0s"}))
        await self.scheduler.schedule_job(
            d.ScheduleJobRequest(name=name, job=job, metadata=of or app(), overwrite=overwrite)
        )

    def watch(self, number: int = 0, app_id: str = "billing", namespace: str = "prod", **initial: Any) -> Watcher:
        """A watcher of frontend `number`."""
        first = d.WatchJobsRequestInitial(app_id=app_id, namespace=namespace, **initial)
        return Watcher(self.schedulers[number], self.runtime, d.WatchJobsRequest(initial=first))

    async def job(self, name: str = "dapr-scheduler.prod/job:billing:backup") -> JobRecord:
        (found,) = await self.stores[0].get_jobs([name])
        assert found is not None
        return found

    async def task(self, name: str = "dapr-scheduler.prod/job:billing:backup") -> TaskRecord:
        """The newest tick's."""
        (found,) = await self.stores[0].get_tasks([(await self.job(name)).last_task])
        assert found is not None
        return found


def app(app_id: str = "billing", namespace: str = "prod") -> d.JobMetadata:
    return d.JobMetadata(app_id=app_id, namespace=namespace, target=d.JobTargetMetadata(job=d.TargetJob()))


def actor(kind: str = "Cat", actor_id: str = "7", app_id: str = "billing", namespace: str = "prod") -> d.JobMetadata:
    target = d.JobTargetMetadata(actor=d.TargetActorReminder(type=kind, id=actor_id))
    return d.JobMetadata(app_id=app_id, namespace=namespace, target=target)


def world(
    frontends: int = 1, *, partitions: int = 2, consumer: bool = True
) -> Callable[[VirtualRuntime], contextlib.AbstractAsyncContextManager[World]]:
    """So many frontends on one store."""

    @contextlib.asynccontextmanager
    async def opened(runtime: VirtualRuntime) -> AsyncIterator[World]:
        fake = fakeredis.FakeServer(version=(7, 4))
        stores = []
        for _ in range(frontends + 1):  # the last one is the store consumer's
            settings = StoreSettings(partitions=partitions, poll_interval=5)
            store = await Store.open(settings, TIMING, runtime, fake=fake)
            store.now = runtime.wall_us
            stores.append(store)
        built = World(stores[:-1], runtime)
        built.stores = stores
        if consumer:
            built.start_consumer()
        try:
            yield built
        finally:
            for each in built.schedulers:
                await each.close()
            await built.stop_consumer()
            for store in stores:
                await store.close()

    return opened
