"""The faults of one seed: what is killed, frozen, cut off, restarted, rolled back, set forward or back, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from atf.verify.events import SetBack

from .net import Weather

if TYPE_CHECKING:
    from .world import World

HORIZON_S: Final = 120.0
FEWEST: Final = 10
_BEGINS_S: Final = 10.0
"""Seconds in which an idle worker is expected to begin something."""
_LOOK_S: Final = 0.2
FORGETS_S: Final = 1.0
"""What a store rolled back forgets."""
_ROLES: Final = ("controller", "frontend", "hsc", "store-consumer")
KINDS: Final = (
    *(f"{what} {role}" for what in ("kill", "freeze", "SIGTERM") for role in _ROLES),
    *(
        "SIGTERM executor",
        "kill executor",
        "kill guard",
        "guard kills",
        "kill store",
        "freeze executor",
        "freeze guard",
        "freeze executor and guard",
    ),
    *(
        "freeze host",
        "freeze store",
        "cut off",
        "answers cut off",
        "queues wiped",
        "store full",
        "roll back store",
        "empty store",
    ),
    *(f"{whose} clock goes {where}" for whose in ("store", "host") for where in ("forward", "back")),
    "store clock goes back and forth",
)
"""Every kind of fault that it does, or has done: a guard kills of its own accord."""
DONE: Final = frozenset(KINDS) - {"guard kills"}
WEATHERS: Final = (
    Weather(),
    Weather(slow=0.02, late=0.002, lost=0.005, doubled=0.01),
    Weather(slow=0.05, late=0.01, lost=0.03, doubled=0.03),
    Weather(slow=0.02, late=0.05, lost=0.01, doubled=0.10),
)


class Nemesis:
    """Does the faults of one seed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        kinds: list[tuple[int, Callable[[], bool]]] = [
            (8, self._kill_role),
            (6, self._kill_worker),
            (2, self._kill_guard),
            (3, self._kill_store),
            (3, self._freeze_role),
            (6, self._freeze_worker),
            (2, self._freeze_guard),
            (3, self._freeze_pair),
            (1, self._freeze_host),
            (1, self._freeze_store),
            (6, self._cut),
            (4, self._cut_answers),
            (4, self._store_clock),
            (2, self._store_clock_back_and_forth),
            (2, self._wall_clock),
            (2, self._wipe_queue),
            (2, self.fill_store),
            (3, self._terminate),
            (2, self._terminate_worker),
        ]
        later: list[tuple[int, Callable[[], bool]]] = [(4, self._freeze_beginner)]
        if not world.server.durable:
            kinds.append((2, self._empty_store))
            later.append((6, self.roll_back))
        self._kinds = [*kinds, *later]
        self.at_once = kinds

    async def run(self) -> None:
        """Faults until the horizon; then everything is mended."""
        world, chance = self._world, self._chance
        world.net.weather = chance.choice(WEATHERS)
        count = chance.randint(FEWEST, 2 * FEWEST)
        for at in sorted(chance.uniform(3, HORIZON_S) for _ in range(count)):
            await asyncio.sleep(at - world.now_us() / 1e6)
            self._do_one_of(self._kinds)
        await asyncio.sleep(HORIZON_S - world.now_us() / 1e6)
        world.net.weather = Weather()
        world.net.cut.clear()
        world.net.deaf.clear()
        world.net.unheard.clear()
        world.net.tardy.clear()
        world.server.full = False
        world.freezer.thaw_all()
        world.boot_all()
        world.chronicle.say("the faults are over")

    def _do_one_of(self, kinds: list[tuple[int, Callable[[], bool]]]) -> None:
        weights = [weight for weight, _ in kinds]
        while not self._chance.choices(kinds, weights)[0][1]():
            pass  # there was nothing to do it to

    def _did(self, done: bool) -> None:
        """What was to come later has come, or has not, and then something else is done instead."""
        if not done:
            self._do_one_of(self.at_once)

    # --- kinds: each says whether it has done something, or will have: then it says so to _did ----------------------------

    def _role(self) -> str | None:
        """A living role by chance."""
        processes = self._world.processes
        found = [each for each in self._world.addresses() if each != "store" and processes[each].alive]
        return self._chance.choice(found) if found else None

    def _living(self, mark: str) -> str | None:
        """A living worker ("e") or guard ("g") by chance; three times of four one at work, else one that waits for some."""
        found = [
            address
            for address, process in self._world.processes.items()
            if process.alive and address[0] == "h" and address.split("-")[1][0] == mark and address[1].isdigit()
        ]
        busy = [each for each in found if self._world.freezer.holds(self._world.processes[each])]
        idle = [each for each in found if each not in busy]
        chosen = (busy if self._chance.random() < 0.75 else idle) or found
        return self._chance.choice(chosen) if chosen else None

    def _kind(self, address: str) -> str:
        return "controller" if address.endswith("ctl") else address.rpartition("-")[0]

    def _kill_role(self) -> bool:
        address = self._role()
        return address is not None and self._kill(self._kind(address), address)

    def _kill_worker(self) -> bool:
        return self._kill("executor", self._living("e"))

    def _kill_guard(self) -> bool:
        return self._kill("guard", self._living("g"))

    def _kill(self, kind: str, address: str | None) -> bool:
        if address is None:
            return False
        self._world.chronicle.fault(f"kill {kind}", address)
        self._world.kill(address)
        return True

    def _kill_store(self) -> bool:
        return self._restart_store("kill store", forgetting=False)

    def roll_back(self) -> bool:
        world = self._world
        if not world.processes["store"].alive or world.loop.time() + FORGETS_S >= HORIZON_S:
            return False
        world.server.keep()
        beside = self._chance.choice(("", "", "hsc", "executor"))
        if beside == "hsc":  # the one that comes next may give claims that are forgotten with its name
            processes = self._world.processes
            living = [each for each in ("hsc-1", "hsc-2") if each in processes and processes[each].alive]
            self._kill("hsc", self._chance.choice(living) if living else None)

        def roll_back() -> None:
            done = self._restart_store("roll back store", forgetting=True)
            self._did(done)
            if done and beside == "executor":  # what it was told last may be forgotten: it counts on that
                self._freeze("freeze executor", *((each, 18.0) for each in [self._living("e")] if each))

        world.loop.later(FORGETS_S, roll_back)
        return True

    def _empty_store(self) -> bool:
        """Its disk is lost: it comes back with nothing, and with another name."""
        if not self._world.processes["store"].alive:
            return False
        self._world.server.keep_nothing()
        return self._restart_store("empty store", forgetting=True)

    def _restart_store(self, kind: str, *, forgetting: bool) -> bool:
        world = self._world
        if not world.processes["store"].alive:
            return False
        world.chronicle.fault(kind)
        world.notifications.broken()
        world.server.restarted(forgetting=forgetting)
        world.kill("store")
        return True

    def _seconds(self) -> float:
        from .world import TIMING

        return self._chance.choice((0.5, 2.0, 8.0, 12.0, 18.0, 25.0, 3 * TIMING.heartbeat_timeout))

    def _freeze_role(self) -> bool:
        address = self._role()
        return address is not None and self._freeze(f"freeze {self._kind(address)}", (address, self._seconds()))

    def _freeze_worker(self) -> bool:
        address = self._living("e")
        return address is not None and self._freeze("freeze executor", (address, self._seconds()))

    def _freeze_beginner(self) -> bool:
        """The next worker of a host that begins to hold something, before it can have renewed any lease. Mostly its claim is older than it looks."""
        world, host = self._world, self._chance.choice(self._world.hosts).name
        idle = [
            address
            for address, process in world.processes.items()
            if process.alive and address.startswith(f"{host}-e") and not world.freezer.holds(process)
        ]
        late = self._chance.random()
        if idle and late < 0.75:
            (world.net.unheard if late < 0.4 else world.net.tardy).add(host)
        until = min(world.loop.time() + _BEGINS_S, HORIZON_S - _LOOK_S)

        def look() -> None:
            began = [address for address in idle if world.freezer.holds(world.processes[address])]
            if began:
                what = (self._chance.choice(began), self._chance.choice((18.0, 25.0)))
                self._did(self._freeze("freeze executor", what))
            elif world.loop.time() < until:
                world.loop.later(_LOOK_S, look)
            else:
                self._did(self._freeze_worker())

        if idle:
            look()
        return bool(idle)

    def _freeze_guard(self) -> bool:
        address = self._living("g")
        return address is not None and self._freeze("freeze guard", (address, self._seconds()))

    def _freeze_pair(self) -> bool:
        address = self._living("e")
        if address is None:
            return False
        seconds, longer = self._seconds(), self._chance.choice((0, 0, 1))
        guard = address.replace("-e", "-g")
        return self._freeze("freeze executor and guard", (address, seconds), (guard, seconds + longer))

    def _freeze_host(self) -> bool:
        seconds, name = self._seconds(), self._chance.choice(self._world.hosts).name
        there = [address for address, process in self._world.processes.items() if process.host == name]
        return self._freeze("freeze host", *((address, seconds) for address in there))

    def _freeze_store(self) -> bool:
        return self._freeze("freeze store", ("store", self._chance.choice((0.3, 2.0, 6.0))))

    def _freeze(self, kind: str, *what: tuple[str, float]) -> bool:
        """One fault: freezes processes, each for its seconds."""
        living = [(address, seconds) for address, seconds in what if self._world.processes[address].alive]
        if living:
            self._world.chronicle.fault(kind)
        for address, seconds in living:
            self._world.freezer.freeze(address, seconds)
        return bool(living)

    def _cut(self) -> bool:
        world, chance = self._world, self._chance
        hscs, frontends = ["host-hsc-1", "host-hsc-2"], ["host-frontend-1", "host-frontend-2"]
        if chance.random() < 0.2:
            one, others = chance.choice(["host-service", "h1", "h2"]), chance.choice([frontends, frontends[:1]])
        else:
            one = chance.choice(["h1", "h2", "host-store-consumer-1", *frontends[:1], *hscs])
            others = chance.choice([["host-store"], hscs, ["host-store", *hscs]])
        pairs = {frozenset({one, other}) for other in others if other != one}
        seconds = self._seconds()
        world.chronicle.fault("cut off", f"{one} from {', '.join(others)} for {seconds:.1f} s")
        world.net.cut |= pairs
        world.loop.later(seconds, lambda: world.net.cut.difference_update(pairs))
        return True

    def _cut_answers(self) -> bool:
        """What a host asks for is done, and it does not hear of it."""
        host, seconds = self._chance.choice(self._world.hosts).name, self._chance.choice((1.0, 3.0, 5.0, 8.0))
        if self._chance.random() < 0.2:
            host = self._chance.choice(("host-hsc-1", "host-hsc-2", "host-store-consumer-1", "host-frontend-1"))
        self._world.chronicle.fault("answers cut off", f"{host} for {seconds:.1f} s")
        self._world.net.deaf.add(host)
        self._world.loop.later(seconds, lambda: self._world.net.deaf.discard(host))
        return True

    def _store_clock(self) -> bool:
        seconds = self._chance.uniform(*self._chance.choice([(0.001, 60.0), (0.001, 1.0), (-60.0, -0.001)]))
        self._world.chronicle.fault(f"store clock goes {_where(seconds)}", f"by {seconds:+.3f} s")
        self._step(seconds)
        return True

    def _store_clock_back_and_forth(self) -> bool:
        """And a store consumer hears nothing in between."""
        world, chance = self._world, self._chance
        back, over, seconds = chance.uniform(20.0, 60.0), chance.uniform(0.0, 2.0), chance.uniform(1.0, 12.0)
        if world.loop.time() + seconds >= HORIZON_S:
            return False
        pair = frozenset({"host-store-consumer-1", "host-store"})
        world.chronicle.fault("store clock goes back and forth", f"by {back:.3f} s for {seconds:.1f} s")
        world.net.cut.add(pair)
        self._step(-back)
        world.loop.later(seconds, lambda: self._step(back + over))
        world.loop.later(seconds + 0.1, lambda: world.net.cut.discard(pair))
        return True

    def _step(self, seconds: float) -> None:
        if seconds < 0:
            self._world.chronicle.event(SetBack(self._world.now_us()))
        self._world.server.offset_us += round(seconds * 1e6)

    def _wall_clock(self) -> bool:
        hosts = sorted({process.host for process in self._world.processes.values() if process.alive})
        host, seconds = self._chance.choice(hosts), self._chance.uniform(-60, 60)
        self._world.chronicle.fault(f"host clock goes {_where(seconds)}", f"{host} by {seconds:+.1f} s")
        self._world.wall_offset_us[host] = self._world.wall_offset_us.get(host, 0) + round(seconds * 1e6)
        return True

    def _wipe_queue(self) -> bool:
        wiped = self._world.server.wipe_queues()
        if wiped:
            self._world.chronicle.fault("queues wiped", f"{wiped} of them")
        return wiped > 0

    def fill_store(self) -> bool:
        server = self._world.server
        if server.full:
            return False
        self._world.chronicle.fault("store full")
        server.full = True
        self._world.loop.later(self._chance.uniform(1, 15), lambda: setattr(server, "full", False))
        return True

    def _terminate(self) -> bool:
        address = self._role()
        if address is None or not self._world.terminate(address):
            return False
        self._world.chronicle.fault(f"SIGTERM {self._kind(address)}", address)
        return True

    def _terminate_worker(self) -> bool:
        address = self._living("g")  # who is asked to stop is the guard, as everywhere: it has its worker drain
        if address is None or not self._world.terminate(address):
            return False
        self._world.chronicle.fault("SIGTERM executor", address)
        return True


def _where(seconds: float) -> str:
    return "forward" if seconds > 0 else "back"
