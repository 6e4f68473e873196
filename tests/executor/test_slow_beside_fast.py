"""A slow lambda and a fast one in one executor: as long as a thread is left, every fast task starts and ends while the slow ones run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from atf.config.settings import ExecutorSettings
from atf.testing.runtime import VirtualRuntime
from tests.executor.world import HeldWorkers, World, claim, job
from tests.virtual import virtual

THREADS = 4


class Beside(World):
    """An executor of four threads, of two `def` lambdas; the test ends their runs."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.held = HeldWorkers(THREADS)
        super().__init__(runtime, self.held, names=["t/work", "t/note"], settings=ExecutorSettings(threads=THREADS))

    def fast(self, number: int) -> str:
        """Gives the executor a fast task; its id."""
        task_id = f"0-f{number}"
        self.controller.give(claim(task_id))
        return task_id


@asynccontextmanager
async def beside(runtime: VirtualRuntime) -> AsyncIterator[Beside]:
    world = Beside(runtime)
    await world.settle()
    try:
        yield world
    finally:
        await world.close()


@virtual(beside)
async def test_slow_tasks_on_all_threads_but_one_hold_up_no_fast_one(world: Beside) -> None:
    slow = [f"0-s{number}" for number in range(THREADS - 1)]
    world.controller.give(*map(job, slow))
    await world.settle()
    assert list(world.held.running) == slow
    for number in range(50):
        assert world.controller.requests[-1].max_tasks == 1, (
            "the free thread alone: nothing is to wait behind slow tasks"
        )
        fast = world.fast(number)
        await world.settle()
        assert list(world.held.running) == [*slow, fast], "it started at once"
        world.held.end(fast)
        await world.settle()
    assert len(world.outcomes()) == 50, "all fast ones have ended"
    assert list(world.held.running) == slow, "and no slow one has"


@virtual(beside)
async def test_with_slow_tasks_on_all_threads_it_takes_no_fast_ones_that_others_could_run(world: Beside) -> None:
    slow = [f"0-s{number}" for number in range(THREADS)]
    world.controller.give(*map(job, slow))
    await world.settle()
    asked, fast = len(world.controller.requests), world.fast(1)
    await world.settle()
    assert len(world.controller.requests) == asked, "it asks for nothing: another executor gets it"
    assert world.held.load(False) == (THREADS, THREADS, 0)
    world.held.end(slow[0])
    await world.settle()
    assert fast in world.held.running, "the first free thread takes it"
