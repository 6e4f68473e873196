"""A real guard with a real worker, between a controller and an HSC that do as the test says."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from atf.config.settings import Timing
from atf.errors import Internal, Unavailable
from atf.process.stops import AT_ONCE, BEGIN, DRAIN
from atf.rpc import controller_pb2 as c, frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.rpc.server import Service, serve
from atf.runtime import SystemRuntime
from tests.executor.world import FakeController, FakeHsc, claim

ROOT = Path(__file__).parents[2]
TIMING = Timing(heartbeat_interval=0.3, rpc_deadline=0.8, kill_time=1.0, pause=0.3, drift=0.05, heartbeat_timeout=5.2)


class FakeFrontend:
    """Takes registrations; the first ones fail."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.failures = 1

    async def register_lambdas(self, request: f.RegisterLambdasRequest) -> f.RegisterLambdasReply:
        if self.failures:
            self.failures -= 1
            raise Unavailable("not yet")
        self.names = [each.name for each in request.lambdas]
        return f.RegisterLambdasReply(warnings=["a pool is nobody's"])

    def __getattr__(self, method: str) -> Callable[..., Any]:
        async def refuse(_request: object) -> Any:
            raise Internal(f"an executor does not call {method}")

        return refuse


class Guarded:
    """A guard, and what it has said."""

    process: asyncio.subprocess.Process
    events: asyncio.StreamReader

    def __init__(self) -> None:
        self.controller = FakeController(SystemRuntime())
        self.hsc = FakeHsc()
        self.frontend = FakeFrontend()

    async def event(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            line = await self.events.readline()
        event: dict[str, Any] = json.loads(line)
        return event

    async def until(self, true: Callable[[], Any], seconds: float = 30) -> None:
        """Looks often; what is awaited happens in another process."""
        async with asyncio.timeout(seconds):
            while not true():
                await asyncio.sleep(0.01)

    async def give(self, *claims: t.Claim) -> None:
        """Answers with claims once the worker asks; their leases count from then."""
        await self.until(lambda: self.controller.requests)
        self.controller.give(*claims)

    async def drains(self) -> dict[str, Any]:
        """Its word that its worker drains."""
        event = await self.event()
        assert event["event"] == "draining"
        return event

    async def death(self) -> dict[str, Any]:
        event = await self.event()
        if event["event"] == "draining":
            event = await self.event()
        assert event["event"] == "dead"
        async with asyncio.timeout(10):
            assert await self.process.wait() == event["code"]
        return event


@asynccontextmanager
async def guarded(
    *more: str, app: str = "guarded:app", timing: Timing = TIMING, path: str = ""
) -> AsyncIterator[Guarded]:
    world = Guarded()
    services = [
        Service(c.DESCRIPTOR.services_by_name["Controller"], world.controller),
        Service(h.DESCRIPTOR.services_by_name["HSC"], world.hsc),
        Service(f.DESCRIPTOR.services_by_name["Frontend"], world.frontend),
    ]
    server = await serve("127.0.0.1:0", services)
    reading, writing = os.pipe()
    flags = [f"--{each.name.replace('_', '-')}={getattr(timing, each.name)}" for each in fields(Timing)]
    flags += [f"--{role}={server.address}" for role in ("controller", "hsc", "frontend")]
    command = [sys.executable, "-P", "-m", "atf.cli", "executor", app, f"--events-fd={writing}", *flags, *more]
    world.process = process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        pass_fds=(writing,),
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), path)))},
    )
    os.close(writing)
    world.events = events = asyncio.StreamReader(limit=1 << 20)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(events), os.fdopen(reading, "rb", buffering=0)
    )
    try:
        yield world
    finally:
        if process.returncode is None and process.stdin is not None:
            process.stdin.write(AT_ONCE)
        output, _ = await process.communicate()
        sys.stdout.write(output.decode())
        transport.close()
        await server.stop(0)


def call(task_id: str, name: str, payload: str = "{}", **options: Any) -> t.Claim:
    return claim(task_id, f"g/{name}", payload.encode(), **options)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_worker_runs_both_kinds_of_lambdas_and_drains_when_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with guarded() as world:
        started = await world.event()
        assert started["event"] == "started"
        assert alive(started["pid"])
        await world.give(call("0-a", "fine", '{"word":"a"}'), call("0-b", "fine_async", '{"word":"b"}'))
        await world.give(call("0-c", "exit_quietly"), call("0-d", "come_back"))
        await world.until(lambda: len(world.hsc.results) == 4)
        results = {each.claim.task_id: each for each in world.hsc.results}
        assert (results["0-a"].result, results["0-b"].result) == (b'"a"', b'"b"')
        assert results["0-c"].outcome == t.FAILED
        assert "SystemExit" in results["0-c"].error
        assert results["0-d"].result == b'"parent"'
        assert {"g/come_back", "g/die", "atf/http"} <= set(world.frontend.names)
        await world.give(call("0-e", "wait_for_cancel"))
        await world.until(lambda: world.hsc.beats)
        world.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        world.hsc.verdicts["0-e"] = h.CANCEL
        dead = await world.death()
        assert (dead["code"], dead["executor"]) == (0, started["executor"])
        assert [dead[each] for each in ("held", "started", "timed_out", "stopped")] == [[], [], [], []]
        assert world.hsc.results[-1].result == b'"saw it"'
    assert "a pool is nobody's" in capsys.readouterr().out, "what the frontend warned of"


@pytest.mark.parametrize("name", ["look_from_child", "look_from_async_child"])
async def test_a_child_that_a_lambda_forks_has_no_part_in_the_connections_of_the_worker(name: str) -> None:
    """gRPC's threads went on in the child, with calls that were the worker's: after that every result was refused."""
    async with guarded() as world:
        await world.give(call("0-a", name))
        await world.until(lambda: world.hsc.results)
        found = json.loads(world.hsc.results[0].result)
        assert found["threads"] == 1, "gRPC's are not started again"
        assert not found["told"], "what lambdas start may use gRPC as it likes"
        assert len(found["said"]) == 2
        assert all("subprocess" in each for each in found["said"]), "both calls say what to do"


async def test_a_worker_that_stands_by_is_no_executor_before_the_controllers_word() -> None:
    async with guarded("--stand-by") as world:
        assert world.process.stdin is not None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await world.events.readline()
        assert not world.frontend.names, "its apps are not loaded"
        world.process.stdin.write(BEGIN)
        assert (await world.event())["event"] == "started"
        await world.give(call("0-a", "fine", '{"word":"a"}'))
        await world.until(lambda: world.hsc.results)
        world.process.stdin.write(DRAIN)
        assert (await world.death())["code"] == 0


@pytest.mark.parametrize("end", ["word", "controller is gone", "signal"])
async def test_a_worker_that_stands_by_ends_without_a_word(end: str) -> None:
    async with guarded("--stand-by") as world:
        assert world.process.stdin is not None
        pid = world.process.pid
        await world.until(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text())
        if end == "word":
            world.process.stdin.write(AT_ONCE)
        elif end == "signal":
            world.process.send_signal(signal.SIGTERM)
        else:
            world.process.stdin.close()
        assert await world.process.wait() == 0
        assert await world.events.read() == b""


async def test_a_worker_whose_controller_is_gone_drains() -> None:
    async with guarded() as world:
        await world.event()
        await world.give(call("0-a", "wait_for_cancel"))
        await world.until(lambda: world.hsc.beats)
        assert world.process.stdin is not None
        world.process.stdin.close()
        await asyncio.sleep(0.5)
        assert world.process.returncode is None, "it finishes what it holds"
        world.hsc.verdicts["0-a"] = h.CANCEL
        assert (await world.death())["code"] == 0


@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen"])
async def test_a_worker_dies_with_its_guard(*, frozen: bool) -> None:
    """Without its guard nobody could end it in time, should it be frozen."""
    async with guarded() as world:
        worker = (await world.event())["pid"]
        await world.give(call("0-a", "fine", '{"word":"a"}'))
        await world.until(lambda: world.hsc.results)
        if frozen:
            os.kill(worker, signal.SIGSTOP)
        world.process.kill()
        await world.until(lambda: not alive(worker))


@pytest.mark.parametrize("lambda_name", ["freeze", pytest.param("hold_lock", marks=pytest.mark.long)])
async def test_a_frozen_or_starved_worker_is_killed_before_its_lease_ends(lambda_name: str) -> None:
    async with guarded() as world:
        worker = (await world.event())["pid"]
        await world.give(call("0-a", lambda_name))
        given_at = asyncio.get_running_loop().time()
        await world.until(lambda: not alive(worker))
        lasted = asyncio.get_running_loop().time() - given_at
        dead = await world.death()
        assert lasted < TIMING.heartbeat_timeout, "it can't have had a heartbeat since"
        assert dead["code"] == 128 + signal.SIGKILL
        assert "leases were about to end" in dead["why"]
        assert dead["started"] == [["0-a", 1, "nonce"]]


async def test_what_a_dead_worker_held_is_told_by_its_state() -> None:
    async with guarded("--threads", "1") as world:
        worker = (await world.event())["pid"]
        await world.give(
            call("0-a", "leave", '{"code":3}'), call("0-b", "fine", '{"word":"b"}'), call("0-c", "fine", '{"word":"c"}')
        )
        dead = await world.death()
        assert (dead["code"], dead["pid"]) == (3, worker)
        assert dead["started"] == [["0-a", 1, "nonce"]]
        assert sorted(dead["held"]) == [["0-b", 1, "nonce"], ["0-c", 1, "nonce"]]


async def test_a_worker_that_kills_itself_is_told_at_once() -> None:
    async with guarded() as world:
        await world.event()
        await world.give(call("0-a", "die"))
        dead = await world.death()
        assert dead["code"] == 137
        assert dead["why"] == "killed by SIGKILL"
        assert dead["started"] == [["0-a", 1, "nonce"]]


@pytest.mark.parametrize("leave", [True, False])
async def test_what_a_lambda_started_is_gone_too(tmp_path: Path, leave: bool) -> None:
    file = tmp_path / "child"
    async with guarded() as world:
        await world.event()
        await world.give(call("0-a", "start_child", json.dumps({"file": str(file), "leave": leave})))
        await world.until(lambda: file.exists() and file.read_text().count("alive"))
        if not leave:
            world.process.send_signal(signal.SIGTERM)
        dead = await world.death()
        assert dead["code"] == (9 if leave else 0)
        assert not alive(int(file.read_text().split()[0])), "when the guard says dead, nothing of it runs"


async def test_a_worker_that_takes_too_much_memory_drains_and_one_that_goes_on_is_killed() -> None:
    async with guarded("--max-rss-mib", "300") as world:
        await world.event()
        await world.give(call("0-a", "eat", '{"mib":250,"more":250}'))
        drains = await world.drains()
        assert "max_rss_mib is 300" in drains["why"]
        assert drains["started"] == 1
        await world.until(lambda: any(each.draining for each in world.hsc.beats))
        dead = await world.death()
        assert dead["code"] == 137
        assert "max_rss_kill_mib is 450" in dead["why"]
        assert dead["started"] == [["0-a", 1, "nonce"]], "whoever is killed for it may be the cause"


async def test_a_def_that_ignores_its_timeout_is_told_as_timed_out_once_its_process_is_dead() -> None:
    async with guarded("--stop-grace", "0.5") as world:
        await world.event()
        await world.give(call("0-a", "ignore_timeout", timeout=0.5))
        dead = await world.death()
        assert dead["code"] == 76
        [[task_id, counter, nonce, retry_in_us, error]] = dead["timed_out"]
        assert (task_id, counter, nonce, retry_in_us) == ("0-a", 1, "nonce", 1_000_000)
        assert "timed out after 0.5 s" in error


@pytest.mark.parametrize("draining", [False, True])
async def test_a_worker_that_can_not_heartbeat_ends_by_itself(*, draining: bool) -> None:
    """In a drain that counts nothing: a stop may have reached the HSC, too."""
    async with guarded() as world:
        await world.event()
        world.hsc.failing["heartbeat"] = Unavailable("gone")
        await world.give(call("0-a", "wait_for_cancel"))
        if draining:
            await world.until(lambda: world.hsc.beats)
            world.process.send_signal(signal.SIGTERM)
        dead = await world.death()
        assert dead["code"] == 75
        assert dead["cut" if draining else "started"] == [["0-a", 1, "nonce"]]


async def test_a_worker_that_does_not_drain_in_time_ends_all_the_same() -> None:
    async with guarded("--drain-timeout", "0.5") as world:
        await world.event()
        await world.give(call("0-a", "wait_for_cancel"))
        await world.until(lambda: world.hsc.beats)
        world.process.send_signal(signal.SIGTERM)
        dead = await world.death()
        assert dead["code"] == 76
        assert (dead["cut"], dead["started"]) == ([["0-a", 1, "nonce"]], []), "a stop is no loss"


@pytest.mark.parametrize("whom", ["guard", "worker"])
async def test_a_second_signal_ends_at_once(whom: str) -> None:
    async with guarded() as world:
        worker = (await world.event())["pid"]
        await world.give(call("0-a", "wait_for_cancel"))
        await world.until(lambda: world.hsc.beats)
        pid = worker if whom == "worker" else world.process.pid
        for _ in range(2):  # a manager's, and another one that reaches the process by its group
            os.kill(pid, signal.SIGINT)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert alive(worker), "those were one stop"
        os.kill(pid, signal.SIGINT)
        dead = await world.death()
        assert dead["code"] == (137 if whom == "guard" else 130)
        assert (dead["cut"], dead["started"]) == ([["0-a", 1, "nonce"]], [])


@pytest.mark.parametrize("seed", range(2))
async def test_a_stop_that_reaches_guard_and_worker_in_any_order_is_one_stop(seed: int) -> None:
    """As a service manager's, which signals every process of a service, beside the controller's word."""
    chance = random.Random(seed)
    async with guarded() as world:
        worker = (await world.event())["pid"]
        await world.give(call("0-a", "wait_for_stop"), call("0-b", "work_on", '{"seconds":1.5}'))
        await world.until(lambda: len(world.hsc.beats[-1].claims) == 2 if world.hsc.beats else False)
        assert world.process.stdin is not None
        told = [worker, world.process.pid, None]
        chance.shuffle(told)
        for pid in told:
            await asyncio.sleep(chance.uniform(0, 0.025))
            if pid is None:
                world.process.stdin.write(DRAIN)
            else:
                os.kill(pid, chance.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
        dead = await world.death()
        assert (dead["code"], dead["cut"], dead["started"], dead["held"]) == (0, [], [], [])
        results = {each.claim.task_id: (each.outcome, each.result) for each in world.hsc.results}
        assert results == {"0-a": (t.SUCCEEDED, b'"stopped"'), "0-b": (t.SUCCEEDED, b'"worked"')}
        [last] = {request.ack for request in world.controller.last_requests if request.stream == "def"}
        assert last == world.controller.number


async def test_a_crash_in_a_drain_counts() -> None:
    async with guarded() as world:
        await world.event()
        await world.give(call("0-a", "crash_in_drain"), call("0-b", "wait_for_cancel"))
        await world.until(lambda: len(world.hsc.beats[-1].claims) == 2 if world.hsc.beats else False)
        world.process.send_signal(signal.SIGTERM)
        dead = await world.death()
        assert re.fullmatch(r"killed by SIGSEGV; at \S+/guarded\.py line \d+ in crash_in_drain", dead["why"])
        assert (dead["cut"], sorted(dead["started"])) == ([], [["0-a", 1, "nonce"], ["0-b", 1, "nonce"]])


async def test_neighbours_of_a_def_that_ignores_its_timeout_end_in_order_or_are_cut() -> None:
    async with guarded("--stop-grace", "0.3", "--drain-timeout", "3") as world:
        await world.event()
        await world.give(
            call("0-a", "ignore_timeout", timeout=0.5),
            call("0-b", "work_on", '{"seconds":2.5}'),
            call("0-c", "wait_for_cancel"),
        )
        drains = await world.drains()
        assert drains["started"] == 3
        dead = await world.death()
        assert dead["code"] == 76
        assert [each[0] for each in dead["timed_out"]] == ["0-a"]
        assert (dead["cut"], dead["started"]) == ([["0-c", 1, "nonce"]], [])
        assert [(each.claim.task_id, each.outcome) for each in world.hsc.results] == [("0-b", t.SUCCEEDED)]


async def test_an_app_that_takes_the_signals_for_itself_does_not_keep_them(tmp_path: Path) -> None:
    (tmp_path / "taker.py").write_text(
        "import signal, sys\n"
        "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, lambda *_: sys.exit(5))\n"
        "from guarded import app\n"
    )
    async with guarded(app="taker:app", path=str(tmp_path)) as world:
        worker = (await world.event())["pid"]
        await world.give(call("0-a", "wait_for_stop"))
        await world.until(lambda: world.hsc.beats)
        os.kill(worker, signal.SIGTERM)
        assert (await world.death())["code"] == 0
        assert world.hsc.results[0].result == b'"stopped"'


async def test_a_module_that_can_not_be_imported_is_refused_with_its_line() -> None:
    async with guarded(app="no_such_module:app") as world:
        await world.event()
        assert (await world.death())["code"] == 2
        output = (await world.process.communicate())[0].decode()
        assert "no_such_module" in output


async def test_the_guard_holds_neither_grpc_nor_user_code() -> None:
    code = "import sys, atf.executor.main; print(*sorted(sys.modules))"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        code,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    output, _ = await process.communicate()
    loaded = set(output.decode().split())
    assert loaded.isdisjoint({"asyncio", "click", "google", "grpc", "redis", "ssl", "structlog", "tempfile"})
    ours = {name.removeprefix("atf.executor.") for name in loaded if name.startswith("atf.executor.")}
    assert ours == {
        "main",
        "table",
        "guarding",
        *(
            f"guarding.{each}"
            for each in ("by_hand", "guard", "group", "relay", "stand_by", "start_notes", "worker_end")
        ),
    }


async def test_a_drained_worker_ends_although_a_lambda_left_a_thread_behind() -> None:
    async with guarded() as world:
        await world.event()
        await world.give(call("0-a", "leave_a_thread"))
        await world.until(lambda: world.hsc.results)
        world.controller.give(draining=True)
        assert (await world.death())["code"] == 0
