"""What `atf bench` looks at before it believes a figure, by a client that answers what the test gives it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from atf.bench import run
from atf.bench.run import Course, Plan
from atf.cli.progress import Lines
from atf.errors import Internal
from atf.store.server import used_bytes
from atf.task import Status


class Client:
    """Of `known` tasks it knows the records; the others have not ended when `wait` gives up."""

    def __init__(self, *known: Any) -> None:
        self.known = known

    async def schedule_many(self, tasks: Any) -> list[Any]:
        return [object() for _ in tasks]

    async def wait(self, handles: Any, timeout: float) -> list[Any]:
        return list(self.known[: len(handles)])


def info(runs: int = 1, status: Status = Status.SUCCESS) -> Any:
    return SimpleNamespace(id="0-a", runs=runs, status=status, error="no")


def course(*known: Any) -> Any:
    plan = Plan(rate=1000, seconds=0.005, settings={})
    return Course(plan, "b", SimpleNamespace(), Client(*known))  # type: ignore[arg-type]


async def test_a_stream_of_which_some_did_not_end_gives_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_LOOK_S", 0)
    with pytest.raises(Internal, match="2 of 5 tasks have not finished"):
        await course(info(), info(), info()).ahead()


async def test_tasks_that_ran_more_than_once_are_counted_and_failed_ones_are_refused() -> None:
    assert await course(info(), info(runs=2), info(runs=3))._ran_again([1, 2, 3]) == 2
    with pytest.raises(Internal, match="1 of 2 tasks failed; the first: 0-a: no"):
        await course(info(), info(status=Status.FATAL_FAILURE))._ran_again([1, 2])


class Pausable(Client):
    """Each of its resumptions takes a second of `clock`."""

    def __init__(self, clock: list[float], *known: Any) -> None:
        super().__init__(*known)
        self.clock = clock

    async def pause(self, name: str) -> None: ...

    async def resume(self, name: str) -> None:
        self.clock[0] += 1.0


async def test_the_drain_lasts_from_the_first_resumption_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    plan = Plan(tasks=20, settings={})
    measured: Any = Course(plan, "b", SimpleNamespace(), Pausable(clock, *[info()] * 20))  # type: ignore[arg-type]

    async def bytes_and_left() -> int:
        clock[0] += 1.0
        return 0

    measured._used_bytes = bytes_and_left
    measured._stored.left = bytes_and_left
    assert (await measured.drain()).figures["per_s"] == 6.7, "20 tasks within 3 s, 2 of which were resumptions"


class Started:
    """Roles, and a client of theirs, that take no time to start."""

    store = frontend_address = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


async def test_the_bytes_of_waiting_tasks_are_measured_before_others_leave_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Asked:
        """A course whose measurements have no figures."""

        async def warm_up(self) -> None: ...

        def __getattr__(self, name: str) -> Any:
            async def measure() -> run.Measured:
                return run.Measured(name, name, {})

            return measure

    monkeypatch.setattr(run, "Cluster", lambda *_, **__: Started())
    monkeypatch.setattr(run, "AsyncClient", lambda *_, **__: Started())
    monkeypatch.setattr(run, "Course", lambda *_: Asked())
    said: list[str] = []
    report = await run._measure(Plan(settings={}), tmp_path, Lines(said.append), {}, lambda *_: None)
    assert [each.name for each in report.measured][:2] == ["idle", "drain"]


class Server:
    def __init__(self, *answers: bytes | None) -> None:
        self.answers = answers

    async def masters(self) -> list[Any]:
        async def command(answer: bytes | None) -> bytes | None:
            return answer

        return [SimpleNamespace(command=lambda *_, answer=each: command(answer)) for each in self.answers]


async def test_the_bytes_of_a_store_are_those_of_all_servers_or_unknown() -> None:
    says = b"# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\n"
    assert await used_bytes(Server(says, says)) == 2000  # type: ignore[arg-type]
    assert await used_bytes(Server(says, None)) is None  # type: ignore[arg-type]
