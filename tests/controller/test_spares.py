"""Spares: executors that stand by take the place of others at once, and cost nobody anything when they don't."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from atf.controller.spares import REFILL_S, Spares
from atf.runtime import end
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual


class StandingGuard:
    """A guard that notes what it is told."""

    def __init__(self, number: int, say: Callable[[str], None], stands_by: bool) -> None:
        self.pid, self.say, self.stood_by = number, say, stands_by
        self.told: list[str] = []
        self._ended = asyncio.Event()

    def begin(self) -> None:
        self.told.append("begin")
        self.say(f"{self.pid} begins")

    def drain(self) -> None:
        self.end("drain")

    def end_at_once(self) -> None:
        self.end("end")

    def end(self, word: str = "killed") -> None:
        self.told.append(word)
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        return 0


class World:
    """Spares of guards that are all here."""

    def __init__(self, runtime: VirtualRuntime, size: int = 2) -> None:
        self.guards: list[StandingGuard] = []
        self.refuse = False
        self.spares = Spares(size, self.start, runtime)
        self.running = runtime.spawn(self.spares.run(), name="spares")

    async def start(self, say: Callable[[str], None], stands_by: bool) -> StandingGuard:
        if self.refuse and stands_by:
            raise BlockingIOError("no more processes")
        self.guards.append(StandingGuard(len(self.guards), say, stands_by))
        return self.guards[-1]

    def standing(self) -> list[int]:
        """Those that have been told nothing yet."""
        return [each.pid for each in self.guards if each.stood_by and not each.told]


@contextlib.asynccontextmanager
async def spares(runtime: VirtualRuntime) -> AsyncIterator[World]:
    world = World(runtime)
    yield world
    await end([world.running])
    for each in world.guards:  # those that were taken are the pool's to end
        each.end()
    await world.spares.ended()


@virtual(spares)
async def test_a_spare_takes_the_place_of_an_executor_and_another_one_its_own(w: World) -> None:
    said: list[str] = []
    await asyncio.sleep(60)
    assert w.guards == [], "nothing stands by before an executor was started"
    first = await w.spares.start(said.append)
    assert (first.pid, w.guards[0].stood_by) == (0, False)
    await asyncio.sleep(REFILL_S * 0.9)
    assert w.standing() == [], "the executors that start have the processor first"
    await asyncio.sleep(REFILL_S)
    assert w.standing() == [1, 2]
    for pid in (1, 2):
        assert (await w.spares.start(said.append)).pid == pid
    assert said == ["1 begins", "2 begins"]
    assert (await w.spares.start(said.append)).pid == 3, "none is left: one that does not stand by"
    await asyncio.sleep(2 * REFILL_S)
    assert w.standing() == [4, 5]


@virtual(spares)
async def test_one_that_ends_while_it_stands_by_takes_no_place(w: World) -> None:
    await w.spares.start(lambda _: None)
    await asyncio.sleep(2 * REFILL_S)
    w.guards[1].end()
    await asyncio.sleep(0.01)
    assert (await w.spares.start(lambda _: None)).pid == 2
    w.refuse = True
    await asyncio.sleep(60)
    w.refuse = False
    await w.spares.start(lambda _: None)
    await asyncio.sleep(2 * REFILL_S)
    assert w.standing() == [4, 5], "it goes on after a time without processes"


@virtual(spares)
async def test_those_that_stand_by_end_with_the_controller_and_those_that_work_do_not(w: World) -> None:
    await w.spares.start(lambda _: None)
    await asyncio.sleep(2 * REFILL_S)
    await w.spares.start(lambda _: None)
    await end([w.running])
    assert [each.told for each in w.guards] == [[], ["begin"], ["end"]]


@virtual(spares)
async def test_without_spares_none_stands_by(w: World) -> None:
    none = Spares(0, w.start, VirtualRuntime(asyncio.get_running_loop()))  # type: ignore[arg-type]
    await none.start(lambda _: None)
    await none.run()
    assert w.standing() == []
