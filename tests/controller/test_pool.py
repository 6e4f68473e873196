"""The pool: executors are started again after their end, with pauses, and their deaths are passed on."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

import pytest

from atf.controller.losses import Death
from atf.controller.pool import ExecutorPool
from atf.controller.starts import Starts
from atf.errors import FailedPrecondition
from atf.runtime import end
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual


class FakeGuard:
    """A guard whose executor lives as long as the test says."""

    def __init__(self, number: int, life: float, code: int, say: Callable[[str], None], ran: str) -> None:
        self.pid = number
        timeout = [0, "it timed out"] if ran == "timed_out" else []
        self._ran = {ran: [[f"0-{number}", 1, "n", *timeout]]} if ran else {}
        self._life = life
        self._code = code
        self._say = say
        self._ended = asyncio.Event()
        self.drained = self.killed = False
        self.failed_start = ""
        self.stays = False
        """Whether it goes on for a while after it was asked to end."""
        say(json.dumps({"event": "started", "executor": f"e{number}", "pid": number}))

    def drain(self) -> None:
        self.drained = True
        if not self.stays:
            self.end()

    def end(self) -> None:
        """Its executor has ended in order."""
        self._code = 0
        self._ended.set()

    def end_at_once(self) -> None:
        self.killed = True
        self._code = 137
        self._ended.set()

    def leave(self, *, running: int = 1, why: str = "it drains by itself") -> None:
        """Its executor drains, for as long as it lives."""
        self._say(json.dumps({"event": "draining", "executor": f"e{self.pid}", "why": why, "started": running}))

    async def wait(self) -> int:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._life):
                await self._ended.wait()
        if self._code != 2:
            self._say("what is this")
            self._say('{"event": "dead", "executor": "e", "code": 1, "timed_out": [["0-a", 1, "n"]]}')
            dead = {"event": "dead", "executor": f"e{self.pid}", "pid": self.pid, "code": self._code}
            dead["failed_start"] = self.failed_start
            self._say(json.dumps(dead | self._ran))
        return self._code


class World:
    """A pool of fake guards; `life`, `code` and the list of their account in which a task that they `ran` at their death stands are those of the guards to come."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.runtime = runtime
        self.life, self.code = 3600.0, 1
        self.refuse, self.ran, self.failed_start = False, "", ""
        self.started: list[float] = []
        self.guards: list[FakeGuard] = []
        self.deaths: list[Death] = []
        self.guarded: set[str] = set()
        self.starts = Starts(1)
        self.pool = ExecutorPool(
            start=self.start_guard,
            size=1,
            on_death=self.deaths.append,
            runtime=runtime,
            guarded=self.guarded,
            starts=self.starts,
        )
        self.running = runtime.spawn(self.pool.run(), name="pool")

    async def start_guard(self, say: Callable[[str], None]) -> FakeGuard:
        self.started.append(self.runtime.monotonic())
        if self.refuse:
            raise BlockingIOError("no more processes")
        self.guards.append(FakeGuard(len(self.guards), self.life, self.code, say, self.ran))
        self.guards[-1].failed_start = self.failed_start
        return self.guards[-1]

    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.started, self.started[1:], strict=False)]


@contextlib.asynccontextmanager
async def pool(runtime: VirtualRuntime) -> AsyncIterator[World]:
    world = World(runtime)
    yield world
    await end([world.running])


@virtual(pool)
async def test_an_executor_is_guarded_until_its_guard_ends_with_or_without_an_account(w: World) -> None:
    for w.code in (1, 2):
        w.life = 100
        await asyncio.sleep(50)
        assert w.guarded == {f"e{len(w.guards) - 1}"}
        await asyncio.sleep(50.05)
        assert w.guarded == set()
        await asyncio.sleep(1)


@virtual(pool)
async def test_an_executor_that_dies_is_replaced_after_a_second_at_most(w: World) -> None:
    w.life = 100
    await asyncio.sleep(101.5)
    assert len(w.guards) == 2
    assert [each.executor_id for each in w.deaths] == ["e0"]


@virtual(pool)
async def test_pauses_between_starts_double_up_to_thirty_seconds_and_a_long_life_resets_them(w: World) -> None:
    w.life, w.code = 0, 2
    await asyncio.sleep(200)
    pauses = w.gaps()
    assert max(pauses) <= 30
    for index, bound in enumerate([1, 2, 4, 8, 16, 30]):
        assert bound / 2 <= pauses[index] <= bound
    assert not w.deaths
    w.life, w.code = 60, 1
    await asyncio.sleep(100)
    assert len(w.deaths) >= 1
    assert w.gaps()[-1] <= 61


@virtual(pool)
async def test_an_executor_that_died_while_it_ran_tasks_is_replaced_at_once_however_often(w: World) -> None:
    for ran in ("started", "cut", "timed_out", "stopped"):
        w.life, w.ran = (
            0.1,
            ran,
        )  # that may have killed it; the pool must not be away from everybody else's tasks for it
        await asyncio.sleep(30)
        assert max(w.gaps()) <= 1.2
    w.ran = ""
    await asyncio.sleep(60)
    assert max(w.gaps()) > 8


@virtual(pool)
async def test_a_process_that_can_t_be_started_is_tried_again(w: World) -> None:
    w.refuse, w.life = True, 1
    await asyncio.sleep(3)
    w.refuse, w.life = False, 3600
    await asyncio.sleep(60)
    assert w.guards
    assert not w.running.done()


@virtual(pool)
async def test_a_drain_asks_every_executor_to_end_and_starts_no_other(w: World) -> None:
    await asyncio.sleep(10)
    w.pool.drain()
    await asyncio.sleep(0.1)
    assert w.running.done()
    assert [each.drained for each in w.guards] == [True]
    assert [each.executor_id for each in w.deaths] == ["e0"]


@virtual(pool)
async def test_the_successor_of_an_executor_that_drains_starts_at_once_beside_it(w: World) -> None:
    await asyncio.sleep(5)
    w.guards[0].leave()
    await asyncio.sleep(0.3)
    assert len(w.guards) == 2
    assert w.guarded == {"e0", "e1"}
    w.guards[0].end()
    await asyncio.sleep(60)
    assert len(w.guards) == 2, "it has its successor"
    assert [each.executor_id for each in w.deaths] == ["e0"]


@virtual(pool)
async def test_one_that_drains_at_its_start_has_its_successor_after_a_pause(w: World) -> None:
    """A bound of memory that the apps alone exceed must not make a machine start processes all the time."""

    async def leave() -> None:
        while True:
            for each in w.guards:
                if not each.drained:
                    each.drained = True
                    each.leave(running=0)
                    each.end()
            await asyncio.sleep(0.01)

    leaving = w.runtime.spawn(leave(), name="leave")
    await asyncio.sleep(120)
    assert 3 < len(w.guards) < 12
    await end([leaving])


@virtual(pool)
async def test_there_are_never_more_than_two_processes_for_one_executor(w: World) -> None:
    for number in range(2):
        await asyncio.sleep(5)
        w.guards[number].leave()
    await asyncio.sleep(60)
    assert len(w.guards) == 2, "both drain"
    w.guards[0].end()
    await asyncio.sleep(0.3)
    assert len(w.guards) == 3
    w.guards[2].leave()
    w.guards[2].end()
    await asyncio.sleep(0.3)
    assert len(w.guards) == 4, "whichever of the two has ended"


@virtual(pool)
async def test_a_stop_that_reaches_the_executors_first_starts_no_successor(w: World) -> None:
    await asyncio.sleep(60)
    w.guards[0].leave(why="SIGTERM asks for it")
    await asyncio.sleep(0.05)
    w.pool.drain()
    await asyncio.sleep(0.1)
    assert w.running.done()
    assert len(w.guards) == 1


@virtual(pool)
async def test_a_drain_reaches_those_that_drain_already_and_waits_for_them(w: World) -> None:
    await asyncio.sleep(60)
    w.guards[0].leave()
    await asyncio.sleep(1)
    w.guards[0].stays = True
    w.pool.drain()
    await asyncio.sleep(1)
    assert [each.drained for each in w.guards] == [True, True]
    assert not w.running.done()
    w.guards[0].end()
    await asyncio.sleep(0.1)
    assert w.running.done()


@virtual(pool)
async def test_a_pool_that_is_asked_twice_has_all_killed(w: World) -> None:
    await asyncio.sleep(60)
    w.guards[0].stays = True
    w.pool.drain()
    await asyncio.sleep(1)
    assert not w.running.done()
    w.pool.end_at_once()
    await asyncio.sleep(0.1)
    assert w.running.done()
    assert [each.killed for each in w.guards] == [True]


@virtual(pool)
async def test_a_pool_of_many_drains_them_all(w: World) -> None:
    await asyncio.sleep(1)
    await end([w.running])
    w.guards.clear()
    w.pool = ExecutorPool(start=w.start_guard, size=3, on_death=w.deaths.append, runtime=w.runtime)
    w.running = w.runtime.spawn(w.pool.run(), name="pool")
    await asyncio.sleep(40)
    w.pool.drain()
    await asyncio.sleep(0.1)
    assert w.running.done()
    assert [each.drained for each in w.guards] == [True] * 3


@virtual(pool)
async def test_while_its_host_drains_its_executors_end_and_none_is_started(w: World) -> None:
    await asyncio.sleep(1)
    w.pool.hold(True)
    await asyncio.sleep(1)
    assert (w.guards[0].drained, w.guarded, len(w.started)) == (True, set(), 1)
    await asyncio.sleep(3_600)
    assert len(w.started) == 1
    w.pool.hold(False)
    await asyncio.sleep(2)
    assert (len(w.started), w.guarded) == (2, {"e1"})


@virtual(pool)
async def test_a_pool_whose_host_drains_ends_in_order(w: World) -> None:
    await asyncio.sleep(1)
    w.pool.hold(True)
    await asyncio.sleep(1)
    w.pool.drain()
    await asyncio.sleep(1)
    assert w.running.done()


# --- starts that fail ----------------------------------------------------------------------------------------------------


def of(w: World, size: int, retries: int | None) -> Starts:
    """Has the world's pool be one of so many executors that never come to work."""
    starts = Starts(size, retries)
    w.failed_start, w.life = "app shop:app: SyntaxError", 0.5
    w.pool = ExecutorPool(start=w.start_guard, size=size, on_death=w.deaths.append, runtime=w.runtime, starts=starts)
    w.started.clear()
    w.running = w.runtime.spawn(w.pool.run(), name="pool")
    return starts


@virtual(pool)
async def test_a_pool_none_of_whose_executors_can_start_gives_up(w: World) -> None:
    await end([w.running])
    starts = of(w, 2, 3)
    await asyncio.sleep(1)
    assert starts.why_not == "no executor can start: app shop:app: SyntaxError"
    await asyncio.sleep(60)
    with pytest.raises(FailedPrecondition, match="after 4 tries of each: app shop:app: SyntaxError"):
        await w.running
    assert 7 <= len(w.started) <= 8


@virtual(pool)
async def test_a_start_that_fails_is_tried_again_after_growing_pauses_however_long_it_took(w: World) -> None:
    await end([w.running])
    of(w, 1, None)
    w.life = 60
    await asyncio.sleep(500)
    pauses = [gap - 60 for gap in w.gaps()]
    for pause, bound in zip(pauses, [1, 2, 4, 8, 16, 30], strict=False):
        assert bound / 2 - 0.1 <= pause <= bound + 0.1


@virtual(pool)
async def test_a_process_that_cannot_be_started_is_a_start_that_fails(w: World) -> None:
    await end([w.running])
    starts = of(w, 1, 1)
    w.refuse = True
    await asyncio.sleep(60)
    with pytest.raises(FailedPrecondition, match="its process can't be started: no more processes"):
        await w.running
    assert "its process can't be started" in starts.why_not


@virtual(pool)
async def test_a_guard_that_ends_at_once_is_a_start_that_fails(w: World) -> None:
    await end([w.running])
    of(w, 1, 0)
    w.code = 2  # and gives no account
    await asyncio.sleep(60)
    with pytest.raises(FailedPrecondition, match="its guard ended with exit code 2 at once"):
        await w.running


@virtual(pool)
async def test_an_executor_that_works_keeps_its_pool_going(w: World) -> None:
    await end([w.running])
    starts = of(w, 2, 1)
    w.life = 3_600
    await asyncio.sleep(0.1)
    working, other = w.guards[-2:]
    starts.called(f"e{working.pid}")
    w.life = 0.5
    other.end()
    await asyncio.sleep(600)
    assert not w.running.done()
    assert starts.why_not == ""
    assert len(w.started) > 10
    w.pool.drain()
    await asyncio.sleep(1)
    await w.running


@virtual(pool)
async def test_a_pool_that_is_asked_to_end_meanwhile_has_not_failed(w: World) -> None:
    await end([w.running])
    of(w, 1, 0)
    await asyncio.sleep(0.1)
    w.pool.drain()
    await asyncio.sleep(10)
    await w.running


@virtual(pool)
async def test_a_pool_of_none_goes_on_until_it_drains(w: World) -> None:
    """A controller whose executors are started elsewhere serves them."""
    none = ExecutorPool(start=w.start_guard, size=0, on_death=w.deaths.append, runtime=w.runtime)
    running = w.runtime.spawn(none.run(), name="pool of none")
    await asyncio.sleep(3600)
    assert not running.done()
    none.drain()
    await running


@contextlib.asynccontextmanager
async def works(runtime: VirtualRuntime) -> AsyncIterator[World]:
    """A pool whose first executor works."""
    world = World(runtime)
    await asyncio.sleep(1)
    world.starts.called("e0")
    yield world
    await end([world.running])


@virtual(works)
async def test_an_executor_that_is_replaced_drains_once_its_successor_works(w: World) -> None:
    w.guards[0].stays = True
    w.pool.replace()
    await asyncio.sleep(0.1)
    assert [each.drained for each in w.guards] == [False, False]
    w.starts.called("e1")
    assert [each.drained for each in w.guards] == [True, False]
    assert w.guarded == {"e0", "e1"}
    w.guards[0].end()
    await asyncio.sleep(60)
    assert w.guarded == {"e1"}
    assert len(w.guards) == 2


@virtual(works)
async def test_where_the_successor_can_not_start_the_executor_goes_on_until_one_can(w: World) -> None:
    w.life, w.failed_start = 0, "SyntaxError: shop.py, line 3"
    w.pool.replace()
    await asyncio.sleep(120)
    assert not w.guards[0].drained
    assert len(w.guards) > 5
    assert not w.running.done()
    tried = len(w.guards)
    w.life, w.failed_start = 3600, ""  # that was mended
    w.pool.replace()
    await asyncio.sleep(0.1)
    assert len(w.guards) == tried + 1
    assert not w.guards[0].drained
    w.starts.called(f"e{tried}")
    assert w.guards[0].drained


@virtual(works)
async def test_a_successor_that_does_not_work_yet_is_given_up_for_the_next(w: World) -> None:
    w.pool.replace()
    await asyncio.sleep(0.1)
    w.pool.replace()
    await asyncio.sleep(0.1)
    assert [each.drained for each in w.guards] == [False, True, False]
    w.starts.called("e2")
    await asyncio.sleep(0.1)
    assert w.guarded == {"e2"}


@virtual(works)
async def test_replaced_again_and_again_no_more_than_four_stand_in_the_place_of_one(w: World) -> None:
    for number in range(6):
        w.guards[-1].stays = True
        w.pool.replace()
        await asyncio.sleep(0.1)
        w.starts.called(f"e{number + 1}")
    assert len(w.guards) == 4
    w.guards[0].end()
    await asyncio.sleep(0.1)
    assert len(w.guards) == 5


@virtual(works)
async def test_a_drain_ends_the_replaced_and_their_successors(w: World) -> None:
    w.pool.replace()
    await asyncio.sleep(0.1)
    w.pool.drain()
    await asyncio.sleep(0.1)
    assert w.running.done()
    assert [each.drained for each in w.guards] == [True, True]
