"""What `atf bench` looks at before it believes a figure, by a client that answers what the test gives it."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

import atf
from atf.bench import measurements, pending, run, tasks, versions
from atf.bench.lambdas import LATER
from atf.bench.measurements import BenchPlan, Measurement, Measurements
from atf.bench.run import BenchReport, cluster_settings
from atf.bench.store import MeasuredStore, TaskStore
from atf.cli.progress import LineView
from atf.errors import FailedPrecondition, Internal, Unavailable
from atf.store.servers.check_results import ok, warn
from atf.store.servers.checks import used_bytes
from atf.task import Status


class Client:
    """Of `known` tasks it knows the records; the others have not ended when `wait` gives up."""

    def __init__(self, *known: Any) -> None:
        self.known, self.scheduled = known, list[Any]()

    async def schedule_many(self, tasks: Any) -> list[Any]:
        return [object() for _ in tasks]

    async def schedule(self, task: Any) -> Any:
        self.scheduled.append(task)
        return object()

    async def lambdas(self, _name: str = "") -> list[Any]:
        return [SimpleNamespace(counts=dict.fromkeys(Status, 0))]

    async def wait(self, handles: Any, timeout: float) -> list[Any]:
        return list(self.known[: len(handles)])


def info(runs: int = 1, status: Status = Status.SUCCESS, ended_s: float = 0.0) -> Any:
    finished_at = dt.datetime.fromtimestamp(ended_s, dt.UTC)
    return SimpleNamespace(id="0-a", runs=runs, status=status, error="no", finished_at=finished_at)


class Store:
    """Its clock is `clock`; it grows by 100 bytes whenever it is asked."""

    def __init__(self, clock: list[float] | None = None) -> None:
        self.clock, self.bytes = clock or [0.0], 0

    async def now_s(self) -> float:
        return self.clock[0]

    async def used_bytes(self) -> int:
        self.bytes += 100
        return self.bytes

    async def cpu_s(self) -> float | None:
        return 3.0

    async def found(self) -> MeasuredStore:
        return MeasuredStore("Valkey 8.1.1", "yes", "everysec")

    async def room_bytes(self) -> int | None:
        return None

    async def aclose(self) -> None: ...


def course(*known: Any) -> Any:
    plan = BenchPlan(rate=1000, seconds=0.005, settings={})
    cluster = SimpleNamespace(names=[], executors=list)
    return Measurements(plan, "b", cluster, Client(*known), Store())  # type: ignore[arg-type]


async def test_a_stream_of_which_some_did_not_end_gives_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "AHEAD_S", (0.0, 0.0))
    with pytest.raises(Internal, match="2 of 5 tasks have not finished"):
        await course(info(), info(), info()).ahead()


async def test_a_stream_has_a_call_for_each_task_and_its_cpu_by_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "AHEAD_S", (0.0, 0.0))
    moment = dt.datetime.fromtimestamp(1.0, dt.UTC)
    started = SimpleNamespace(scheduled_at=moment, ended_runs=[SimpleNamespace(started_at=moment)])
    asked = course(*[started] * 5)
    used = iter([{"client": 1.0, "hsc": 2.0}, {"client": 1.001, "hsc": 2.002}])

    async def cpu() -> dict[str, float]:
        return next(used)

    monkeypatch.setattr(asked, "_cpu", cpu)
    figures = (await asked.ahead()).figures
    assert len(asked.client.scheduled) == 5
    assert (figures["p99_ms"], figures["early"]) == (0.0, 0)
    assert {name: figures[name] for name in figures if "cpu" in name} == {
        "cpu_us": 600.0,
        "cpu_us_client": 200.0,
        "cpu_us_hsc": 400.0,
    }


async def test_tasks_that_ran_more_than_once_are_counted_and_failed_ones_are_refused() -> None:
    assert (await course(info(), info(runs=2), info(runs=3)).tasks.ends([1, 2, 3])).ran_again == 2
    with pytest.raises(Internal, match="1 of 2 tasks failed; the first: 0-a: no"):
        await course(info(), info(status=Status.FATAL_FAILURE)).tasks.ends([1, 2])


class Pausable(Client):
    """Each of its resumptions takes a second of `clock`."""

    def __init__(self, clock: list[float], *known: Any) -> None:
        super().__init__(*known)
        self.clock = clock

    async def pause(self, name: str) -> None: ...

    async def resume(self, _name: str) -> None:
        self.clock[0] += 1.0


async def test_the_drain_lasts_from_the_first_resumption_until_the_last_end_whenever_that_is_seen() -> None:
    clock = [100.0]
    client: Any = Pausable(clock, *[info(ended_s=102.0)] * 9, info(ended_s=104.0), *[info(ended_s=103.0)] * 10)
    measured: Any = Measurements(BenchPlan(tasks=20, settings={}), "b", SimpleNamespace(), client, Store(clock))  # type: ignore[arg-type]

    async def left() -> int:
        clock[0] += 50.0
        return 0

    measured.tasks.stored.left = left
    figures = (await measured.drain()).figures
    assert figures == {"per_s": 5.0, "bytes_per_waiting_task": 5.0, "ran_again": 0}, "20 tasks within 4 s"


async def test_throughput_ends_with_the_last_task_by_the_stores_clock() -> None:
    clock = [1000.0]  # the store's is another one than this machine's
    client: Any = Client(*[info(ended_s=1004.0)] * 20)
    cluster: Any = SimpleNamespace(names=[], executors=list)
    measured: Any = Measurements(BenchPlan(tasks=20, settings={}), "b", cluster, client, Store(clock))  # type: ignore[arg-type]
    measured.tasks.stored.left = _nothing
    through = await measured.through(20)
    assert through["per_s"] == 5.0
    assert through["cpu_us_store"] == 0.0, "of a store elsewhere by its own word"


async def _nothing() -> int:
    return 0


async def test_it_looks_ever_more_seldom_while_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Iterator[int] = iter(range(40, -1, -1))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def left() -> int:
        return next(looks)

    monkeypatch.setattr(tasks, "asyncio", SimpleNamespace(sleep=sleep))
    measured = course()
    measured.tasks.stored.left = left
    await measured.tasks.drained()
    assert slept == sorted(slept)
    assert slept[0] == 0.02
    assert set(slept[8:]) == {0.25}


async def test_what_others_have_in_the_store_stands_beside_the_figures() -> None:
    class Lambdas(Client):
        async def lambdas(self, _name: str = "") -> list[Any]:
            none = dict.fromkeys(Status, 0)
            one = none | {Status.NEW: 4_000_000, Status.PROCESSING: 2, Status.SUCCESS: 5}
            return [SimpleNamespace(counts=one), SimpleNamespace(counts=none | {Status.FATAL_FAILURE: 1})]

    measured: Any = Measurements(BenchPlan(rounds=1, settings={}), "b", SimpleNamespace(), Lambdas(), Store())  # type: ignore[arg-type]
    assert (await measured.before()).figures == {"pending": 4_000_002, "finished": 6}

    async def through(_tasks: int) -> dict[str, float]:
        return {"per_s": 1.0, "ran_again": 0}

    measured.through = through
    assert "beside 4,000,002 pending tasks" in (await measured.end_to_end()).what


# --- what waits meanwhile ---------------------------------------------------------------------------------------------


class Scheduling(Client):
    async def schedule_many(self, tasks: Any) -> list[Any]:
        self.scheduled += tasks
        return [object() for _ in tasks]


async def test_what_is_to_wait_is_due_in_a_year_and_of_a_lambda_that_is_not_measured() -> None:
    client: Any = Scheduling()
    plan = BenchPlan(pending=1_000, rounds=1, settings={})
    measured: Any = Measurements(plan, "b", SimpleNamespace(), client, Store())  # type: ignore[arg-type]
    figures = (await measured.pending()).figures
    assert figures["bytes_per_task"] == 0.1, "100 bytes together"
    assert len(client.scheduled) == 1_000
    assert {getattr(each.request.spec, "lambda") for each in client.scheduled} == {"b/later"}
    year_us = (time.time() + 365 * 86_400) * 1e6
    assert all(abs(each.request.at_us - year_us) < 60e6 for each in client.scheduled)
    assert f"b/{LATER}" not in measured.tasks.stored.lambdas, "what is left to do is counted without them"

    async def through(_tasks: int) -> dict[str, float]:
        return {"per_s": 1.0, "ran_again": 0}

    measured.through = through
    assert "beside 1,000 pending tasks" in (await measured.end_to_end()).what


async def test_what_the_store_has_no_memory_for_is_refused() -> None:
    def store(room: int | None) -> Any:
        async def room_bytes() -> int | None:
            return room

        return SimpleNamespace(room_bytes=room_bytes)

    await pending.check_room(store(None), 10_000_000)
    await pending.check_room(store(1_000 * pending.BYTES), 1_000)
    with pytest.raises(FailedPrecondition, match=r"^--pending 1,001: .* raise maxmemory, or give at most 1,000$"):
        await pending.check_room(store(1_000 * pending.BYTES), 1_001)


async def test_the_room_of_a_store_is_that_of_all_servers_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def room(*answers: bytes | None) -> int | None:
        return await behind(monkeypatch, *answers).room_bytes()

    says = b"# Memory\r\nused_memory:1000\r\nmaxmemory:5000\r\n"
    full = b"# Memory\r\nused_memory:6000\r\nmaxmemory:5000\r\n"
    assert await room(says, says) == 8000
    assert await room(says, full) == 4000
    assert await room(says, b"# Memory\r\nused_memory:1000\r\nmaxmemory:0\r\n") is None, "it has no bound"
    assert await room(says, None) is None


class Warm:
    async def warm_up(self, executors: int) -> None: ...


class Waiting:
    """A frontend with tasks that wait; records of cancelled ones go two at each look."""

    def __init__(self, count: int) -> None:
        self.new: Sequence[str] = [f"0-{number}" for number in range(count)]
        self.cancelled: Sequence[str] = []
        self.together: Sequence[int] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list(self, name: str, status: Status, *, limit: int) -> Sequence[Any]:
        assert (name, status) == ("b/later", Status.NEW)
        return [SimpleNamespace(id=each) for each in self.new[:limit]]

    async def cancel_tasks(self, request: Any) -> None:
        self.together = [*self.together, len(request.ids)]
        self.cancelled = [*self.cancelled, *request.ids]
        self.new = [each for each in self.new if each not in request.ids]

    async def lambdas(self, name: str) -> Sequence[Any]:
        assert name == "b/later"
        self.cancelled = self.cancelled[2:]
        return [SimpleNamespace(name=name, counts={Status.NEW: len(self.new), Status.CANCELLED: len(self.cancelled)})]


async def test_what_waited_is_cancelled_in_batches_and_its_records_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frontend, slept = Waiting(600), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(pending, "AsyncClient", lambda _: frontend)
    monkeypatch.setattr(pending, "connect", lambda _: frontend)
    monkeypatch.setattr(tasks, "asyncio", SimpleNamespace(sleep=sleep))
    await pending.remove("x", "b/later")
    assert frontend.together == [256, 256, 88]
    assert (frontend.new, frontend.cancelled) == ([], [])
    assert len(slept) == 299


@pytest.mark.parametrize(
    ("plan", "removed"),
    [
        (BenchPlan(pending=5, redis_url="redis://x", settings={}), True),
        (BenchPlan(pending=5, settings={}), False),  # the store is removed as a whole
        (BenchPlan(redis_url="redis://x", settings={}), False),
    ],
)
async def test_what_waited_is_removed_from_a_store_of_yours_also_where_a_measurement_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plan: BenchPlan, removed: bool
) -> None:
    class Failing:
        tasks = Warm()

        def __getattr__(self, name: str) -> Any:
            async def measure() -> Measurement:
                if name == "kinds":
                    raise Internal("a task failed")
                return Measurement(name, name, {})

            return measure

    asked: list[str] = []
    said: list[str] = []

    async def remove(_frontend: str, name: str) -> None:
        asked.append(name)
        raise Unavailable("it is away")

    monkeypatch.setattr(run, "Cluster", lambda *_, **__: Started())
    monkeypatch.setattr(run, "AsyncClient", lambda *_, **__: Started())
    monkeypatch.setattr(run, "Measurements", lambda *_: Failing())
    monkeypatch.setattr(run, "TaskStore", lambda _: Store())
    monkeypatch.setattr(run, "workplace", lambda *_: contextlib.nullcontext((tmp_path, lambda *_: None)))
    monkeypatch.setattr(pending, "remove", remove)
    with pytest.raises(Internal, match="a task failed"):
        await run.bench(plan, LineView(said.append), {})
    assert [re.sub("^bench-[^/]*", "", each) for each in asked] == ["/later"] * removed
    assert any("stay in the store, due in 365 days: it is away" in each for each in said) == removed
    assert ("pending: " in said) == bool(plan.pending)


class Started:
    """Roles, and a client of theirs, that take no time to start."""

    store = frontend_address = redis_url = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


async def test_the_bytes_of_waiting_tasks_are_measured_before_others_leave_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Asked:
        """A course whose measurements have no figures."""

        tasks = Warm()

        def __getattr__(self, name: str) -> Any:
            async def measure() -> Measurement:
                return Measurement(name, name, {})

            return measure

    monkeypatch.setattr(run, "Cluster", lambda *_, **__: Started())
    monkeypatch.setattr(run, "AsyncClient", lambda *_, **__: Started())
    monkeypatch.setattr(run, "Measurements", lambda *_: Asked())
    monkeypatch.setattr(run, "TaskStore", lambda _: Store())
    monkeypatch.setattr(run, "workplace", lambda *_: contextlib.nullcontext((tmp_path, lambda *_: None)))
    said: list[str] = []
    report = await run.bench(BenchPlan(settings={}), LineView(said.append), {})
    assert [each.name for each in report.measured][:3] == ["before", "idle", "drain"]
    assert (
        "Valkey 8.1.1, appendonly yes, appendfsync everysec, started for this; the roles' durability is relaxed" in said
    )
    assert_told(report)


def assert_told(report: BenchReport) -> None:
    found = report.as_json()
    assert (found["appendonly"], found["appendfsync"], found["durability"]) == ("yes", "everysec", "relaxed")
    assert list(found["versions"]) == ["python", "atf", "redis-py", "hiredis", "grpcio", "protobuf", "server"]
    assert found["versions"]["server"] == "Valkey 8.1.1"
    assert found["versions"]["atf"] == atf.__version__
    assert re.fullmatch(r"([0-9a-f]{12,}(-dirty)?)?", found["commit"])


# --- the store --------------------------------------------------------------------------------------------------------


def test_a_store_of_its_own_syncs_once_a_second_unless_told_otherwise(tmp_path: Path) -> None:
    assert cluster_settings(BenchPlan(settings={"durability": ""}), tmp_path).durability == "relaxed"
    assert cluster_settings(BenchPlan(settings={"durability": "disk"}), tmp_path).durability == "disk"
    assert cluster_settings(BenchPlan(settings={}, redis_url="redis://x"), tmp_path).durability == "", (
        "as roles are set"
    )


def test_what_a_store_is_comes_from_its_checks() -> None:
    def server(fsync: str) -> list[Any]:
        return [ok("version", "Redis 7.4.1", ""), warn("appendonly", "yes", "", ""), ok("appendfsync", fsync, "")]

    assert MeasuredStore.of([*server("always"), *server("always")]) == ("Redis 7.4.1", "yes", "always")
    assert MeasuredStore.of([*server("always"), *server("no")]).appendfsync == "always, no"
    assert MeasuredStore.of([]) == ("hidden", "hidden", "hidden")


@pytest.mark.processes
def test_a_commit_is_known_in_a_checkout_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(versions, "atf", SimpleNamespace(__file__=str(tmp_path / "atf" / "__init__.py")))
    assert versions.commit() == ""
    (tmp_path / ".git").mkdir()
    assert versions.commit() == "", "git does not take it for one"


class Server:
    def __init__(self, *answers: bytes | None) -> None:
        self.answers = answers

    async def masters(self) -> list[Any]:
        async def command(answer: bytes | None) -> bytes | None:
            return answer

        return [SimpleNamespace(command=lambda *_, answer=each: command(answer)) for each in self.answers]


def behind(monkeypatch: pytest.MonkeyPatch, *answers: bytes | None) -> TaskStore:
    """A store whose servers answer so."""
    monkeypatch.setattr("atf.bench.store.open_link", lambda _settings: Server(*answers))
    return TaskStore("redis://x")


async def test_the_bytes_of_a_store_are_those_of_all_servers_or_unknown() -> None:
    says = b"# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\n"
    assert await used_bytes(Server(says, says)) == 2000  # type: ignore[arg-type]
    assert await used_bytes(Server(says, None)) is None  # type: ignore[arg-type]


async def test_the_cpu_of_a_store_is_that_of_all_servers_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cpu(*answers: bytes | None) -> float | None:
        return await behind(monkeypatch, *answers).cpu_s()

    says = b"# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:7\r\n"
    assert await cpu(says, says) == 7.5
    assert await cpu(says, None) is None
