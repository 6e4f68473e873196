"""A whole pipeline on virtual time: two hosts, two store consumers, every call over a line that may fail; and its judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import fakeredis

import atf
from atf.client import AsyncClient, Handle
from atf.config.settings import (
    StoreConsumerSettings,
    StoreSettings,
    Timing,
)
from atf.controller.losses import parse_death
from atf.errors import Unavailable
from atf.executor.guarding.worker_end import WorkerEnd, death
from atf.executor.table import Stage, Table
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.runtime import end
from atf.store.store import Store
from atf.store.values.tasks import TaskRecord
from atf.testing.inline_workers import InlineWorkers
from atf.testing.loop import VirtualLoop
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring
from tests.store.world import Dump, read, violations
from tests.store_calls import open_behind

from .line import Line, Wire

TIMING: Final = Timing()
H: Final = TIMING.heartbeat_timeout
PARTITIONS: Final = 2
app = atf.App("f")


# --- the lambdas, and their own record --------------------------------------------------------------------------------


@dataclass
class Run:
    """One run, by the lambda's own account; seconds of the loop's clock."""

    task_id: str
    number: int
    fence: int
    due_us: int
    start: float
    store_us: int
    """The store's clock at the start."""
    end: float | None = None
    ok: bool = False


runs: list[Run] = []
"""Every run of the world that is open."""
_world: list[World] = []
"""The world that is open."""


def _started(ctx: atf.Context) -> Run:
    due_us = round(ctx.scheduled_at.timestamp() * 1e6)
    run = Run(ctx.task_id, ctx.run, ctx.fence, due_us, asyncio.get_running_loop().time(), _world[-1].store_clock_us())
    runs.append(run)
    return run


@app.task(max_attempts=5, backoff=atf.Backoff(1, jitter=0))
async def step(ctx: atf.Context, seconds: float = 1.0, fails: int = 0) -> int:
    """Takes its time; its first attempts fail."""
    run = _started(ctx)
    try:
        await asyncio.sleep(seconds)
        if ctx.attempt <= fails:
            raise RuntimeError(f"attempt {ctx.attempt} fails")
        run.ok = True
        return ctx.attempt
    finally:
        run.end = asyncio.get_running_loop().time()


@app.task(stop_on_fatal=True)
async def hopeless(ctx: atf.Context, fails: int = 1) -> None:
    """Fails for good, in its first runs; its ordering key stops there."""
    run = _started(ctx)
    run.end, run.ok = run.start, ctx.run > fails
    if not run.ok:
        raise atf.Fatal("no use")


@app.task(max_attempts=5, backoff=atf.Backoff(1, jitter=0))
async def charge(ctx: atf.Context, key: str, fails: int = 0) -> bool:
    """Whether it is the first for the key. Its first attempts fail after they have asked."""
    run = _started(ctx)
    try:
        first = await ctx.first_time_async(key)
        if ctx.attempt <= fails:
            raise RuntimeError(f"attempt {ctx.attempt} fails")
        run.ok = True
        return first
    finally:
        run.end = asyncio.get_running_loop().time()


@app.task(max_running=1)
async def one_by_one(ctx: atf.Context) -> None:
    """Takes a moment, and never beside another one."""
    run = _started(ctx)
    await asyncio.sleep(0.05)
    run.end, run.ok = asyncio.get_running_loop().time(), True


@app.task
async def poison(ctx: atf.Context) -> None:
    """Ends its executor's process each time."""
    run = _started(ctx)
    try:
        await asyncio.sleep(0.2)
        for host in _world[-1].hosts:
            if ctx.task_id in host.executor.ledger.tasks:
                host.crash()
        await asyncio.sleep(10)
    finally:
        run.end = asyncio.get_running_loop().time()


@app.task
async def returns_a_set() -> object:
    """Returns what JSON does not have."""
    return object()


def of(handle: Handle[Any] | str) -> list[Run]:
    """The runs of a task, in their order."""
    return [run for run in runs if run.task_id == (handle if isinstance(handle, str) else handle.id)]


def concurrent() -> list[str]:
    """Tasks of which two runs overlapped."""
    found = []
    for task_id in {run.task_id for run in runs}:
        until = -1.0
        for run in sorted(of(task_id), key=lambda run: run.start):
            if run.start < until:
                found.append(task_id)
            until = max(until, float("inf") if run.end is None else run.end)
    return found


# --- the processes ----------------------------------------------------------------------------------------------------


class Host:
    """A controller, and one executor that is started again when it dies, as a guard and the controller's pool do it."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._lives = 0
        self._crash = asyncio.Event()
        self.codes: list[int] = []
        self.hsc = Wire(Line(world.runtime), world.hsc)
        """What the executor's heartbeats and results travel on."""
        self.duties: list[asyncio.Task[Any]] = []
        self.start_controller()

    def start_controller(self) -> None:
        world = self._world
        self._killed = asyncio.Event()
        self.controller = world.wiring.controller(world.hsc_wire, host=f"host-{self._number}")
        self._controlling = self._world.runtime.spawn(self.controller.run(), name=f"controller {self._number}")
        self.to_controller = Wire(self._world.line, self.controller)

    async def kill_controller(self) -> None:
        """SIGKILL: whatever it held is gone, and calls to it break. Its executor outlives it only until its own end."""
        self._killed.set()
        await end([self._controlling])

    async def restart_controller(self) -> None:
        await self.kill_controller()
        self.start_controller()

    async def carried(self, call: Coroutine[Any, Any, Any]) -> Any:
        """The answer to a call of the controller that is there now, as long as that lives."""
        spawn = self._world.runtime.spawn
        answer, gone = spawn(call, name="call"), spawn(self._killed.wait(), name="killed")
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise Unavailable("the controller is gone")
        finally:
            await end([answer, gone])

    def crash(self) -> None:
        """The worker dies at once."""
        self._crash.set()

    async def run(self) -> None:
        """One executor after the other."""
        while True:
            self._lives += 1
            event = await self._life(f"e{self._number}-{self._lives}")
            self.controller.executor_died(parse_death(event))
            await asyncio.sleep(0.5)

    async def _life(self, executor_id: str) -> dict[str, Any]:
        runtime, table = self._world.runtime, Table.in_memory(600)
        ends: list[asyncio.Event] = [self._crash]
        self._crash.clear()
        wired = self._world.wiring.executor(
            executor_id, app.lambdas, controller=_Current(self), hsc=self.hsc, workers=InlineWorkers(), table=table
        )
        executor, beats = wired.executor, wired.heartbeats
        self.executor = executor
        running = runtime.spawn(executor.run(), name=executor_id)
        beating = runtime.spawn(beats.run(), name=f"{executor_id} beats")
        crash = runtime.spawn(ends[0].wait(), name=f"{executor_id} crash")
        code = 137
        try:
            await asyncio.wait({running, crash}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                code = running.result()
            left = death(executor_id, 1, WorkerEnd(code, "crashed", ordered=table.stage is Stage.CUTS), table)
        finally:
            executor.abort(code, "the process is gone")  # nothing of it may start any more
            await end([running, beating, crash])
        await asyncio.sleep(0.001)  # its lambdas have ended: they are part of the process
        self.codes.append(code)
        return left


class _Current:
    """The controller of a host, whichever process it is now."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def next_work(self, request: Any, *, timeout: float = 70) -> Any:
        return await self._host.carried(self._host.to_controller.next_work(request, timeout=timeout))

    async def enter(self, request: Any, *, timeout: float = 10) -> Any:
        return await self._host.carried(self._host.to_controller.enter(request, timeout=timeout))

    async def report_runs(self, request: Any, *, timeout: float = 10) -> Any:
        return await self._host.carried(self._host.to_controller.report_runs(request, timeout=timeout))


class World:
    """Everything, running.

    Attributes:
        line: every call between roles travels on it, by the RPC's name.
        store_line: every call of the task store, by the verb's name.
        skew_us: how far the store's clock stands apart from the hosts'.
    """

    def __init__(self, runtime: VirtualRuntime, executing: int) -> None:
        runs.clear()
        _world[:] = [self]
        self.runtime = runtime
        self.wiring = Wiring(runtime, TIMING)
        self.line = Line(runtime)
        self.store_line = Line(runtime)
        self.server = fakeredis.FakeServer()
        self.server_id = ("fake", "1")
        self.skew_us = 0
        self._executing = executing
        self._stores: list[Store] = []
        self.hosts: list[Host] = []
        self.duties: list[asyncio.Task[Any]] = []

    async def open_store(self, *, sure: bool = False) -> Store:
        """Another process's view of the store; `sure`: its calls never fail."""
        settings = StoreSettings(partitions=PARTITIONS, poll_interval=5)
        store = await open_behind(self.server, lambda: self.server_id, settings, TIMING, self.runtime)
        store.now = self.store_clock_us
        store.metrics = self.wiring.metrics
        link = store.link
        direct = link.call
        if not sure:

            async def call(verb: str, *args: Any, **kwargs: Any) -> Any:
                return await self.store_line.carry(verb, lambda: direct(verb, *args, **kwargs))

            link.call = call  # type: ignore[method-assign]
        self._stores.append(store)
        return store

    async def start(self) -> None:
        self.store = await self.open_store(sure=True)
        self.hsc = self.wiring.hsc(await self.open_store())
        self.duties.append(self.runtime.spawn(self.hsc.run(), name="claims"))
        self.hsc_wire = Wire(self.line, self.hsc)
        self.frontend = Wire(self.line, self.wiring.frontend(await self.open_store()))
        self.client = AsyncClient("the world", timeout=60, frontend=self.frontend, runtime=self.runtime)
        for number in range(2):
            settings = StoreConsumerSettings(sweep_interval=5)
            consumer = self.wiring.consumer(await self.open_store(), settings)
            self.duties.append(self.runtime.spawn(consumer.run(), name=f"consumer {number}"))
        request = f.RegisterLambdasRequest(lambdas=[each.spec() for each in app.lambdas.values()])
        await self.sure(lambda: self.frontend.register_lambdas(request))
        for _ in range(self._executing):
            await self.add_host()

    async def add_host(self) -> Host:
        """Another controller with an executor; its calls to the HSC travel on the common line."""
        host = Host(self, len(self.hosts))
        host.hsc.line = self.line
        self.hosts.append(host)
        self.duties.append(self.runtime.spawn(host.run(), name=f"host {len(self.hosts)}"))
        return host

    async def close(self) -> None:
        for line in (self.line, self.store_line):
            line.plan.clear()
            line.down.clear()
        await end([each for each in asyncio.all_tasks() if each is not asyncio.current_task()])
        for store in self._stores:
            await store.close()

    # --- for stories ---------------------------------------------------------------------------------------------------

    async def sure(self, call: Callable[[], Awaitable[Any]], seconds: float = 60) -> Any:
        """Calls until it is answered, as a patient caller does."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await call()
                except (atf.errors.Unavailable, atf.errors.DeadlineExceeded):
                    await asyncio.sleep(0.1)

    async def until(self, holds: Callable[[], bool], seconds: float = 60, *, look: float = 0.05) -> None:
        """Waits until something is so; looks every `look` seconds."""
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(look)

    async def schedule(self, count: int = 1, seconds: float = 1.0, **options: Any) -> list[Handle[int]]:
        """Schedules tasks of `step`."""
        fails = options.pop("fails", 0)
        prepared = step.options(**options) if options else step
        return await self.client.schedule_many([prepared.prepare(seconds, fails=fails) for _ in range(count)])

    async def succeed(self, handles: Sequence[Handle[Any]], within: float = 120) -> list[t.Task]:
        """All of them end in SUCCESS in time, never two runs at once, none early, and the store is in order."""
        records = await self.finished(handles, within)
        ends = {record.id: t.Status.Name(record.status) for record in records}
        assert ends == {handle.id: "SUCCESS" for handle in handles}
        for handle in handles:
            assert of(handle)[-1].ok, handle.id
        await self.check()
        return records

    async def finished(self, tasks: Sequence[Handle[Any] | str], within: float = 120) -> list[t.Task]:
        """The records of tasks that all end in time."""
        ids = [each if isinstance(each, str) else each.id for each in tasks]
        records = await self.client.wait_tasks(ids, timeout=within)
        assert len(records) == len(ids), f"{len(ids) - len(records)} of {len(ids)} not finished in {within} s"
        return records

    async def check(self) -> None:
        """What must hold at any time."""
        assert not concurrent(), [(run, await self.record(run.task_id)) for each in concurrent() for run in of(each)]
        early = [run for run in runs if run.due_us > run.store_us]
        assert not early, early
        wrong = violations(self.dump(), self.store_clock_us())
        assert not wrong, wrong

    def store_clock_us(self) -> int:
        return self.runtime.wall_us() + self.skew_us

    def dump(self) -> Dump:
        """Everything in the store at one instant: no role gets a turn meanwhile."""
        with fakeredis.FakeRedis(server=self.server) as client:
            return read(client)

    async def record(self, task: Handle[Any] | str) -> TaskRecord:
        """A task as it stands in the store."""
        (found,) = await self.store.get_tasks([task if isinstance(task, str) else task.id])
        assert found is not None
        return found

    async def forget(self, before: Dump) -> None:
        """The store loses what was written since `before`, as one that did not reach its disk."""
        client = self.store.link.client
        await client.delete(*await client.keys("*"))
        for key, (kind, value) in before.data.items():
            if kind == "hash":
                await client.hset(key, mapping={name: each.encode("latin-1") for name, each in value.items()})
            elif kind == "zset":
                await client.zadd(key, value)
            elif kind == "list":
                await client.rpush(key, *value)
            elif kind == "set":
                await client.sadd(key, *value)
            else:
                await client.set(key, value.encode("latin-1"))


@asynccontextmanager
async def opened(runtime: VirtualRuntime, hosts: int, prepare: Callable[[World], None]) -> AsyncIterator[World]:
    world = World(runtime, hosts)
    prepare(world)
    try:
        await world.start()
        yield world
    finally:
        await world.close()


def play(
    story: Callable[[World], Awaitable[None]], *, hosts: int = 2, prepare: Callable[[World], None] = lambda _world: None
) -> None:
    """Opens a world on a loop of its own, and plays the story in it.

    Args:
        story: what happens.
        hosts: how many there are from the start.
        prepare: called with the world before its roles start.
    """
    loop = VirtualLoop()

    async def whole() -> None:
        await asyncio.sleep(100)  # some time after the hosts have booted
        async with opened(VirtualRuntime(loop), hosts, prepare) as world:
            await story(world)

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()
