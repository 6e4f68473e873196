"""One seed: every process of a cluster on one loop, its service, its faults, and its judge.

Two frontends, two HSCs, two store consumers, and two hosts with a controller and two executors each, each with its guard.
All of it is the code of production; what stands in is the network, the processes, the clocks and the server (on fakeredis).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from atf.config.settings import FrontendSettings, HscSettings, StoreConsumerSettings, StoreSettings, Timing
from atf.process.role import Process as Frame, StoppedEarly
from atf.store.store import Store
from atf.store_consumer.service import PollService
from atf.task import US
from atf.testing.runtime import EPOCH_US
from atf.testing.wiring import Wiring
from atf.verify.events import Gone

from . import deploys, errands
from .chronicle import Chronicle
from .host import Freezer, SimHost
from .link import SimLink, SimNotifications
from .loop import PROCESS, SimLoop, SimProcess
from .net import Net, Wire
from .pushes import pushes
from .store import StoreServer

TIMING: Final = Timing()
PARTITIONS: Final = 2
PAIR: Final = (1, 2)
T = TypeVar("T")


def forgets(seed: int) -> bool:
    """Whether a seed's store may forget its last second when it restarts."""
    return random.Random(-seed).random() < 0.5


class SimRuntime:
    """A process's clocks, chance and spawning. See atf.runtime.Runtime."""

    def __init__(self, world: World, process: SimProcess) -> None:
        self.random = random.Random(world.chance.getrandbits(64))
        self._world = world
        self._host = process.host
        self._started = world.chance.uniform(0, 1e6)

    def monotonic(self) -> float:
        return self._world.loop.time() + self._started

    def boottime_us(self) -> int:
        return self._world.loop.now_us + 1_000_000

    def wall_us(self) -> int:
        return EPOCH_US + self._world.loop.now_us + self._world.wall_offset_us.get(self._host, 0)

    def boot_id(self) -> str:
        return self._host

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        return self._world.loop.create_task(work, name=name)


class World:
    """Everything of one seed.

    Attributes:
        processes: those that live, by their address ("hsc-1", "h1-ctl", "h1-e2" a worker, "h1-g2" its guard).
    """

    def __init__(self, seed: int, *, source: str = "") -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.loop = SimLoop(random.Random(self.chance.getrandbits(64)))
        self.chronicle = Chronicle(lambda: self.loop.now_us)
        self.net = Net(self.loop, random.Random(self.chance.getrandbits(64)), self.chronicle)
        self.server = StoreServer(self.loop, self.chronicle, seed, durable=not forgets(seed), source=source)
        self.notifications = SimNotifications(self.server, self.net)
        self.roles: dict[str, Any] = {}
        self.processes: dict[str, SimProcess] = {}
        self.wall_offset_us: dict[str, int] = {}
        self.frames: dict[SimProcess, Frame] = {}
        self.freezer = Freezer(self)
        self.hosts = [SimHost(self, number) for number in PAIR]
        self._lives: dict[str, int] = {}
        self._poll_interval = self.chance.choice((2.0, 6.0))  # the longer, the more rests on wake-ups

    def now_us(self) -> int:
        """Microseconds of the loop."""
        return self.loop.now_us

    # --- processes -----------------------------------------------------------------------------------------------------

    def start(self, address: str, host: str, body: Callable[[Frame, SimProcess], Awaitable[int | None]]) -> SimProcess:
        """Starts a process, which ends with what its body returns."""
        life = self._lives[address] = self._lives.get(address, 0) + 1
        process = SimProcess(f"{address}.{life}", host)
        self.processes[address] = process
        self.chronicle.say(f"{process.name} starts")

        async def frame() -> None:
            inner = Frame(address)
            inner.runtime = SimRuntime(self, process)  # type: ignore[assignment]
            self.frames[process] = inner
            code = 0
            try:
                code = await body(inner, process) or 0
            except StoppedEarly:
                pass
            except Exception as error:  # noqa: BLE001  as run_role does
                self.chronicle.crashed.append(f"{process.name} ended by {error!r}")
                code = 1
            self.end(process, code, "ends by itself")

        self.loop.start(process, frame())
        return process

    def end(self, process: SimProcess, code: int, why: str) -> None:
        """A process is gone, at once: nothing of it runs any more."""
        if not process.alive:
            return
        self.chronicle.say(f"{process.name} {why} (exit code {code})")
        process.alive, process.code = False, code
        self.server.counts.gone(process.name, code, why)
        self.loop.graves += process.stash
        process.stash = []
        self.chronicle.event(Gone(self.now_us(), process.name))
        self.net.died(process)
        self.notifications.died(process)
        for call in process.on_end:
            self.loop.later(0, call)

    def kill(self, address: str) -> None:
        """SIGKILL."""
        process = self.processes.get(address)
        if process is not None and process.alive:
            self.end(process, 137, "is killed")

    def terminate(self, address: str) -> bool:
        """SIGTERM. Returns whether there was somebody to hear it."""
        process = self.processes[address]
        frame = self.frames.get(process)
        if frame is None or not process.alive:
            return False
        self.loop.start(process, _stop(frame))
        return True

    def boot(self, address: str) -> None:
        """Starts one of the roles that run by themselves, unless it runs. Once it has ended it is started again."""
        process = self.processes.get(address)
        if process is not None and process.alive:
            return
        role = address.rpartition("-")[0]
        if address == "store":
            process = self.boot_store()
        elif address.endswith("ctl"):
            process = self.hosts[int(address[1]) - 1].boot()
        else:
            body = {"frontend": self._frontend, "hsc": self._hsc, "store-consumer": self._consumer}[role]
            process = self.start(address, f"host-{address}", body)
        process.on_end.append(
            lambda: self.loop.later(self.chance.choice((0.05, 0.5, 2, 5)), lambda: self.boot(address))
        )

    def boot_all(self) -> None:
        """Starts everything that does not run."""
        for address in self.addresses():
            self.boot(address)

    @staticmethod
    def addresses() -> list[str]:
        """Of everything that is started by itself."""
        pairs = [f"{role}-{number}" for role in ("frontend", "hsc", "store-consumer") for number in PAIR]
        return ["store", *pairs, *(f"h{number}-ctl" for number in PAIR)]

    # --- what roles are made of ----------------------------------------------------------------------------------------

    def wire(self, *addresses: str) -> Any:
        """A role by its addresses; each call takes one of them."""
        assert set(addresses) <= set(self.addresses()), "nobody ever serves there"
        return Wire(self.net, lambda: self.chance.choice(addresses), self.roles)

    def wire_hsc(self) -> Any:
        return self.wire(*(f"hsc-{number}" for number in PAIR))

    def wire_frontend(self) -> Any:
        return self.wire(*(f"frontend-{number}" for number in PAIR))

    async def open_store(self, frame: Frame) -> Store:
        """The task store, as this process reaches it."""
        settings = StoreSettings(
            partitions=PARTITIONS, poll_interval=self._poll_interval, push_when_scheduled=pushes(self.seed)
        )
        return await frame.retry_until_available(
            lambda: Store.open(settings, TIMING, frame.runtime, fake=self.server.fake), "the task store"
        )

    def link(self) -> SimLink:
        """What Store.open takes for its connections here."""
        process = PROCESS.get()
        assert process is not None
        return SimLink(self.server, self.net, process)

    def boot_store(self) -> SimProcess:
        process = SimProcess(f"store.{self.server.run_id}", "host-store")
        self.processes["store"] = process
        self.net.serve("store", process)
        return process

    def serve(self, address: str, process: SimProcess, role: Any) -> None:
        self.roles[address] = role
        self.net.serve(address, process)

    async def _frontend(self, frame: Frame, process: SimProcess) -> None:
        store = await self.open_store(frame)
        settings = FrontendSettings(dapr_app="=".join(errands.DAPR_APP))
        service = Wiring(frame.runtime, TIMING).frontend(store, settings)
        self.serve(frame.role, process, service)
        await frame.stopping.wait()
        service.drain()

    async def _hsc(self, frame: Frame, process: SimProcess) -> None:
        store = await self.open_store(frame)
        frame.runtime.spawn(store.attend(), name="attend")
        service = Wiring(frame.runtime, TIMING).hsc(store, HscSettings(deploy_grace=deploys.GRACE_US / US))
        self.serve(frame.role, process, service)
        frame.runtime.spawn(service.run(), name="claims")
        await frame.stopping.wait()
        await service.drain()
        await store.close()

    async def _consumer(self, frame: Frame, process: SimProcess) -> None:
        store = await self.open_store(frame)
        settings = StoreConsumerSettings(sweep_interval=20)
        consumer = Wiring(frame.runtime, TIMING).consumer(store, settings)
        if errands.polled(self.seed) and frame.role == errands.POLLED:
            self.serve(frame.role, process, PollService(consumer))
            await frame.stopping.wait()
            return
        await consumer.run()


async def _stop(frame: Frame) -> None:
    frame.stop("SIGTERM")
