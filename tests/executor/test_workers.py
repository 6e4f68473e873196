"""Workers of real threads. Tests wait for events of the lambdas, never for time."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import atf
from atf.config.settings import Timing
from atf.executor.held import HeldTask, Ledger
from atf.executor.outcome import HandedBack, Returned, RunStopped
from atf.executor.perform import Performer, StartCheck, Unawaited
from atf.executor.prefetch import Prefetch
from atf.executor.table import Table
from atf.executor.workers import ThreadAndLoopWorkers
from atf.runtime import SystemRuntime
from tests.executor.world import claim

app = atf.App("l")
gate = threading.Event()
arrived = threading.Semaphore(0)
kept: list[AsyncIterator[None]] = []
mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="clean")


@app.task
def quick() -> str:
    return threading.current_thread().name


@app.task
def block() -> None:
    arrived.release()
    assert gate.wait(30)


@app.task
async def block_the_loop() -> None:
    arrived.release()
    assert gate.wait(30)


@app.task
async def linger() -> str:
    arrived.release()
    await asyncio.Event().wait()
    return "never"


@app.task
async def where() -> str:
    return threading.current_thread().name


@app.task
async def open_something() -> None:
    """As a library does that keeps something for as long as the loop lives."""

    async def something() -> AsyncIterator[None]:
        try:
            while True:
                yield
        finally:
            await asyncio.sleep(0)
            arrived.release()

    kept.append(something())
    await anext(kept[-1])


def forwarding(fn: Callable[..., Any]) -> Any:
    """A plain def around an `async def`, whose coroutine it returns."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        mark.set("set by the wrapper")
        return fn(*args, **kwargs)

    return wrapper


@app.task
@forwarding
async def wrapped_where() -> list[str]:
    await asyncio.sleep(0)
    return [threading.current_thread().name, mark.get()]


@app.task
@forwarding
async def wrapped_linger() -> None:
    arrived.release()
    await asyncio.Event().wait()


@app.task
def soil() -> str:
    before = mark.get()
    mark.set("soiled")
    return before


@app.task
async def soil_async() -> str:
    before = mark.get()
    mark.set("soiled")
    return before


@app.task
async def cancel_the_others() -> None:
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()


@app.task
async def break_the_loop() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    await asyncio.gather(asyncio.create_task(leave()), return_exceptions=True)


class Bench:
    """Threads and two coroutines, and the tasks that came out of them."""

    def __init__(self, threads: int = 2) -> None:
        self.ledger = Ledger(Table.in_memory(2000))
        self.workers = ThreadAndLoopWorkers(threads, 2)
        self.out: dict[str, HeldTask] = {}
        self.bursts = 0
        self.marks: set[str] = set()
        """What `mark` was where ends were taken."""
        self._came = asyncio.Event()
        self._number = 0
        runtime = SystemRuntime()
        self.runtime = runtime
        self.workers.open(Performer(app.lambdas, runtime), StartCheck(self.ledger, Timing(), runtime), self._ended)

    def _ended(self, tasks: list[HeldTask]) -> None:
        self.bursts += 1
        self.marks.add(mark.get())
        self.out |= {task.task_id: task for task in tasks}
        self._came.set()

    def put(self, name: str, count: int = 1) -> list[HeldTask]:
        return self.put_all([name] * count)

    def put_all(self, names: list[str]) -> list[HeldTask]:
        tasks = []
        for name in names:
            self._number += 1
            tasks.append(HeldTask(claim(f"0-{self._number}", f"l/{name}", b"{}"), self.runtime.boottime_us(), 0))
        self.ledger.take(tasks)
        self.workers.put(tasks)
        return tasks

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(30):
            while not true():
                self._came.clear()
                await self._came.wait()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    gate.clear()
    while arrived.acquire(blocking=False):
        pass
    made = Bench()
    yield made
    gate.set()
    made.workers.close()


async def reach(count: int) -> None:
    """Until `count` bodies have begun."""
    for _ in range(count):
        assert await asyncio.to_thread(arrived.acquire, True, 30)


async def test_every_task_comes_out_once_and_in_bursts(bench: Bench) -> None:
    for _ in range(10):
        bench.put("quick", 100)
        await asyncio.sleep(0)
    await bench.until(lambda: len(bench.out) == 1000)
    assert all(isinstance(task.outcome, Returned) for task in bench.out.values())
    assert bench.bursts < 1000
    assert bench.workers.load(False) in {(2, 0, 0), (2, 1, 0), (2, 2, 0)}


async def test_idle_threads_are_woken_however_the_work_comes(bench: Bench) -> None:
    for n in range(1, 200):
        bench.put("quick")
        await bench.until(lambda n=n: len(bench.out) == n)  # type: ignore[misc]


async def test_a_blocked_loop_has_no_room_until_it_goes_on(bench: Bench) -> None:
    bench.put("block_the_loop")
    await reach(1)
    assert bench.workers.load(True) == (2, 1, 0)
    waiting = bench.put("where")
    assert bench.workers.withdraw() == waiting, "it has waited too long"
    assert bench.workers.load(True) == (0, 1, 0)
    gate.set()
    await bench.until(lambda: bench.workers.load(True)[0] > 0)


async def test_what_came_with_a_coroutine_that_blocks_the_loop_has_not_begun(bench: Bench) -> None:
    _, *others = bench.put_all(["block_the_loop", "where"])
    await reach(1)
    assert bench.workers.load(True) == (2, 1, 1)
    assert bench.workers.withdraw() == others
    assert not any(each.started for each in others)
    assert bench.workers.load(True) == (0, 1, 0), "nothing more is wanted"
    gate.set()
    await bench.until(lambda: bench.workers.load(True)[0] > 0)


async def test_one_blocked_thread_does_not_hold_up_what_waits(bench: Bench) -> None:
    bench.put("block")
    bench.put("quick", 20)
    await bench.until(lambda: len(bench.out) == 20)
    gate.set()
    await bench.until(lambda: len(bench.out) == 21)


async def test_slow_bodies_on_all_threads_but_one_hold_up_no_fast_one() -> None:
    gate.clear()
    bench = Bench(threads=4)
    try:
        slow = bench.put("block", 3)
        await reach(3)
        fast = bench.put("quick", 500)
        await bench.until(lambda: len(bench.out) == len(fast))
        assert bench.out.keys() == {each.task_id for each in fast}, "every fast one ended while all slow ones ran"
        gate.set()
        await bench.until(lambda: len(bench.out) == len(fast) + len(slow))
    finally:
        gate.set()
        bench.workers.close()


async def test_withdraw_takes_back_what_has_not_started(bench: Bench) -> None:
    running = bench.put("block", 2)
    await reach(2)
    waiting = bench.put("quick", 3)
    assert bench.workers.load(False) == (2, 2, 3)
    assert bench.workers.withdraw() == waiting
    gate.set()
    await bench.until(lambda: len(bench.out) == 2)
    assert {task.task_id for task in running} == set(bench.out)


async def test_coroutines_run_on_a_loop_of_their_own_thread_and_no_more_than_allowed(bench: Bench) -> None:
    lingering = bench.put("linger", 3)
    await reach(2)
    assert bench.workers.load(True) == (2, 2, 1)
    for task in lingering[:2]:
        task.cancelled = True
        bench.workers.cancel(task)
    await bench.until(lambda: len(bench.out) == 2)
    assert all(isinstance(task.outcome, RunStopped) for task in bench.out.values())
    [named] = bench.put("where")
    await bench.until(lambda: named.outcome)
    assert named.outcome == Returned(b'"worker-async"', 0)


async def test_what_a_def_returns_is_awaited_where_coroutines_run_in_the_contextvars_of_the_def(bench: Bench) -> None:
    bench.put("wrapped_where", 5)
    await bench.until(lambda: len(bench.out) == 5)
    assert {task.outcome for task in bench.out.values()} == {Returned(b'["worker-async","set by the wrapper"]', 0)}


@pytest.mark.parametrize("cut", [False, True])
async def test_what_a_def_returns_can_be_cancelled_and_keeps_its_thread_until_then(bench: Bench, cut: bool) -> None:
    [task] = bench.put("wrapped_linger")
    await reach(1)
    assert (bench.workers.load(False), bench.workers.load(True)) == ((2, 1, 0), (2, 1, 0))
    task.cancelled = not cut
    bench.workers.cancel(task, cut=cut)
    await bench.until(lambda: bench.out)
    assert isinstance(task.outcome, HandedBack if cut else RunStopped)
    assert bench.workers.load(True)[1] == 0


async def test_what_a_def_returns_is_not_awaited_once_the_run_is_cancelled(bench: Bench) -> None:
    performer, [task] = Performer(app.lambdas, bench.runtime), bench.put("block")
    task.cancelled = True
    never = linger.fn()
    assert isinstance(await performer.finish(task, Unawaited(never)), RunStopped)
    assert inspect.getcoroutinestate(never) == inspect.CORO_CLOSED


@pytest.mark.parametrize("name", ["soil", "soil_async"])
async def test_context_variables_do_not_leak_from_one_task_into_the_next(bench: Bench, name: str) -> None:
    mark.set("outside")
    bench.put(name, 6)
    await bench.until(lambda: len(bench.out) == 6)
    assert {task.outcome for task in bench.out.values()} == {Returned(b'"clean"', 0)}
    assert "soiled" not in bench.marks, "nor into what takes their ends"


async def test_a_lambda_that_cancels_all_the_others_costs_none_that_has_not_begun_its_run(bench: Bench) -> None:
    _, other = bench.put_all(["cancel_the_others", "linger"])
    bench.put("where", 3)
    await reach(1)
    await bench.until(lambda: len(bench.out) == 4)
    assert other.outcome is None
    bench.put("cancel_the_others")
    await bench.until(lambda: other.outcome)


async def test_a_lambda_that_breaks_the_loop_takes_no_other_along(bench: Bench) -> None:
    bench.put("break_the_loop")
    [after] = bench.put("where")
    await bench.until(lambda: after.outcome)
    assert isinstance(after.outcome, Returned)


async def test_a_task_that_was_cancelled_or_lost_before_it_started_does_not_run(bench: Bench) -> None:
    bench.put("block", 2)
    await reach(2)
    cancelled, lost, stale = bench.put("block", 3)
    cancelled.cancelled = True
    lost.lost = True
    stale.lease_us -= 2_000_000
    gate.set()
    await bench.until(lambda: len(bench.out) == 5)
    assert isinstance(cancelled.outcome, RunStopped)
    assert lost.outcome is stale.outcome is None
    assert not stale.started
    assert not arrived.acquire(blocking=False)


# --- pace ---------------------------------------------------------------------------------------------------------------


def test_free_threads_are_filled_when_nothing_is_known() -> None:
    assert Prefetch().room(["a"], (16, 4, 0), 0.0) == 12
    assert Prefetch().room(["a"], (16, 16, 0), 0.0) == 0


def test_short_work_is_held_up_to_50_ms_and_256() -> None:
    pace = Prefetch()
    pace.ran("short", 0.005, 0.0)
    assert pace.room(["short"], (16, 16, 0), 0.0) == 160
    assert pace.room(["short"], (16, 16, 100), 0.0) == 0, "asks again when half of it has run"
    assert pace.room(["short"], (16, 16, 80), 0.0) == 80
    pace.ran("instant", 0.00001, 0.0)
    assert pace.room(["instant"], (16, 0, 0), 0.0) == 256


def test_the_slowest_lambda_of_late_decides() -> None:
    pace = Prefetch()
    pace.ran("short", 0.001, 0.0)
    pace.ran("long", 60, 0.0)
    assert pace.room(["short", "long"], (16, 16, 0), 1.0) == 0
    pace.ran("short", 0.001, 20.0)
    assert pace.room(["short", "long"], (16, 16, 0), 20.0) == 256, "nothing of it has come for long"


def test_a_slow_lambda_counts_as_long_as_any_of_it_is_held() -> None:
    pace = Prefetch()
    pace.came(["long"] * 2)
    pace.ran("long", 30, 0.0)
    pace.left(["long"])
    pace.ran("short", 0.001, 11.0)
    assert pace.room(["long", "short"], (16, 16, 0), 11.0) == 0
    assert pace.room(["long", "short"], (16, 10, 0), 11.0) == 6, "free threads are filled"
    assert pace.room(["short"], (16, 16, 0), 11.0) == 256, "it runs in other threads"
    pace.left(["long"])
    assert pace.room(["long", "short"], (16, 16, 0), 11.0) == 256


def test_nothing_waits_behind_a_lambda_of_which_no_run_has_ended() -> None:
    pace = Prefetch()
    pace.ran("short", 0.001, 0.0)
    pace.came(["new", "short"])
    assert pace.room(["new", "short"], (16, 16, 0), 1.0) == 0
    assert pace.room(["new", "short"], (16, 2, 0), 1.0) == 14
    pace.ran("new", 0.001, 1.0)
    assert pace.room(["new", "short"], (16, 16, 0), 1.0) == 256, "one end is enough to know"


async def test_what_lambdas_keep_open_for_the_life_of_their_loop_is_closed_with_it(bench: Bench) -> None:
    [task] = bench.put("open_something")
    await bench.until(lambda: task.outcome)
    bench.workers.close()
    await reach(1)
