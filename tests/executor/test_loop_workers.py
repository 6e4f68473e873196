"""Which `async def` tasks begin in which turn of their loop. The clock stands but for what a task computes; a turn is a sleep(0)."""

from __future__ import annotations

import asyncio

import pytest

from atf.executor.held import HeldTask
from atf.executor.loop_workers import SLICE_S, LoopWorkers
from atf.executor.outcome import Outcome, Returned
from atf.executor.perform import Performer, Unawaited
from atf.executor.prefetch import HOLD_S, Prefetch
from atf.executor.queues import CompletionQueue
from atf.runtime import SystemRuntime
from tests.executor.world import claim

CAPACITY = 256


class Computing(Performer):
    """Its runs compute for as long as the test says, by a clock of its own, and then end, or wait until `go` is set."""

    def __init__(self) -> None:
        super().__init__({}, SystemRuntime())
        self.now = 1000.0
        self.monotonic = lambda: self.now
        self.seconds = 0.0
        self.go = asyncio.Event()
        self.go.set()

    async def run_async(self, _task: HeldTask, _left: Unawaited | None = None) -> Outcome:
        self.now += self.seconds
        await self.go.wait()
        return Returned(b"null", 0)


class World:
    """Workers on the test's own loop."""

    def __init__(self) -> None:
        self.computing = Computing()
        self.workers = LoopWorkers(CAPACITY)
        self.started: list[str] = []
        self.ended: list[str] = []
        self.looks = 0
        self._number = 0
        loop = asyncio.get_running_loop()
        self.workers.open(loop, self.computing, self._begin, CompletionQueue(loop, self._taken))

    def _begin(self, task: HeldTask) -> bool:
        self.started.append(task.task_id)
        return True

    def _taken(self, tasks: list[HeldTask]) -> None:
        self.looks += 1
        self.ended += [task.task_id for task in tasks]

    def put(self, count: int) -> list[HeldTask]:
        tasks = [HeldTask(claim(f"0-{self._number + n}", "t/nap", b"{}"), 0, 0) for n in range(count)]
        self._number += count
        self.workers.put(tasks)
        return tasks

    async def turn(self) -> int:
        """One turn of the loop; how many tasks began in it."""
        before = len(self.started)
        await asyncio.sleep(0)
        return len(self.started) - before

    async def turns(self, count: int) -> list[int]:
        return [await self.turn() for _ in range(count)]


@pytest.fixture
async def world() -> World:
    return World()


async def test_short_tasks_all_begin_in_one_turn(world: World) -> None:
    world.put(CAPACITY)
    assert await world.turns(3) == [0, CAPACITY, 0]
    assert len(world.ended) == CAPACITY


async def test_tasks_that_compute_begin_for_a_slice_of_each_turn(world: World) -> None:
    world.computing.seconds = SLICE_S / 2.5
    tasks = world.put(30)
    assert await world.turns(4) == [0, 3, 3, 3]
    assert world.workers.load() == (3, 0, 21)
    assert world.workers.withdraw() == tasks[9:], "what has not begun can go elsewhere"
    assert not any(task.started or task.aio for task in tasks[9:])
    assert await world.turns(2) == [0, 0]
    assert world.ended == [task.task_id for task in tasks[:9]]


async def test_one_begins_in_each_turn_however_long_it_computes(world: World) -> None:
    world.computing.seconds = 1
    world.put(5)
    assert await world.turns(7) == [0, 1, 1, 1, 1, 1, 0]


async def test_what_runs_has_its_turns_between(world: World) -> None:
    """And what that computes is not taken for the tasks'."""
    turns = 0
    world.computing.seconds = SLICE_S / 2
    world.put(20)
    while len(world.ended) < 20:
        await asyncio.sleep(0)
        turns += 1
        world.computing.now += 1
    assert 10 <= turns <= 14


async def test_more_begin_again_as_soon_as_turns_are_short(world: World) -> None:
    world.computing.seconds = 1
    world.put(3)
    await world.turns(5)
    world.computing.seconds = 0
    world.put(2 * CAPACITY)
    began = await world.turns(12)
    assert began[:10] == [0, 1, 2, 4, 8, 16, 32, 64, 128, CAPACITY]
    assert sum(began) == 2 * CAPACITY


async def test_no_more_is_wanted_than_50_ms_of_computing(world: World) -> None:
    pace, seconds = Prefetch(), 0.005
    world.computing.seconds = seconds
    pace.came(["t/nap"] * CAPACITY)
    world.put(CAPACITY)
    await world.turns(3)
    pace.ran("t/nap", seconds, 0.0)
    assert pace.room(["t/nap"], world.workers.load(), 0.0) == 0
    world.workers.withdraw()
    assert pace.room(["t/nap"], world.workers.load(), 0.0) * seconds <= HOLD_S + seconds


async def test_the_executor_looks_again_where_there_is_more_room(world: World) -> None:
    """Tasks that compute and then wait for long: no end tells it to."""
    world.computing.seconds = 1
    world.computing.go.clear()
    world.put(3)
    await world.turns(3)
    assert world.workers.load() == (3, 2, 1), "one more in the next turn"
    looks = world.looks
    await world.turns(3)
    assert world.workers.load()[1:] == (3, 0)
    assert world.looks > looks
    world.computing.go.set()
    await world.turns(2)
    assert len(world.ended) == 3


async def test_no_more_run_than_may(world: World) -> None:
    world.computing.go.clear()
    world.put(CAPACITY + 5)
    await world.turns(4)
    assert world.workers.load() == (CAPACITY, CAPACITY, 5)
    world.computing.go.set()
    await world.turns(4)
    assert len(world.ended) == CAPACITY + 5


async def test_an_asyncio_task_bears_the_name_of_its_task(world: World) -> None:
    world.computing.go.clear()
    (task,) = world.put(1)
    await world.turns(2)
    assert task.aio is not None
    assert task.aio.get_name() == task.task_id
    world.workers.close()
    await world.turns(2)
    assert task.aio.done()
