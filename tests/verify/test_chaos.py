"""The frame of `make chaos`: rows go on where they were, a result says what was done and what was not, and links can be cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import RedisError

from atf.errors import Unavailable
from proof.chaos import frame
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.proxy import Proxy
from proof.chaos.steal import ProcessorTime


def row(run: Any, **more: Any) -> Row:
    return Row(name="r", what="what", bar="bar", full=9, batch=4, run=run, **more)


async def _at_once(_seconds: float) -> None:
    """No time passes in a test."""


class Host:
    """What the machine's host takes away: `steals` is the share of the moment."""

    def __init__(self) -> None:
        self.steals, self.used, self.stolen, self.looks = 0.0, 0, 0, 0
        self.calm_after = 0

    def taken(self) -> ProcessorTime:
        self.looks += 1
        if self.looks == self.calm_after:
            self.steals = 0.0
        self.used += round(1000 * (1 - self.steals))
        self.stolen += round(1000 * self.steals)
        return ProcessorTime(self.used, self.stolen)


class World:
    """A row whose trials are numbered; those in `starved` go on while the host takes nearly everything."""

    host = Host()

    def __init__(self, stop_at: int = 0, fail_at: int = 0, error: BaseException | None = None) -> None:
        self.asked: list[int] = []
        self.count, self.stop_at, self.fail_at, self.error = 0, stop_at, fail_at, error
        self.starved: set[int] = set()
        self.late: list[str] = []
        self.failures: list[str] = []

    async def run(self, n: int, progress: Progress) -> Sequence[Trial]:
        self.asked.append(n)
        found: list[Trial] = []
        async for _ in progress.trials(n):
            self.count += 1
            self.host.steals = 0.9 if self.count in self.starved else 0.0
            self.host.calm_after = self.host.looks + 2  # the first look ends this trial
            if self.count == self.fail_at:
                raise self.error or Unavailable("away")
            progress.stopping = self.count == self.stop_at
            said = {"failures": self.failures, "late": self.late}
            found.append({**said, "number": self.count, "x_s": float(self.count), "x_per_second": self.count})
        return found


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    monkeypatch.setattr(
        frame, "circumstances", lambda *_also, **_more: {"date": "2030-01-02", "at": "2030-01-02T03", "proof": "c"}
    )

    monkeypatch.setattr(frame, "proof", lambda *_also, **_more: "p")
    monkeypatch.setattr(frame, "_LOOK_S", 0)

    def tried(world: World, count: int, host: Host | None = None, **more: Any) -> dict[str, Any]:
        host = host or Host()
        monkeypatch.setattr(ProcessorTime, "now", host.taken)
        world.host = host
        progress = Progress(lambda _line: None, host.taken)
        return asyncio.run(
            frame.try_row(row(world.run, **more), count, progress, trials=tmp_path / "t", results=tmp_path / "results")
        )

    return tried


def written(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "results" / "2030-01-02-r-c.json").read_text())
    return found


def test_a_row_is_tried_in_batches(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    world = World()
    found = go(world, 9)
    assert world.asked == [4, 4, 1]
    assert (found["status"], found["asked"], found["done"]) == ("ok", 9, 9)
    assert found["figures"]["number"] == 45
    assert found["figures"]["x_s"] == {"p50": 5.0, "p99": 9.0, "max": 9.0, "n": 9}
    assert written(tmp_path) == found


def test_what_trials_had_the_most_of_is_not_added_up() -> None:
    trials = [
        {"most_running": 5, "pushed_in_a_second": 121, "queue_longest": 90, "drain_per_second": 900, "runs": 7},
        {"most_running": 4, "pushed_in_a_second": 90, "queue_longest": 100, "drain_per_second": 800, "runs": 2},
    ]
    assert frame.summarise(trials) == {
        "most_running": 5,
        "pushed_in_a_second": 121,
        "queue_longest": 100,
        "drain_per_second": 800,
        "runs": 9,
    }


def test_a_starved_trial_has_no_rates(go: Callable[..., dict[str, Any]]) -> None:
    world = World()
    world.starved = {1}
    assert go(world, 2)["figures"]["x_per_second"] == 2


def test_a_row_that_was_interrupted_goes_on_where_it_was(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    assert go(World(stop_at=6), 9) == {}
    assert not (tmp_path / "results").exists()
    again = World()
    found = go(again, 9)
    assert again.asked == [3]
    assert found["done"] == 9
    assert found["figures"]["number"] == 21 + 6


def test_a_row_of_sums_goes_on_from_a_recorded_result(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    go(World(), 4, sums=True)
    (tmp_path / "results" / "2030-01-02-r-c.json").rename(tmp_path / "results" / "2030-01-01-r-p.json")
    (tmp_path / "t" / "r.jsonl").unlink()  # as in a fresh clone
    again = World()
    found = go(again, 9, sums=True)
    assert again.asked == [4, 1]
    assert (found["status"], found["done"]) == ("ok", 9)
    assert found["figures"]["number"] == (1 + 2 + 3 + 4) + (1 + 2 + 3 + 4 + 5)


def test_a_recorded_failure_is_not_forgotten(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    broken = World()
    broken.failures = ["lost 1"]
    go(broken, 1, sums=True)
    (tmp_path / "results" / "2030-01-02-r-c.json").rename(tmp_path / "results" / "2030-01-01-r-p.json")
    (tmp_path / "t" / "r.jsonl").unlink()
    found = go(World(), 2, sums=True)
    assert (found["status"], found["done"]) == ("failed", 2)


def test_other_rows_begin_anew_in_a_fresh_clone(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    go(World(), 4)
    (tmp_path / "results" / "2030-01-02-r-c.json").rename(tmp_path / "results" / "2030-01-01-r-p.json")
    (tmp_path / "t" / "r.jsonl").unlink()
    again = World()
    go(again, 4)
    assert again.asked == [4]


def test_a_half_line_of_a_run_that_was_killed_is_no_trial(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    go(World(stop_at=4), 9)
    with (tmp_path / "t" / "r.jsonl").open("a") as file:
        file.write('{"failures": [], "numb')
    again = World()
    assert go(again, 9)["done"] == 9
    assert again.asked == [4, 1]


def test_what_can_not_run_here_is_not_ok(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    world = World()
    found = go(world, 9, available=lambda: "no compiler")
    assert (found["status"], found["done"], world.asked) == ("not run: no compiler", 0, [])
    assert written(tmp_path)["status"] == "not run: no compiler"


@pytest.mark.parametrize("error", [Unavailable("away"), TimeoutError("away"), RuntimeError("away"), RedisError("away")])
def test_what_breaks_down_has_failed_for_good(
    go: Callable[..., dict[str, Any]], tmp_path: Path, error: Exception
) -> None:
    said = [f"a batch broke down: {type(error).__name__}: away"]
    found = go(World(fail_at=6, error=error), 9)
    assert (found["status"], found["done"], found["failures"]) == ("failed", 4, said)
    again = World()
    found = go(again, 9)
    assert again.asked == [4, 1]
    assert (found["status"], found["done"], found["failures"]) == ("failed", 9, said)
    assert found["figures"]["broke_down"] == 1
    assert written(tmp_path) == found
    assert go(World(), 2)["status"] == "failed"


def test_who_ends_it_at_once_breaks_nothing_down(go: Callable[..., dict[str, Any]]) -> None:
    for stop in (asyncio.CancelledError(), KeyboardInterrupt()):
        with pytest.raises(type(stop)):
            go(World(fail_at=1, error=stop), 9)
    assert go(World(), 9)["status"] == "ok"


def test_a_bar_on_time_fails_its_trial(go: Callable[..., dict[str, Any]]) -> None:
    world = World()
    world.late = ["too late"]
    assert go(world, 1)["failures"] == ["trial 1: too late"]


def test_a_starved_trial_is_repeated_and_says_nothing_of_times(go: Callable[..., dict[str, Any]]) -> None:
    world = World()
    world.starved = {2, 3, 5}
    found = go(world, 4)
    assert (found["status"], found["done"], world.asked) == ("ok", 4, [4, 2, 1])
    assert (found["figures"]["starved"], found["figures"]["number"]) == (3, 1 + 2 + 3 + 4 + 5 + 6 + 7)
    assert found["figures"]["x_s"]["n"] == 4
    late = World()
    late.starved, late.late = {1}, ["too late"]
    late.error, late.fail_at = Unavailable("away"), 2
    assert go(late, 5)["failures"][:1] == ["a batch broke down: Unavailable: away"]


def test_a_row_without_a_bar_on_time_counts_a_starved_trial_without_its_times(
    go: Callable[..., dict[str, Any]],
) -> None:
    world = World()
    world.starved = {2, 3}
    found = go(world, 4, timed=False)
    assert (found["status"], found["done"], world.asked) == ("ok", 4, [4])
    assert "starved" not in found["figures"]
    assert (found["figures"]["number"], found["figures"]["x_s"]["n"]) == (1 + 2 + 3 + 4, 2)


def test_what_a_starved_trial_broke_is_broken(go: Callable[..., dict[str, Any]]) -> None:
    world = World()
    world.starved, world.failures = {1}, ["lost"]
    found = go(world, 1)
    assert (found["status"], found["done"]) == ("failed", 1)
    assert found["failures"] == ["trial 1: lost", "trial 2: lost"]


def test_a_starved_batch_that_waits_too_long_is_repeated_and_said(go: Callable[..., dict[str, Any]]) -> None:
    world = World(fail_at=1, error=TimeoutError("slow"))
    world.starved = {1}
    found = go(world, 2)
    assert (found["status"], found["done"], found["figures"]["starved"]) == ("ok", 2, 1)
    assert found["excused"] == ["a batch broke down: TimeoutError: slow"]


def test_a_starved_batch_that_breaks_down_otherwise_has_failed(go: Callable[..., dict[str, Any]]) -> None:
    world = World(fail_at=1, error=Unavailable("away"))
    world.starved = {1}
    assert go(world, 2)["failures"] == ["a batch broke down: Unavailable: away"]


def test_waiting_too_long_is_excused_twice(go: Callable[..., dict[str, Any]]) -> None:
    class Slow(World):
        async def run(self, n: int, progress: Progress) -> Sequence[Trial]:
            self.fail_at, self.error = self.count + 1, TimeoutError("slow")
            self.starved = {self.fail_at}
            return await super().run(n, progress)

    found = go(Slow(), 2)
    assert (found["status"], len(found["excused"]), len(found["failures"])) == ("failed", frame.EXCUSED, 1)


def test_a_machine_that_is_always_starved_proves_nothing(go: Callable[..., dict[str, Any]]) -> None:
    world = World()
    world.starved = set(range(1000))
    assert go(world, 2)["status"] == f"not run: {frame.STOLEN}"


def test_a_trial_waits_for_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_LOOK_S", 0.1)
    monkeypatch.setattr(frame, "asyncio", SimpleNamespace(sleep=_at_once))
    host = Host()
    host.steals, host.calm_after = 0.5, 5
    said: list[str] = []

    async def first() -> int:
        async for _ in Progress(said.append, host.taken).trials(1):
            return host.looks
        return 0

    assert asyncio.run(first()) > 5
    assert said == ["the host takes 50% of the processors away; waiting for calm"]


def test_a_row_without_a_bar_on_time_waits_for_no_calm() -> None:
    host = Host()
    host.steals = 0.5

    async def first() -> int:
        progress = Progress(pytest.fail, host.taken)
        progress.timed = False
        async for number in progress.trials(1):
            return number
        return -1

    assert asyncio.run(first()) == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cpu  5 1 2 90 3 1 1 40 7 0", ProcessorTime(10, 40)),
        ("cpu  5 1 2 90 3 1 1", ProcessorTime(10, 0)),
        ("cpu 5 1 2 9", ProcessorTime(8, 0)),
    ],
)
def test_the_kernel_says_what_was_stolen(line: str, expected: ProcessorTime) -> None:
    assert ProcessorTime.parsed(line) == expected
    assert ProcessorTime(10, 40).since(ProcessorTime(0, 0)) == 0.8
    assert expected.since(expected) == 0


def test_a_stop_before_the_first_trial_leaves_none(go: Callable[..., dict[str, Any]]) -> None:
    class Stopped(World):
        async def run(self, n: int, progress: Progress) -> Sequence[Trial]:
            progress.stopping = True
            return await super().run(n, progress)

    assert go(Stopped(), 9) == {}
    assert go(World(), 9)["status"] == "ok"


def test_trials_of_what_was_changed_meanwhile_are_not_kept(
    go: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(["old", "old", "new"])
    with monkeypatch.context() as changed:
        changed.setattr(frame, "proof", lambda *_also, **_more: next(digests))
        found = go(World(), 9)
    assert (found["status"], found["done"]) == (f"not run: {frame.CHANGED}", 4)
    assert len(frame.read_trials(tmp_path / "t" / "r.jsonl")) == 4
    assert not (tmp_path / "results").exists()


@pytest.mark.processes
def test_what_failed_before_it_could_not_go_on_has_failed() -> None:
    trials: list[Trial] = [{"failures": []}, {"failures": ["lost"]}]
    assert frame.result(row(None), 9, trials, not_run="why")["status"] == "failed"
    assert frame.result(row(None), 9, trials[:1], not_run="why")["status"] == "not run: why"


@pytest.mark.processes
def test_after_a_stop_no_other_row_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    async def breaks_down(_n: int, progress: Progress) -> Sequence[Trial]:
        tried.append("")
        progress.stopping = True
        raise Unavailable("away")

    rows = {name: Row(name=name, what="", bar="", full=1, batch=1, run=breaks_down) for name in "ab"}
    monkeypatch.setattr(frame, "all_rows", lambda: rows)
    monkeypatch.setattr(frame, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(frame, "TRIALS", tmp_path / "t")
    with pytest.raises(KeyboardInterrupt):
        frame.run(["a", "b"], 1, lambda _row, _line: None)
    assert len(tried) == 1


def test_a_broken_bar_fails_the_row(go: Callable[..., dict[str, Any]]) -> None:
    found = go(World(), 2, verdict=lambda figures: [f"{figures['number']} is too many"])
    assert (found["status"], found["failures"]) == ("failed", ["3 is too many"])


@pytest.mark.processes
def test_a_trial_that_failed_fails_the_row() -> None:
    found = frame.result(row(None), 2, [{"failures": []}, {"failures": ["lost"]}])
    assert (found["status"], found["failures"]) == ("failed", ["trial 2: lost"])


@pytest.mark.processes
def test_fewer_trials_than_asked_for_are_not_ok() -> None:
    assert frame.result(row(None), 2, [{"failures": []}])["status"] == "failed"


def test_a_longer_result_of_the_same_code_and_day_stays(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    go(World(), 9)
    assert go(World(), 3)["done"] == 3
    assert written(tmp_path)["done"] == 9


def test_a_failed_full_result_stays_whatever_comes_after_it(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    broken = World()
    broken.failures = ["too late"]
    failed = go(broken, 9)
    assert failed["status"] == "failed"
    (tmp_path / "t" / "r.jsonl").unlink()
    well = go(World(), 9)
    assert written(tmp_path) == failed
    assert json.loads((tmp_path / "results" / "2030-01-02-r-c-2.json").read_text()) == well
    assert go(World(), 9) == well  # nothing new: no third file
    assert len(list((tmp_path / "results").iterdir())) == 2


def test_a_failure_stays_beside_a_longer_result_without_it(go: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    well = go(World(), 9)
    (tmp_path / "t" / "r.jsonl").unlink()
    failed = go(World(fail_at=5), 9)
    assert (failed["status"], failed["done"]) == ("failed", 4)
    assert written(tmp_path) == well
    assert json.loads((tmp_path / "results" / "2030-01-02-r-c-2.json").read_text()) == failed


def test_a_row_of_sums_goes_on_from_the_result_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "proof", lambda *_also, **_more: "c")
    found = {"row": "r", "date": "1", "at": "1", "proof": "c", "done": 2, "full": 2, "figures": {}, "seconds": 1}
    for failures in (["lost 1"], []):
        frame.write(found | {"status": "failed" if failures else "ok", "failures": failures}, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert [each["failures"] for each in frame.recorded(row(None), tmp_path)] == [["lost 1"], []]


def test_a_full_result_counts_for_more_than_a_newer_short_one(tmp_path: Path) -> None:
    for at, done, code in (("1", 9, "a"), ("2", 9, "b"), ("3", 8, "c")):
        found = {"row": "r", "date": at, "at": at, "proof": code, "done": done, "full": 9}
        frame.write(found, tmp_path)
    assert [each["at"] for each in frame.by_row(tmp_path)["r"]] == ["3", "1", "2"]
    (tmp_path / "2026-11-21-fuzz.json").write_text('{"what": "fuzz"}', encoding="utf-8")
    assert list(frame.by_row(tmp_path)) == ["r"]


def test_what_is_done_for_this_proof_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame.write({"row": "r", "date": "1", "at": "1", "proof": "this", "done": 9, "full": 9}, tmp_path)
    monkeypatch.setattr(frame, "proof", lambda *_also, **_more: "this")
    assert frame.is_done(row(None), 9, tmp_path)
    assert not frame.is_done(row(None), 10, tmp_path)
    monkeypatch.setattr(frame, "proof", lambda *_also, **_more: "other")
    assert not frame.is_done(row(None), 9, tmp_path)


def test_what_tries_and_judges_keeps_trials_apart_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "ROOT", tmp_path)
    paths = [
        "atf/a.py",
        "atf/store/servers/atf.acl",
        "proof/chaos/rows/kills.py",
        "proof/chaos/shim.c",
        "proof/simulation/play.py",
    ]
    for path in map(tmp_path.joinpath, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old")

    def changed(path: str) -> list[bool]:
        def digests() -> list[str]:
            return [
                frame.code(),
                frame.proof(),
                frame.proof("proof/simulation"),
                frame.proof("proof/simulation/play.py"),
            ]

        before = digests()
        (tmp_path / path).write_text(f"{path} new")
        return [one != other for one, other in zip(before, digests(), strict=True)]

    assert [changed(path) for path in paths] == [[True] * 4] * 2 + [[False, True, True, True]] * 2 + [
        [False, False, True, True]
    ]


def test_every_row_is_found_once_and_says_what_it_is() -> None:
    rows = frame.all_rows()
    assert {"kill-executor", "freeze-with-guard", "partition-executor-hsc", "stop-hsc"} <= set(rows)
    assert all(each.what and each.bar and each.full >= each.batch >= 1 for each in rows.values())


async def test_a_link_is_cut_and_healed() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, Proxy(f"{host}:{port}") as proxy:
        where = proxy.address.rpartition(":")
        reader, writer = await asyncio.open_connection(where[0], int(where[2]))
        writer.write(b"one")
        assert await reader.read(100) == b"one"
        proxy.hold()
        writer.write(b"two")
        waiting = asyncio.ensure_future(reader.read(100))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        proxy.heal()
        assert await waiting == b"two"
        proxy.refuse()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        reader, writer = await asyncio.open_connection(where[0], int(where[2]))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
