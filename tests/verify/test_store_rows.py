"""What the rows that strike the store make of what they measure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atf.config.settings import Timing
from atf.verify.events import Accepted, Began
from proof.chaos import storewatch, tally
from proof.chaos.rows.backlog import rate
from proof.chaos.rows.store_killed import trial_of
from proof.chaos.storewatch import ALWAYS, EVERYSEC, Resumption, worst_s


def test_a_rate_is_that_of_the_middle() -> None:
    slow_start = [0.0, *(10 + number / 100 for number in range(100)), 60.0]
    assert rate(slow_start) == pytest.approx(100)
    assert rate([1.0]) == 0
    assert rate([1.0] * 30) == 0


@pytest.mark.parametrize(
    ("took", "said"),
    [
        ({"schedule": 4.9, "claim": 5.0}, []),
        ({"schedule": 5.1, "claim": 1}, ["schedule: 5.1"]),
        ({"claim": 1}, ["schedule: nothing"]),
    ],
)
def test_what_comes_late_or_never_breaks_the_bar(took: dict[str, float], said: list[str]) -> None:
    trial = trial_of(1.0, took, {"schedule": 5.0, "claim": 5.0}, recovered=True)
    assert [each.partition(" s ")[0] for each in trial["late"]] == said
    assert trial_of(1.0, took, {}, recovered=False)["late"] == ["not all that was cut off ran again"]


def test_a_tally_leaves_out_what_its_writer_could_not_end(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(tally.RECORD.pack(7, 2.0) + tally.RECORD.pack(8, 3.0)[:5])
    (tmp_path / "2").write_bytes(tally.RECORD.pack(7, 1.0))
    assert tally.read(tmp_path) == [(7, 1.0), (7, 2.0)]


# --- when each role works again ---------------------------------------------------------------------------------------

NOW_US, WALL_US = 1_000_000, 50_000_000
LEASE_US = Timing().heartbeat_timeout_us


class Store:
    """What the store says: so many ids were pushed, and these leases end then."""

    def __init__(self) -> None:
        self.pushed, self.leases = 0, dict[str, int]()

    async def hget(self, _key: str, _field: str) -> str:
        return str(self.pushed)

    async def zrangebyscore(self, key: str, least: int, _most: str, *, withscores: bool) -> list[tuple[str, float]]:
        assert withscores
        held = self.leases if "/work:" in key else {}
        return [(f"0-{task}", float(end)) for task, end in held.items() if end >= least]


def bench_of(*workers: int) -> Any:
    """A bench of two executors whose workers live."""
    living = [SimpleNamespace(worker=each) for each in workers]
    return SimpleNamespace(
        stream=SimpleNamespace(events=[]),
        record=SimpleNamespace(begun=[Began(0, "old1", 1, "1-0", 0), Began(0, "old2", 1, "2-0", 0)]),
        namespace="n",
        timing=Timing(),
        executors=2,
        cluster=SimpleNamespace(executors=lambda: living),
    )


def began(task: str, worker: int, seconds: float) -> Began:
    """A run that was claimed and began so many seconds after the store's return."""
    us = round(seconds * 1e6)
    return Began(NOW_US + us, task, WALL_US + us, f"{worker}-0", 0)


@pytest.fixture
def frozen_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storewatch, "now_us", lambda: NOW_US)
    monkeypatch.setattr(storewatch, "wall_us", lambda: WALL_US)


@pytest.mark.usefixtures("frozen_clocks")
async def test_of_executors_the_slowest_says_when_they_work_again() -> None:
    bench = bench_of(1, 2)
    store: Any = Store()
    watch = Resumption(bench)
    bench.record.begun += [began("a", 1, 0.3), began("b", 1, 0.4)]
    bench.stream.events += [Accepted(NOW_US + 200_000, "a", 0)]
    store.leases = {"old1": WALL_US + LEASE_US + 700_000, "old2": WALL_US + LEASE_US - 1}
    await watch.look(store)
    store.pushed = 1
    await watch.look(store)
    assert watch.took_s() == {"schedule": 0.2, "enqueue": 0.0}, "one executor of two"
    bench.record.begun.append(began("c", 2, 4.5))
    store.leases["old2"] = WALL_US + LEASE_US + 3_000_000
    await watch.look(store)
    assert watch.took_s() == {"schedule": 0.2, "enqueue": 0.0, "claim": 4.5, "start": 4.5, "heartbeat": 3.0}


@pytest.mark.usefixtures("frozen_clocks")
async def test_an_executor_that_ended_is_replaced_by_the_one_that_was_started_for_it() -> None:
    bench = bench_of(1, 3)
    store: Any = Store()
    watch = Resumption(bench)
    bench.record.begun += [began("a", 1, 0.3), began("b", 2, 0.4)]
    await watch.look(store)
    assert watch.took_s() == {}
    bench.record.begun.append(began("c", 3, 6.0))
    await watch.look(store)
    assert watch.took_s() == {"claim": 6.0, "start": 6.0}


def test_what_waited_or_was_cut_off_starts_when_its_id_is_pushed_again_or_claims_are_made_again() -> None:
    bench: Any = SimpleNamespace(timing=Timing())
    assert worst_s(bench, ALWAYS) == 15
    assert worst_s(bench, EVERYSEC) == 21
