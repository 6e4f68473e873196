"""Real processes on a real store, killed, frozen and told to end while they are busy. Judged by what the lambdas write themselves."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient, Handle, TaskInfo
from atf.demo.record import DIRECTORY, DemoRecord, concurrent
from atf.demo.strike import KilledWorker, kill_one
from atf.task import Status
from atf.verify.watch import ProcessWatch

from . import kills

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

HERE: Final = Path(__file__).parent
LONG_S: Final = 60.0
"""Seconds that anything may take here before it counts as hung: the machine may be busy."""
H: Final = 8.0
QUICK: Final = {  # not quicker: an executor must bear that the machine leaves a role waiting for a second or two
    "ATF_HEARTBEAT_INTERVAL": "1.0",
    "ATF_RPC_DEADLINE": "1.0",
    "ATF_KILL_TIME": "0.5",
    "ATF_PAUSE": "1.0",
    "ATF_DRIFT": "0.05",
    "ATF_HEARTBEAT_TIMEOUT": str(H),
    "ATF_STOP_GRACE": "0.5",
}

PATIENT: Final = {"ATF_HEARTBEAT_INTERVAL": "8", "ATF_HEARTBEAT_TIMEOUT": "36"}
"""Executors end themselves at the third failed heartbeat: by then a role must be back, and a busy machine takes its time to start it."""


class Busy:
    """A cluster, a client of it, and the lambdas' own record."""

    def __init__(self, cluster: Cluster, client: AsyncClient, directory: Path) -> None:
        self.cluster = cluster
        self.client = client
        self.record = DemoRecord(directory)

    async def schedule(self, count: int, seconds: float = 0.02, *, aio: bool = False) -> list[Handle[int]]:
        task = kills.short_async if aio else kills.short
        return await self.client.schedule_many([task.prepare(seconds) for _ in range(count)])

    async def until(self, holds: Callable[[], Any], seconds: float = LONG_S) -> float:
        """Waits until something is so by the record; the seconds that took."""
        began = time.monotonic()
        async with asyncio.timeout(seconds):
            while True:
                self.record.poll()
                if holds():
                    return time.monotonic() - began
                await asyncio.sleep(0.02)

    async def gone(self, pid: int, seconds: float) -> int:
        """Waits until a process is dead. Returns when that was, in nanoseconds of CLOCK_MONOTONIC.

        Its tasks may run again within milliseconds. This process may be kept waiting for longer than that, so another one looks, which comes before all others.
        """
        watch = ProcessWatch()
        try:
            watch.watch("it", pid)
            await self.until(lambda: watch.died_us("it"), seconds)
        finally:
            await asyncio.to_thread(watch.stop)
        return watch.died_us("it") * 1000

    def starts(self, handle: Handle[Any]) -> int:
        return len(self.record.runs.get(handle.id, ()))

    async def running(self, handles: Sequence[Handle[Any]]) -> None:
        """Waits until each has started."""
        await self.until(lambda: all(self.starts(each) for each in handles))

    async def succeed(self, handles: Sequence[Handle[Any]]) -> list[TaskInfo]:
        """All end in SUCCESS, no two runs of one at once."""
        tasks = await self.client.wait(handles, timeout=LONG_S)
        assert {task.id: task.status for task in tasks} == {each.id: Status.SUCCESS for each in handles}
        self.record.poll()
        assert concurrent({each.id: self.record.runs.get(each.id, []) for each in handles}) == []
        return tasks

    async def kill_worker(self) -> KilledWorker:
        """SIGKILL to a worker that has started tasks."""
        killed = await kill_one(lambda: [each.worker for each in self.cluster.executors()], self.record, within=LONG_S)
        assert killed is not None
        return killed

    async def executors(self, count: int = 2) -> None:
        """Waits until so many executors run tasks."""
        seen: set[int] = set()
        async with asyncio.timeout(LONG_S):
            while len(seen) < count:
                tasks = await self.client.wait(await self.schedule(8 * count, 0.05), timeout=LONG_S)
                live = {each.worker for each in self.cluster.executors()}
                seen = (seen | {task.result for task in tasks}) & live


@asynccontextmanager
async def busy(folder: Path, compact: bool = False, /, **variables: str) -> AsyncIterator[Busy]:
    (folder / "record").mkdir()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [ours.get("PYTHONPATH"), str(HERE.parents[1])]))
    ours |= {"PYTHONPATH": path, "ATF_CONFIG": str(folder / "none.toml"), DIRECTORY: str(folder / "record")}
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True, executors=2, compact=compact)
    said: list[str] = []
    cluster = Cluster(
        settings,
        ["tests.process.kills:app"],
        env={**ours, **variables},
        say=lambda name, line: said.append(f"{name} | {line}"),
    )
    try:
        async with cluster, AsyncClient(cluster.frontend_address, timeout=LONG_S) as client:
            world = Busy(cluster, client, folder / "record")
            await world.executors()
            yield world
    finally:
        print("\n".join(said))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def default(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Busy]:
    """With the timing that users have."""
    async with busy(tmp_path_factory.mktemp("default")) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Busy]:
    """With executors that bear the end of a role for a quarter of a minute."""
    async with busy(tmp_path_factory.mktemp("patient"), **PATIENT) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def few(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Busy]:
    """In two processes. Its executors bear the end of the server for some ten seconds."""
    timing = {"ATF_HEARTBEAT_INTERVAL": "4", "ATF_HEARTBEAT_TIMEOUT": "22"}
    async with busy(tmp_path_factory.mktemp("few"), True, **timing) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quick(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Busy]:
    """With leases of a few seconds."""
    async with busy(tmp_path_factory.mktemp("quick"), **QUICK) as world:
        yield world


async def _through(world: Busy, blow: Callable[[], Awaitable[object] | object]) -> tuple[list[TaskInfo], float]:
    """Some hundred tasks, the blow in the middle of them. Answers the tasks, and the longest time in which none started."""
    handles = await world.schedule(200)
    await world.until(lambda: sum(world.starts(each) for each in handles) > 20)
    blow()
    struck_ns = time.monotonic_ns()
    for _ in range(4):
        handles += await world.schedule(50)
    tasks = await world.succeed(handles)
    starts = sorted(run.start_ns for each in handles for run in world.record.runs[each.id] if run.start_ns > struck_ns)
    gaps = [after - before for before, after in zip([struck_ns, *starts], starts, strict=False)]
    return tasks, max(gaps) / 1e9


async def test_claims_that_a_killed_controller_did_not_pass_on_are_back_within_two_seconds(default: Busy) -> None:
    async def claimed(handles: Sequence[Handle[Any]]) -> int:
        return [(await default.client.get(each.id)).status for each in handles].count(Status.CLAIMED)

    await default.executors()
    default.cluster.kill("controller", signal.SIGSTOP)
    handles = await default.schedule(4)
    async with asyncio.timeout(LONG_S):
        while not await claimed(handles):
            await asyncio.sleep(0.01)
    default.cluster.kill("controller")
    killed = time.monotonic()
    async with asyncio.timeout(LONG_S):
        while await claimed(handles):
            await asyncio.sleep(0.01)
    assert time.monotonic() - killed < 2.0, "a lease lasts for 16 s"
    assert {task.losses for task in await default.succeed(handles)} == {0}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("role", ["frontend", "hsc", "store-consumer", "controller", "store"])
async def test_a_role_is_killed_under_load(default: Busy, role: str) -> None:
    await _killed(default, role)


@pytest.mark.parametrize("process", ["server", "worker"])
async def test_a_process_of_a_compact_cluster_is_killed_under_load(few: Busy, process: str) -> None:
    await _killed(few, process)


async def _killed(world: Busy, name: str) -> None:
    before = world.cluster.restarts(name)

    tasks, gap = await _through(world, lambda: world.cluster.kill(name))

    assert world.cluster.restarts(name) == before + 1
    assert gap < 15
    assert max(task.losses for task in tasks) <= 1
    await world.executors()  # those of a killed controller end with it, and it starts new ones


async def test_a_worker_is_killed_and_its_tasks_run_again_at_once(default: Busy) -> None:
    handles = await default.schedule(8, 1.5) + await default.schedule(8, 1.5, aio=True)
    await default.running(handles)

    killed = await default.kill_worker()

    again = {task_id for task_id, _ in killed.cut_off}
    took = await default.until(lambda: all(len(default.record.runs[each]) > 1 for each in again))
    assert took < 10  # a second or two where the machine is idle; a lease lasts 16
    tasks = await default.succeed(handles)
    assert {task.id for task in tasks if task.losses} == again
    await default.executors()


async def test_each_role_is_told_to_end_under_load(patient: Busy) -> None:
    """What it has started it finishes, the rest it gives back: no attempt and no loss is counted."""
    for role in ["frontend", "hsc", "store-consumer", "controller"]:
        await _told_to_end(patient, role)
    await patient.executors()


async def test_each_process_of_a_compact_cluster_is_told_to_end_under_load(few: Busy) -> None:
    for process in ["server", "worker"]:
        await _told_to_end(few, process)
    await few.executors()


async def _told_to_end(world: Busy, name: str) -> None:
    before = world.cluster.restarts(name)
    tasks, _ = await _through(world, lambda: world.cluster.kill(name, signal.SIGTERM))
    assert world.cluster.restarts(name) == before + 1
    again = [task for task in tasks if (task.attempts, task.losses, task.runs) != (1, 0, 1)]
    assert again == [], name


async def test_an_executor_is_told_to_end_under_load(default: Busy) -> None:
    guard = default.cluster.executors()[0].guard

    tasks, _ = await _through(default, lambda: os.kill(guard, signal.SIGTERM))

    assert {(task.attempts, task.losses, task.runs) for task in tasks} == {(1, 0, 1)}
    await default.until(lambda: not is_alive(guard))


@pytest.mark.parametrize("aio", [False, True], ids=["def", "async def"])
async def test_a_running_task_is_cancelled(default: Busy, aio: bool) -> None:
    (handle,) = await default.schedule(1, 30.0, aio=aio)
    await default.running([handle])

    assert await default.client.cancel(handle.id)

    (task,) = await default.client.wait([handle], timeout=LONG_S)
    # A `def` that returns when it sees ctx.cancelled has succeeded; a coroutine is stopped.
    assert task.status is (Status.CANCELLED if aio else Status.SUCCESS)
    default.record.poll()
    (run,) = default.record.runs[handle.id]
    assert run.end_ns is not None
    assert run.end_ns - run.start_ns < 25e9


async def test_a_frozen_worker_never_goes_on_and_its_tasks_run_again(quick: Busy) -> None:
    handles = await quick.schedule(4, 2.0) + await quick.schedule(4, 2.0, aio=True)
    await quick.running(handles)
    quick.record.poll()
    pid = max((each.worker for each in quick.cluster.executors()), key=lambda pid: len(quick.record.open_runs(pid)))

    os.kill(pid, signal.SIGSTOP)
    frozen_at = time.monotonic()

    died_ns = await quick.gone(pid, seconds=30)
    assert time.monotonic() - frozen_at < H + 5
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    quick.record.poll()
    cut_off = quick.record.close_killed(pid, died_ns)
    assert cut_off
    tasks = await quick.succeed(handles)
    again = {task_id for task_id, _ in cut_off}
    assert {task.id: (task.losses, quick.starts(handle)) for task, handle in zip(tasks, handles, strict=True)} == {
        each.id: (1, 2) if each.id in again else (0, 1) for each in handles
    }
    await quick.executors()


async def test_native_code_that_holds_the_interpreter_lock_is_killed_in_time(quick: Busy) -> None:
    handle = await quick.client.schedule(kills.hold_lock.prepare())
    await quick.running([handle])
    (first,) = quick.record.runs[handle.id]

    pid = int(first.process.partition("-")[0])
    died_ns = await quick.gone(pid, seconds=30)

    quick.record.poll()
    quick.record.close_killed(pid, died_ns)
    (task,) = await quick.succeed([handle])
    assert (task.result, task.losses) == (2, 1)
    await quick.executors()


async def test_a_blocked_event_loop_costs_no_lease(quick: Busy) -> None:
    """Heartbeats have a thread and a connection of their own."""
    handle = await quick.client.schedule(kills.block.prepare(H + 1))

    (task,) = await quick.succeed([handle])

    assert (task.losses, task.attempts, quick.starts(handle)) == (0, 1, 1)


async def test_a_def_that_ignores_its_timeout_never_overlaps_its_retry(quick: Busy, tmp_path: Path) -> None:
    file = tmp_path / "ticks"
    handle = await quick.client.schedule(kills.stubborn.prepare(str(file)))

    (task,) = await quick.client.wait([handle], timeout=LONG_S)

    assert (task.status, task.attempts, task.losses) == (Status.SUCCESS, 2, 0)
    assert task.ended_runs[0].why.startswith("timed_out")
    last_ns = int(file.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2])
    assert task.result > last_ns, "the second attempt ran beside the first"
    await quick.executors()


async def test_a_poison_task_ends_as_a_dead_letter_and_the_others_succeed(quick: Busy) -> None:
    handles = await quick.schedule(100, 0.05)
    bad = await quick.client.schedule(kills.poison.prepare("exit"))
    handles += await quick.schedule(200, 0.05)

    (letter,) = await quick.client.wait([bad], timeout=LONG_S)

    assert (letter.status, letter.losses, letter.attempts) == (Status.FATAL_FAILURE, 3, 0)
    tasks = await quick.client.wait(handles, timeout=LONG_S)
    assert {task.status for task in tasks} == {Status.SUCCESS}
    assert len(tasks) == len(handles)
    assert max(task.losses for task in tasks) <= 1


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
