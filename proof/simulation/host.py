"""A worker host: its controller, and the executors that the controller starts, each a worker and its guard."""

from __future__ import annotations

import asyncio
import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from atf.config.settings import ExecutorSettings
from atf.controller.entrance import Entrance
from atf.controller.pool import ExecutorPool
from atf.controller.starts import Starts
from atf.errors import Unauthenticated
from atf.executor.credential import OwnCredential
from atf.executor.guarding.guard import TICK_S, Guard, KillReason
from atf.executor.guarding.worker_end import death
from atf.executor.table import Stage, Table
from atf.exits import EXIT_BAD_INPUT, EXIT_UNAVAILABLE
from atf.process.role import Process as Frame
from atf.rpc import frontend_pb2 as f
from atf.rpc.caller_security import Security
from atf.runtime import end, happens
from atf.testing.inline_workers import InlineWorkers
from atf.testing.wiring import Wiring
from atf.verify.events import FOREVER, Excused

from . import deploys, lambdas, starts, stops
from .loop import SimProcess

if TYPE_CHECKING:
    from .world import World

EXECUTORS: Final = 2
SLOTS: Final = 300
TOKEN: Final = f"atf_{'a' * 10}_{'s' * 43}"  # of the controllers; nobody knows it
SETTINGS: Final = ExecutorSettings(async_tasks=8, drain_timeout=10)


def has_tokens(seed: int) -> bool:
    """Whether in a seed executors enter their controller before they work."""
    return seed % 6 == 5


class SimHost:
    """One worker host."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"h{number}"
        self.release = 0
        """What executors that are started from now on run; see deploys.py."""
        self.world = world

    def boot(self) -> SimProcess:
        """Starts the controller."""
        return self.world.start(f"{self.name}-ctl", self.name, self._controller)

    async def _controller(self, frame: Frame, process: SimProcess) -> None:
        from .world import TIMING

        world = self.world
        known = Starts(EXECUTORS)
        wiring = Wiring(frame.runtime, TIMING)
        entrance = Entrance(world.wire_hsc(), Security(token=TOKEN), frame.runtime) if has_tokens(world.seed) else None
        service = wiring.controller(world.wire_hsc(), host=self.name, starts=known, entrance=entrance)
        world.serve(frame.role, process, service)

        async def start(on_line: Callable[[str], None]) -> SimGuardProcess:
            return SimGuardProcess(self, process, on_line, entrance.new_secret() if entrance else "")

        pool = ExecutorPool(
            start=start, size=EXECUTORS, on_death=service.executor_died, runtime=frame.runtime, starts=known
        )
        duty = frame.runtime.spawn(service.run(), name="controller")
        executors = frame.runtime.spawn(pool.run(), name="executors")
        await frame.stopping.wait()
        pool.drain()
        await asyncio.gather(service.drain(), executors)
        await service.flush(5)
        await end([duty])

    # --- an executor ---------------------------------------------------------------------------------------------------

    def take_number(self) -> str:
        """A number for an executor that no other on this host has."""
        taken = {
            address.rpartition("-")[2][1:]
            for address, process in self.world.processes.items()
            if process.host == self.name and process.alive
        }
        return next(number for number in map(str, range(1, 1_000)) if number not in taken)


class SimGuardProcess:
    """A guard as its controller knows it. See atf.controller.pool.ExecutorGuard."""

    def __init__(self, host: SimHost, controller: SimProcess, on_line: Callable[[str], None], secret: str = "") -> None:
        self._secret = secret
        world = host.world
        self.world, self._host, self._controller, self._on_line = world, host, controller, on_line
        self._number = host.take_number()
        self._ended = asyncio.Event()
        self._asked = asyncio.Event()
        self._stir = asyncio.Event()
        self._notes = _Notes()
        self._table = Table.in_memory(SLOTS)
        self._table.stage = Stage.JOINS
        self.worker: SimProcess | None = None
        self.process = world.start(f"{host.name}-g{self._number}", host.name, self._guard)
        self.process.on_end.append(self._tell_ended)
        controller.on_end.append(self._stir_drain)
        self.pid = int(self._number)

    async def wait(self) -> int:
        await self._ended.wait()
        return self.process.code

    def drain(self) -> None:
        self._stir_drain()

    def end_at_once(self) -> None:
        raise AssertionError("nobody asks twice here")

    def _stir_drain(self) -> None:
        self._asked.set()
        self._stir.set()

    def _tell_ended(self) -> None:
        """The controller sees that the guard has ended; the worker dies with it, by the kernel's hand."""
        self.world.loop.start(self._controller, _call(self._ended.set))
        if self.worker is not None:
            self.world.end(self.worker, 137, "dies with its guard")

    def _say(self, event: dict[str, Any]) -> None:
        line = json.dumps(event)
        self.world.loop.start(self._controller, _call(lambda: self._on_line(line)))

    # --- the guard's process -------------------------------------------------------------------------------------------

    async def _guard(self, frame: Frame, process: SimProcess) -> int:
        from .world import TIMING

        world, name = self.world, self._host.name
        self._drain_worker: Callable[[], None] = lambda: None
        self.worker = worker = world.start(f"{name}-e{self._number}", name, self._worker)
        worker.on_end.append(self._stir.set)
        world.freezer.watch(worker, process, self._table)
        self._say({"event": "started", "executor": worker.name, "pid": 1})

        def let_go() -> None:
            world.loop.start(worker, _call(self._drain_worker))

        async def asked() -> None:
            await frame.stopping.wait()
            self._stir_drain()

        frame.runtime.spawn(asked(), name="asked")

        def drains(why: str, started: int) -> None:
            self._say({"event": "draining", "executor": worker.name, "why": why, "started": started})

        guard = Guard(
            _Group(),  # type: ignore[arg-type]
            self._table,
            let_go,
            drains=drains,
            notes=self._notes,  # type: ignore[arg-type]
            slow=lambda why: self._say({"event": "slow", "executor": worker.name, "why": why}),
            settings=SETTINGS,
            timing=TIMING,
            clocks=frame.runtime,
        )
        verdict: KillReason | None = None
        while verdict is None and worker.alive:
            self._stir.clear()
            await happens(self._stir, guard.wait_s())
            if self._asked.is_set():
                guard.drain("somebody asks for it")
            verdict = guard.look() if worker.alive else None
        if worker.alive:
            # Killing takes its time, within what is allowed for it.
            await asyncio.sleep(world.chance.choice((0, 0, 0.2, 0.9)) * TIMING.kill_time)
            world.end(worker, 137, f"is killed by its guard: {verdict.why if verdict else ''}")
            world.chronicle.faults["guard kills"] += 1
        code = worker.code
        self._say(death(worker.name, 1, guard.ended(code, verdict), self._table))
        return code

    # --- the worker's process ------------------------------------------------------------------------------------------

    async def _worker(self, frame: Frame, process: SimProcess) -> int:
        from .world import TIMING

        world = self.world
        self._drain_worker = lambda: frame.stop("the guard lets go")
        if starts.is_bad(world, self._host.name):
            self._notes.why = starts.WHY
            world.chronicle.faults["failed starts"] += 1
            return EXIT_BAD_INPUT
        to_controller = world.wire(f"{self._host.name}-ctl")
        if self._secret:
            credential = OwnCredential(process.name, self._secret, Security())
            try:
                await frame.retry_until_available(lambda: credential.enter(to_controller), "the controller")
            except Unauthenticated:
                if self._controller.alive:
                    raise
                return EXIT_UNAVAILABLE  # another one is there now, which has not started this executor
        frontend = world.wire_frontend()
        release = self._host.release
        request = f.RegisterLambdasRequest(lambdas=lambdas.specs_of(world.seed, release))
        await frame.retry_until_available(lambda: frontend.register_lambdas(request), "the frontend")
        if deploys.has_deploys(world.seed):
            controller = f"{self._host.name}-ctl"
            spoken_for = partial(world.freezer.awake_since, controller)
            world.server.deploys.registered(process, release, world.now_us(), spoken_for)
        self._table.stage = Stage.WORKS
        wired = Wiring(frame.runtime, TIMING).executor(
            process.name,
            lambdas.lambdas_of(world.seed, release),
            controller=to_controller,
            hsc=world.wire_hsc(),
            workers=InlineWorkers(SETTINGS.async_tasks),
            table=self._table,
            settings=SETTINGS,
            drains=self._stir.set,
            end=lambda code, why: world.end(process, code, f"ends itself: {why}"),
        )
        executor, beats = wired.executor, wired.heartbeats
        stops.cancels_in_between(world, executor)
        frame.runtime.spawn(beats.run(), name="heartbeats")

        async def drain() -> None:
            await frame.stopping.wait()
            executor.drain()

        frame.runtime.spawn(drain(), name="drain")
        return await executor.run()


class _Notes:
    """What a worker notes that makes its lambdas known, and does nothing else before it works."""

    def __init__(self) -> None:
        self.why = ""

    def error(self) -> str:
        return self.why

    def last(self) -> str:
        return "registering its lambdas"

    def place(self, *, crash: bool = False) -> str:
        return ""


class _Group:
    """A process group without a bound on its memory."""

    def memory_bytes(self) -> int:
        return 0


async def _call(what: Callable[[], object]) -> None:
    what()


@dataclass(frozen=True, slots=True)
class ExcusedAtKill(Excused):
    """Worker and guard went on before the lease's end, and too late to kill in time."""


class Freezer:
    """Freezes processes, and says which overlaps that excuses.

    A run that goes on after its lease's end is excused where worker and guard were both frozen when the lease ended, or when the guard had to
    begin to kill, which takes its time; and until one tick of the guard after the worker's thaw.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._pairs: dict[SimProcess, tuple[SimProcess, Table]] = {}  # worker -> guard, table
        self._frozen: defaultdict[SimProcess, list[tuple[int, int]]] = defaultdict(list)  # from, until

    def watch(self, worker: SimProcess, guard: SimProcess, table: Table) -> None:
        """A worker has been started."""
        self._pairs[worker] = (guard, table)

    def holds(self, process: SimProcess) -> bool:
        """Whether a worker, or the worker of a guard, holds claims."""
        pairs = ((worker, *pair) for worker, pair in self._pairs.items())
        return any(process in {worker, guard} and table.oldest_lease_us for worker, guard, table in pairs)

    def freeze(self, address: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        process = self.world.processes.get(address)
        if process is None or not process.alive:
            return
        self.world.chronicle.say(f"{process.name} freezes for {seconds:.1f} s")
        if not process.frozen:
            self._frozen[process].append((self.world.now_us(), FOREVER))
        process.frozen += 1
        self._check_later(process)
        self.world.loop.later(seconds, lambda: self._thaw(process))

    def awake_since(self, address: str) -> int:
        """Since when a process is not frozen, by the observer's clock; FOREVER: it does not run."""
        process = self.world.processes.get(address)
        if process is None or not process.running:
            return FOREVER
        return max((until for _, until in self._frozen[process]), default=0)

    def thaw_all(self) -> None:
        """Everything goes on."""
        for process in self.world.processes.values():
            while process.alive and process.frozen:
                self._thaw(process)

    def _thaw(self, process: SimProcess) -> None:
        if not process.alive or not process.frozen:
            return
        self.world.loop.thaw(process)
        if not process.frozen:
            since, _ = self._frozen[process].pop()
            self._frozen[process].append((since, self.world.now_us()))
        self.world.chronicle.say(f"{process.name} goes on")

    def _check_later(self, process: SimProcess) -> None:
        """At the end of the oldest lease: is the worker frozen, and its guard too? Or were they, when the kill had to begin?"""
        from .world import TIMING

        for worker, (guard, table) in list(self._pairs.items()):
            if process in {worker, guard} and worker.alive and table.oldest_lease_us:
                ends_us = table.oldest_lease_us + TIMING.heartbeat_timeout_us - 1_000_000  # boottime is a second ahead
                ends_us -= round(TIMING.drift * 1e6)  # by a clock that runs as fast as it may
                wait = max(ends_us - self.world.now_us(), 0) / 1e6
                self.world.loop.later(wait, lambda worker=worker, guard=guard: self._at_end(worker, guard))  # type: ignore[misc]

    def _were_frozen(self, at_us: int, *processes: SimProcess) -> bool:
        return all(any(since <= at_us < until for since, until in self._frozen[each]) for each in processes)

    def _at_end(self, worker: SimProcess, guard: SimProcess) -> None:
        from .world import TIMING

        since = self.world.now_us()
        kill_us = since - round(TIMING.kill_time * 1e6)
        past_end = self._were_frozen(since, worker, guard)
        if worker.alive and guard.alive and (past_end or self._were_frozen(kill_us, worker, guard)):
            excused = Excused if past_end else ExcusedAtKill
            killed_by = math.inf

            def look() -> None:
                nonlocal killed_by
                now = self.world.now_us()
                if killed_by == math.inf and not guard.frozen:
                    killed_by = now + round((TICK_S + TIMING.kill_time) * 1e6)
                if worker.alive and worker.frozen and now < killed_by:
                    self.world.loop.later(0.01, look)
                else:
                    until = round(min(now + TICK_S * 1e6, killed_by))
                    self.world.chronicle.event(excused(since, worker.name, until))

            look()
