"""Hooks in a real worker, its fork server and its isolated runs."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f

from .test_guard import FakeFrontend, call, guarded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolated runs need Linux")


async def test_hooks_run_in_order_in_the_processes_they_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "said"
    monkeypatch.setenv("ATF_TEST_HOOKS", str(file))
    async with guarded("--drain-timeout", "3", app="hooked:app") as world:
        worker = (await world.event())["pid"]
        for name in ("here", "on_loop", "alone"):
            before = len(world.hsc.results)
            await world.give(call(f"0-{name}", name))
            while len(world.hsc.results) == before:
                await asyncio.sleep(0.01)
        here, on_loop, alone = (json.loads(each.result) for each in world.hsc.results)
        assert (here, on_loop) == (worker, True)
        run, server = alone
        world.process.send_signal(signal.SIGTERM)
        assert (await world.death())["code"] == 0, "a stop hook that does not end is none of the tasks' business"
    assert file.read_text().splitlines() == [
        f"start {server}",
        f"start {worker}",
        f"start_async {worker}",
        f"before g/here {worker}",
        f"after g/here {worker}",
        f"before g/on_loop {worker}",
        f"async {worker}",
        f"after g/on_loop {worker}",
        f"before g/alone {run}",
        f"after g/alone {run}",
        f"stop_fails {worker}",
        f"stop {worker}",
    ]
    said = capfd.readouterr().out
    assert "stop hook failed" in said
    assert "stop_fails" in said
    assert "stop hooks cut" in said


async def test_a_worker_that_is_refused_after_its_start_hooks_calls_its_stop_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_self: FakeFrontend, _request: f.RegisterLambdasRequest) -> f.RegisterLambdasReply:
        raise InvalidArgument("no")

    file = tmp_path / "said"
    monkeypatch.setenv("ATF_TEST_HOOKS", str(file))
    monkeypatch.setattr(FakeFrontend, "register_lambdas", refuse)
    async with guarded("--drain-timeout", "1", app="hooked:app") as world:
        assert (await world.event())["event"] == "started"
        assert (await world.death())["code"] == 2
    assert [line.split()[0] for line in file.read_text().splitlines()][-2:] == ["stop_fails", "stop"]


async def test_an_executor_whose_start_hook_fails_does_not_start(capfd: pytest.CaptureFixture[str]) -> None:
    async with guarded(app="hooked:broken") as world:
        await world.event()
        assert (await world.death())["code"] == 2
        assert world.frontend.names == []
        assert world.controller.requests == []
    said = capfd.readouterr().out
    assert "@app.on_worker_start hooked.no_database: " in said
    assert "SystemExit: no database" in said
