"""The harness: time moves only when told to, nothing runs unasked, and the SDK behaves as against a real system."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import atf
from atf.testing import Harness
from atf.testing.loop import RealIO

app = atf.App("harness")
ran: list[tuple[str, float]] = []
START = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def h() -> Iterator[Harness]:
    ran.clear()
    with Harness(app) as harness:
        yield harness


def seconds(h: Harness) -> float:
    return (h.now - START).total_seconds()


@app.task
def note(ctx: atf.Context, name: str) -> str:
    ran.append((name, ctx.scheduled_at.timestamp() - START.timestamp()))
    return name


@app.task
async def sleeps(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"slept {seconds:g} s"


@app.task
def fans_out(count: int) -> list[str]:
    handles = [note.schedule(str(each)) for each in range(count)]
    return [handle.result() for handle in handles]


@app.task
async def fans_out_async(count: int) -> list[str]:
    handles = [await note.schedule_async(str(each)) for each in range(count)]
    return [await handle.result_async() for handle in handles]


@app.task
async def blocks_the_loop() -> None:
    note.schedule("never")


@app.task(max_attempts=1)
async def reads_a_socket() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


@app.task
async def never_ends() -> None:
    await asyncio.Event().wait()


@app.task(isolate=True)
def alone(name: str) -> int:
    ran.append((name, 0))
    return os.getpid()


@pytest.fixture
def wide() -> Iterator[Harness]:
    ran.clear()
    with Harness(app, partitions=3, executors=2) as harness:
        yield harness


def test_a_store_of_several_partitions_is_one_store(wide: Harness) -> None:
    handles = [note.options(delay=each, retention=1_000).schedule(str(each)) for each in range(30)]
    assert {handle.id.partition("-")[0] for handle in handles} == {"0", "1", "2"}
    assert (wide.run_until_idle(), seconds(wide)) == (1, 0)
    wide.advance(12.5)
    assert sorted(ran) == sorted((str(each), each) for each in range(13))
    wide.advance(100)
    assert len(ran) == len(wide.tasks(status=atf.Status.SUCCESS)) == 30
    wide.advance(timedelta(days=1))
    assert wide.tasks() == []


def test_what_is_due_is_seen_behind_many_that_are_not(wide: Harness) -> None:
    later = note.options(delay=60, priority="high")
    wide.client.schedule_many([later.prepare("later") for _ in range(1_500)])
    note.options(priority="low").schedule("now")
    assert (wide.run_until_idle(), ran) == (1, [("now", 0)])


def test_executors_end_one_by_one_and_the_others_go_on(wide: Harness) -> None:
    handles = [sleeps.schedule(10 + each) for each in range(20)]
    wide.advance(1)
    wide.stop_executor()
    with pytest.raises(ValueError, match="it is the last one"):
        wide.stop_executor()
    more = [sleeps.schedule(1) for _ in range(5)]
    wide.advance(1)
    assert {handle.status() for handle in more} == {atf.Status.SUCCESS}
    assert {handle.status() for handle in handles} == {atf.Status.PROCESSING}, "what it has started it ends"
    wide.run_until_idle()
    assert {(task.status, task.attempts) for task in wide.tasks()} == {(atf.Status.SUCCESS, 1)}


def test_an_executor_there_is() -> None:
    with pytest.raises(ValueError, match="executors 0: at least 1"):
        Harness(app, executors=0)


def test_an_isolated_run_is_in_this_process(h: Harness) -> None:
    handle = alone.schedule("here")
    h.run_until_idle()
    assert (handle.result(), ran) == (os.getpid(), [("here", 0)])


def test_nothing_runs_unasked(h: Harness) -> None:
    handle = note.schedule("a")
    assert handle.status() is atf.Status.NEW
    assert ran == []
    assert h.run_until_idle() == 1
    assert handle.status() is atf.Status.SUCCESS


def test_run_until_idle_leaves_delays_and_the_clock_alone(h: Harness) -> None:
    note.schedule("now")
    note.options(delay=1).schedule("later")
    assert h.run_until_idle() == 1
    assert ran == [("now", 0)]
    assert h.now == START


def test_run_until_idle_waits_for_what_runs(h: Harness) -> None:
    sleeps.schedule(90)
    note.options(delay=60).schedule("meanwhile")
    note.options(delay=91).schedule("too late")
    assert h.run_until_idle() == 2
    assert (seconds(h), ran) == (90, [("meanwhile", 60)])


def test_run_until_idle_gives_up_on_what_never_ends(h: Harness) -> None:
    never_ends.schedule()
    with pytest.raises(TimeoutError, match="1 tasks are still"):
        h.run_until_idle(limit=300)


def test_advance_takes_seconds_and_timedeltas(h: Harness) -> None:
    h.advance(1.5)
    h.advance(timedelta(minutes=1))
    assert seconds(h) == 61.5
    with pytest.raises(atf.InvalidArgument):
        h.advance(-1)


def test_advance_stops_in_the_middle_of_a_run(h: Harness) -> None:
    handle = sleeps.schedule(100)
    h.advance(99.999)
    assert handle.status() is atf.Status.PROCESSING
    h.advance(0.001)
    assert handle.status() is atf.Status.SUCCESS


def test_a_year_passes_quickly_and_on_time(h: Harness) -> None:
    begun = time.process_time()
    for day in (10, 100, 300):
        note.options(delay=timedelta(days=day)).schedule(str(day))
    sleeper = sleeps.options(delay=timedelta(days=50), retention=timedelta(days=1_000)).schedule(3_600)
    h.advance(timedelta(days=365))
    assert ran == [(str(day), day * 86_400) for day in (10, 100, 300)]
    (info,) = h.tasks(sleeps)
    assert info.finished_at == START + timedelta(days=50, hours=1)
    assert sleeper.result() == "slept 3600 s"
    assert time.process_time() - begun < 5


def test_records_expire_while_time_passes(h: Harness) -> None:
    handle = note.options(retention=60).schedule("short-lived")
    h.run_until_idle()
    assert handle.status() is atf.Status.SUCCESS
    h.advance(timedelta(days=1))
    with pytest.raises(atf.TaskNotFound):
        handle.status()


def test_result_lets_time_pass(h: Harness) -> None:
    handle = sleeps.options(delay=20).schedule(10)
    assert h.result(handle) == "slept 10 s"
    assert seconds(h) == 30


def test_result_has_a_timeout_of_the_clock(h: Harness) -> None:
    handle = sleeps.schedule(100)
    with pytest.raises(TimeoutError):
        h.result(handle, timeout=40)
    assert seconds(h) == 40
    assert handle.result() == "slept 100 s"


@pytest.mark.usefixtures("h")
def test_a_def_schedules_and_waits_for_other_tasks() -> None:
    assert fans_out.schedule(5).result() == ["0", "1", "2", "3", "4"]


@pytest.mark.usefixtures("h")
def test_an_async_def_schedules_and_waits_for_other_tasks() -> None:
    assert fans_out_async.schedule(5).result() == ["0", "1", "2", "3", "4"]


@pytest.mark.usefixtures("h")
def test_an_async_def_may_not_block_its_loop() -> None:
    handle = blocks_the_loop.options(max_attempts=1).schedule()
    with pytest.raises(atf.TaskFailed, match="await its _async twin"):
        handle.result()


@pytest.mark.usefixtures("h")
def test_real_io_is_refused_with_a_reason() -> None:
    with pytest.raises(atf.TaskFailed, match=f"{RealIO.__name__}.*create_connection"):
        reads_a_socket.schedule().result()


async def test_it_works_inside_a_running_loop(h: Harness) -> None:
    handle = await sleeps.options(delay=5).schedule_async(5)
    assert await handle.status_async() is atf.Status.NEW
    h.advance(5)
    assert handle.status() is atf.Status.PROCESSING
    assert await handle.result_async() == "slept 5 s"
    assert seconds(h) == 10


async def test_it_is_made_inside_a_running_loop() -> None:
    with Harness(app) as made:
        assert await (await sleeps.options(delay=5).schedule_async(5)).result_async() == "slept 5 s"
        assert seconds(made) == 10
    async with Harness(app) as made:
        handle = await note.schedule_async("a")
        assert made.run_until_idle() == 1
        assert made.result(handle) == "a"


@pytest.mark.processes
@pytest.mark.parametrize("missing", ["fakeredis", "lupa", "redis"])
def test_what_is_missing_of_its_extra_is_said(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom atf.testing import Harness"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    said = ended.stderr.splitlines()[-1]
    assert (
        said
        == f"ModuleNotFoundError: atf.testing.Harness needs {missing}, which is not installed: pip install 'atf-tasks[testing]'"
    )


def test_tasks_lists_by_lambda_and_status(h: Harness) -> None:
    first = note.schedule("a")
    h.run_until_idle()
    second = note.options(delay=10).schedule("b")
    sleeps.options(delay=10).schedule(1)
    assert [task.id for task in h.tasks(note)] == [first.id, second.id]
    assert [task.id for task in h.tasks(note, atf.Status.NEW)] == [second.id]
    assert len(h.tasks()) == 3
    assert [task.result for task in h.tasks("harness/note", atf.Status.SUCCESS)] == ["a"]


def test_two_harnesses_follow_one_another() -> None:
    for _ in range(2):
        with Harness(app) as h:
            note.schedule("x")
            assert h.run_until_idle() == 1
            assert len(h.tasks()) == 1


def test_the_inner_of_two_harnesses_is_used() -> None:
    with Harness(app) as outer:
        with Harness(app) as inner:
            note.schedule("x")
            assert len(inner.tasks()) == 1
        assert outer.tasks() == []
        note.schedule("y")
        assert len(outer.tasks()) == 1


def test_runs_repeat_exactly() -> None:
    def story() -> list[object]:
        with Harness(app, seed=3) as h:
            handles = [note.schedule(str(each)) for each in range(5)]
            h.run_until_idle()
            return [(each.id, each.finished_at) for each in h.tasks()] + [handle.id for handle in handles]

    assert story() == story()


def test_a_closed_harness_says_so() -> None:
    h = Harness(app)
    handle = note.schedule("x")
    sleeps.schedule(1_000)
    h.advance(1)
    h.close()
    h.close()
    with pytest.raises(RuntimeError, match="the harness is closed"):
        handle.status()
    with pytest.raises(RuntimeError, match="the harness is closed"):
        h.advance(1)


def test_an_app_without_lambdas_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one App"):
        Harness(atf.App("empty"))


def test_a_hundred_tasks_cost_little(h: Harness) -> None:
    begun = time.process_time()
    handles = [note.schedule(str(each)) for each in range(100)]
    assert h.run_until_idle() == 100
    assert all(handle.status() is atf.Status.SUCCESS for handle in handles)
    assert time.process_time() - begun < 1.5


def test_more_due_tasks_than_a_queue_holds_all_run() -> None:
    narrow = atf.App("narrow")

    @narrow.task(queue_limit=5)
    def step(number: int) -> None:
        ran.append((str(number), 0))

    ran.clear()
    with Harness(narrow) as h:
        for number in range(40):
            step.schedule(number)
        assert h.run_until_idle() == 40
        assert seconds(h) < 5
    assert sorted(int(name) for name, _ in ran) == list(range(40))


@app.task
def gives_back(ctx: atf.Context, times: int) -> int:
    if ctx.run <= times:
        raise atf.HandBack("not now")
    return ctx.attempt


@app.task
async def until_the_executor_ends(ctx: atf.Context) -> str:
    while not ctx.stopping and ctx.run == 1:
        await asyncio.sleep(0.5)
    if ctx.run == 1:
        assert not ctx.cancelled
        raise atf.HandBack("goes on elsewhere")
    return "done elsewhere"


@app.task
async def stops_when_it_is_told(ctx: atf.Context) -> str:
    return "told" if ctx.stopping or ctx.cancelled else "not told"


@app.task
def item(ctx: atf.Context, number: int) -> int:
    if ctx.run == 1:
        raise atf.HandBack
    return number


def test_a_task_that_gives_itself_back_runs_again_a_second_later_and_counts_nothing(h: Harness) -> None:
    handle = gives_back.options(max_attempts=1, max_losses=1).schedule(5)
    h.advance(4.9)
    assert handle.status() is not atf.Status.SUCCESS, "else it would keep everybody busy"
    h.advance(0.2)
    assert handle.result() == 1
    (task,) = h.tasks(gives_back)
    assert (task.attempts, task.losses, task.runs) == (1, 0, 6)


def test_a_task_goes_on_elsewhere_at_once_when_its_executor_ends(wide: Harness) -> None:
    handles = [until_the_executor_ends.schedule() for _ in range(20)]
    wide.advance(1)
    wide.stop_executor()
    wide.advance(1)
    done = [handle for handle in handles if handle.status() is atf.Status.SUCCESS]
    assert done, "those of the one that was stopped"
    assert {handle.result() for handle in done} == {"done elsewhere"}
    assert {(task.attempts, task.losses) for task in wide.tasks(status=atf.Status.SUCCESS)} == {(1, 0)}


def test_items_of_a_batch_give_themselves_back(h: Harness) -> None:
    batch = item.map(range(5))
    h.advance(3)
    assert sorted(batch.results()) == list(range(5))


def test_a_plain_call_is_never_stopping() -> None:
    assert gives_back(0) == 1
    assert asyncio.run(stops_when_it_is_told()) == "not told"
