"""A store that is killed and comes back, seen from outside: health says that it is away, and then explain, logs, queues and health say why no task
starts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.channel import open_channel
from atf.rpc.health import WHY
from atf.rpc.stubs import FrontendStub, HSCStub
from atf.task import US
from tests.asking import asks

from .roles import end

pytestmark = pytest.mark.timeout(120)

LAMBDA = "shop/mail"
APP = """
import atf

app = atf.App("shop")

@app.task()
def mail() -> None:
    pass
"""
TIMES = {
    "ATF_HEARTBEAT_INTERVAL": "0.2",
    "ATF_RPC_DEADLINE": "1",
    "ATF_KILL_TIME": "0.5",
    "ATF_PAUSE": "0.5",
    "ATF_HEARTBEAT_TIMEOUT": "8",
}
SENTENCE = "claims are paused, since a server of the task store restarted or was replaced"
OF_STORE = ("store-consumer", "hsc", "frontend")
"""The roles that know the task store."""
PAUSES = ["claims are paused", "claims are given again"]


class Role:
    """A role's process, and the lines of its log so far."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, role: str, *arguments: str) -> Self:
        command = [sys.executable, "-P", "-m", "atf.cli", role, "--listen", "127.0.0.1:0", "--log-format", "json"]
        command += arguments
        return cls(await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stderr=PIPE))

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while raw := await self.process.stderr.readline():
            if raw.startswith(b"{"):  # not a guard's
                self.lines.append(json.loads(raw))

    async def says(self, event: str, within: float = 20) -> dict[str, Any]:
        async with asyncio.timeout(within):
            while True:
                for each in self.lines:
                    if (
                        each["event"] == event and each["role"] != "executor"
                    ):  # what that says passes through its controller
                        return each
                await asyncio.sleep(0.05)

    async def address(self) -> str:
        return str((await self.says("ready"))["address"])

    def pauses(self) -> list[str]:
        """What it said of pauses of claims, in order."""
        return [each["event"] for each in self.lines if each["event"] in PAUSES]

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(20):
            await self._reading
        await end(self.process)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    data = DataDir(tmp_path / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data, durability="relaxed") as running:
        yield running
    data.release()


@contextlib.asynccontextmanager
async def roles(url: str) -> AsyncIterator[dict[str, Role]]:
    """A role of each kind."""
    of_store = ("--redis-url", url, "--partitions", "2")
    started = {name: await Role.start(name, *of_store) for name in OF_STORE}
    try:
        where = ["--hsc", await started["hsc"].address(), "--frontend", await started["frontend"].address()]
        started["controller"] = await Role.start("controller", *where, "--executors", "1", "shop:app")
        for each in started.values():
            await each.says("ready")
        yield started
    finally:
        for each in reversed(started.values()):
            await each.end()


async def health(role: Role, detail: str) -> str:
    """Why it says NOT_SERVING of a detail; empty: it serves."""
    async with grpc.aio.insecure_channel(await role.address()) as channel:
        call = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=detail), timeout=10)
        answer = await call
        trailing = dict(await call.trailing_metadata() or ())
    serves = answer.status == health_pb2.HealthCheckResponse.SERVING
    assert serves == (WHY not in trailing)
    return "" if serves else str(trailing[WHY])


async def until_healthy(role: Role, detail: str) -> None:
    async with asyncio.timeout(20):
        while await health(role, detail):
            await asyncio.sleep(0.1)


async def silent_hsc(url: str) -> None:
    """An HSC that has been answered a call about claims, and is killed: it can't say that its last one is still there."""
    role = await Role.start("hsc", "--redis-url", url, "--partitions", "2")
    channel = open_channel(await role.address())
    await HSCStub(channel).next_claims(asks(repeated=True, heartbeat_timeout_us=8 * US))
    await channel.close()
    role.process.kill()
    await role.end()


async def test_a_store_that_is_away_and_then_back_is_said_everywhere(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    for name, value in {**TIMES, "PYTHONPATH": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    async with roles(store.url) as running:
        await silent_hsc(store.url)
        channel = open_channel(await running["frontend"].address())
        frontend = FrontendStub(channel)
        await until_healthy(running["controller"], "executors")
        of_store = [running[name] for name in OF_STORE]
        for role in of_store:
            assert [await health(role, detail) for detail in ("", "store", "claims")] == ["", "", ""]

        store.kill()
        await store.wait()
        for role in of_store:
            assert await health(role, "") == "", "it answers with a sentence, which is better than to vanish"
            assert (await health(role, "store")).startswith("the task store at ")
            assert (await health(role, "claims")).startswith(
                "whether claims are given is not known: the task store at "
            )
        await store.start()
        for role in of_store:
            await until_healthy(role, "store")

        spec = t.TaskSpec(payload=b"{}")
        setattr(spec, "lambda", LAMBDA)
        task_id = (await frontend.schedule(f.ScheduleRequest(id="a", spec=spec))).id
        async with asyncio.timeout(5):
            while (found := await frontend.explain_task(f.ExplainTaskRequest(id=task_id))).reason == "due":
                await asyncio.sleep(0.1)
        assert found.reason == "claims_paused", found.sentence
        assert SENTENCE in found.sentence
        assert SENTENCE in (await frontend.list_lambdas(f.ListLambdasRequest())).claims_paused
        assert SENTENCE in (await frontend.get_status(f.GetStatusRequest())).claims_paused
        for role in of_store:
            assert SENTENCE in await health(role, "claims")
        assert SENTENCE in (await running["hsc"].says("claims are paused", 10))["why"]

        (ended,) = (await frontend.wait_tasks(f.WaitTasksRequest(ids=[task_id], timeout_us=40 * US), timeout=45)).tasks
        assert ended.status == t.SUCCESS
        await running["hsc"].says("claims are given again", 10)
        for role in of_store:
            await until_healthy(role, "claims")
        await channel.close()
    assert running["hsc"].pauses() == PAUSES
    assert running["controller"].pauses() == []
