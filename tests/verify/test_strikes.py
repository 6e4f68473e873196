"""The plan of strikes comes from its seed, and the store of others is never struck."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from atf.cli.local.processes import ExecutorPids
from atf.config.settings import Timing
from atf.errors import InvalidArgument, Unavailable
from atf.testing.loop import VirtualLoop
from atf.verify import run
from atf.verify.bench import LoadedCluster, drain_s
from atf.verify.outcome import Recovery, Strike
from atf.verify.run import VerifyPlan, kinds
from atf.verify.strikes import ROLES, STORE, PlannedStrike, carry_out, plan


def test_a_seed_makes_the_same_plan() -> None:
    assert plan(7, 40, 60, ROLES, 16) == plan(7, 40, 60, ROLES, 16)
    assert plan(7, 40, 60, ROLES, 16) != plan(8, 40, 60, ROLES, 16)


def test_strikes_come_in_order_within_the_load_and_at_every_role() -> None:
    found = plan(1, 100, 60, ROLES, 16)
    assert [each.at_s for each in found] == sorted(each.at_s for each in found)
    assert found[0].at_s > 0
    assert found[-1].at_s < 0.9 * 60
    assert {role: sum(each.role == role for each in found) for role in ROLES} == dict.fromkeys(ROLES, 20)
    assert {each.what for each in found} == {"kill", "freeze"}
    turns = [tuple(each.role for each in found[start : start + len(ROLES)]) for start in range(0, 100, len(ROLES))]
    assert len(set(turns)) > 10, "the order is by chance"
    assert plan(1, 0, 60, ROLES, 16) == []


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("count", [1, 8, 40])
def test_one_freeze_lasts_longer_than_a_lease_and_of_an_executor_if_one_is_frozen(seed: int, count: int) -> None:
    found = plan(seed, count, 30, [*ROLES, STORE], 16)
    (long,) = [each for each in found if each.what == "freeze" and each.hold_s > 16]
    assert long.hold_s == 20
    frozen = {each.role for each in found if each.what == "freeze"}
    assert long.role == "executor" or "executor" not in frozen


def course(**more: Any) -> VerifyPlan:
    given: dict[str, Any] = {"roles": [], "redis_url": "", "rate": 1, "seconds": 1, "settings": {}, **more}
    return VerifyPlan(strikes=1, seed=1, executors=1, **given)


def test_the_store_is_struck_only_if_it_is_our_own() -> None:
    assert course().targets() == [*ROLES, STORE]
    assert course(redis_url="redis://x").targets() == list(ROLES)
    assert course(roles=["hsc", "hsc"]).targets() == ["hsc"]
    with pytest.raises(InvalidArgument, match="was not started here"):
        course(redis_url="redis://x", roles=[STORE]).targets()


# --- the end of a long load -------------------------------------------------------------------------------------------


def test_records_stay_until_the_end_of_the_longest_load() -> None:
    timing = Timing(heartbeat_timeout=16)
    assert course(seconds=86_400).retention_s(timing) > 86_400 + drain_s(timing) + 600
    assert course(seconds=30).retention_s(timing) > 3_600


@pytest.mark.parametrize(
    ("rate", "seconds", "kept", "partitions", "refused"),
    [
        (5_000, 600, 1_000_000, 1, True),
        (5_000, 600, 1_000_000, 16, False),
        (5_000, 390, 1_000_000, 1, False),
        (5_000, 400, 1_000_000, 1, True),  # by chance one of the two lambdas gets more than half
        (200, 86_400, 1_000_000, 1, True),
        (200, 30, 1_000_000, 1, False),
        (1, 30, 0, 1, True),
    ],
)
def test_a_load_of_which_records_would_be_gone_is_refused(
    rate: float, seconds: float, kept: int, partitions: int, refused: bool
) -> None:
    with pytest.raises(InvalidArgument, match="Give fewer --seconds") if refused else nullcontext():
        course(rate=rate, seconds=seconds).check(kept, partitions)


def test_the_partitions_are_those_of_the_store_that_is_used() -> None:
    assert course().partitions({}) == 1
    assert course(redis_url="redis://x").partitions({"ATF_PARTITIONS": "8"}) == 8
    assert course(redis_url="redis://x", settings={"partitions": 4}).partitions({"ATF_PARTITIONS": "8"}) == 4


@pytest.mark.processes
def test_the_lambdas_records_stay_as_long_as_the_bench_says(tmp_path: Path) -> None:
    bench = LoadedCluster(tmp_path, retention=90_000)
    bench.deaths.stop()
    code = "from atf.verify.lambdas import app; print({each.defaults.retention_us for each in app.lambdas.values()})"
    command = [sys.executable, "-P", "-c", code]
    ran = subprocess.run(command, env=bench.env, capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout == "{90000000000}\n"


async def test_a_long_course_has_them_stay_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def made(_directory: Path, **options: Any) -> LoadedCluster:
        asked.update(options)
        raise Unavailable("enough is known")

    class Silent:
        def say(self, _line: str) -> None: ...

    view: Any = Silent()
    monkeypatch.setattr(run, "LoadedCluster", made)
    monkeypatch.setattr(run, "workplace", lambda *_: contextlib.nullcontext((tmp_path, lambda *_: None)))
    with pytest.raises(Unavailable, match="enough is known"):
        await run.verify(course(seconds=7_200), view, {})
    assert asked["retention"] == course(seconds=7_200).retention_s(Timing())


# --- a process that dies between the choice and the strike ------------------------------------------------------------


class Dying:
    """A bench whose processes die as soon as they are chosen, the first few times."""

    def __init__(self, times: int) -> None:
        self.left, self.struck = times, list[int]()
        self.cluster = self
        self.thawed: list[int] = []

    def pid(self, _role: str) -> int:
        return 100 - self.left

    def workers(self) -> list[ExecutorPids]:
        return [ExecutorPids(1, self.pid(""))]

    def kill(self, role: str, pid: int = 0) -> Strike:
        if self.left:
            self.left -= 1
            raise ProcessLookupError
        self.struck.append(pid or self.pid(role))
        return Strike("kill", role, self.struck[-1], 0)

    async def kill_worker(self, worker: int) -> Strike:
        return self.kill("executor", worker)

    async def freeze(self, role: str, *pids: int) -> Strike:
        return self.kill(role, pids[0])

    def thaw(self, strike: Strike) -> None:
        self.thawed.append(strike.pid)


@pytest.mark.parametrize("what", ["kill", "freeze"])
@pytest.mark.parametrize("role", ["executor", "hsc"])
def test_another_process_is_chosen_if_one_has_died_meanwhile(what: str, role: str) -> None:
    said: list[str] = []
    bench: Any = Dying(3)
    loop = VirtualLoop()
    try:
        done = loop.run_until_complete(carry_out(bench, [PlannedStrike(1.0, what, role, 2.0)], said.append))
        dead: Any = Dying(1_000_000)
        left_out = loop.run_until_complete(carry_out(dead, [PlannedStrike(1.0, what, role, 2.0)], said.append))
    finally:
        loop.close()
    assert (done, bench.struck, bench.thawed) == (1, [100], [100] if what == "freeze" else [])
    assert (left_out, dead.struck) == (0, [])
    held = " for 2.0 s" if what == "freeze" else ""
    assert said == [f"{what} {role}{held} (process 100)", f"left out: {what} {role}{held}; none runs"]


@pytest.fixture
def gone() -> int:
    """A process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    return child.pid


@pytest.mark.processes
async def test_a_worker_that_is_gone_is_no_strike(tmp_path: Path, gone: int) -> None:
    bench = LoadedCluster(tmp_path)
    try:
        with pytest.raises(ProcessLookupError):
            await bench.kill_worker(gone)
        with pytest.raises(ProcessLookupError):
            await bench.freeze("executor", gone)
        assert bench.strikes == []
    finally:
        bench.deaths.stop()


def test_recoveries_are_told_by_kind() -> None:
    killed, frozen = Strike("kill", "hsc", 1, 0), Strike("freeze", "hsc", 1, 0)
    found = kinds(
        [
            Recovery(killed, 1.0, None, 4.0),
            Recovery(killed, 3.0, 2.5, 1.0),
            Recovery(frozen, None, None, None),
        ]
    )
    assert [each.strike for each in found] == ["freeze hsc", "kill hsc"]
    assert found[0][1:] == (1, None, None, None, None)
    assert found[1][1:] == (2, 1.0, 3.0, 2.5, 4.0)
