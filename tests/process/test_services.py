"""Frontend and HSC as real processes on a real store: they serve, refuse, recover, and end in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from atf.config.settings import Timing
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.errors import ClaimsPaused, FailedPrecondition, Unavailable
from atf.rpc import frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub, HSCStub
from atf.task import US
from tests.asking import asks

from .roles import end, line

RUN = {
    "frontend": "from atf.frontend.main import main; from atf.config.settings import FrontendSettings as Own",
    "hsc": "from atf.hsc.main import main; from atf.config.settings import HscSettings as Own",
}
CODE = """
import sys
{imports}
from atf.config.settings import LogSettings, SecuritySettings, StoreSettings, Timing
raise SystemExit(main(
    Own(listen=sys.argv[1]), StoreSettings(redis_url=sys.argv[2], partitions=2), Timing(), LogSettings(log_format="json"),
    SecuritySettings(),
))
"""


async def start(role: str, listen: str, url: str) -> Process:
    code = CODE.format(imports=RUN[role])
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code, listen, url), stdin=DEVNULL, stderr=PIPE, env=dict(os.environ)
    )


@contextlib.asynccontextmanager
async def running(role: str, url: str) -> AsyncIterator[tuple[Process, str]]:
    process = await start(role, "127.0.0.1:0", url)
    try:
        yield process, (await line(process, "ready"))["address"]
    finally:
        if process.returncode is None:
            process.terminate()
        await end(process)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    data = DataDir(tmp_path / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data) as store:
        yield store
    data.release()


async def register(stub: FrontendStub) -> None:
    await stub.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="photos/thumbnail")]))


def request(task_id: str) -> f.ScheduleRequest:
    spec = t.TaskSpec()
    setattr(spec, "lambda", "photos/thumbnail")
    return f.ScheduleRequest(id=task_id, spec=spec)


async def until_served(stub: FrontendStub, task_id: str) -> f.ScheduleReply:
    async with asyncio.timeout(15):
        while True:
            try:
                return await stub.schedule(request(task_id))
            except Unavailable:
                await asyncio.sleep(0.05)


async def test_a_frontend_serves_until_it_is_told_to_stop(store: EmbeddedStore) -> None:
    async with running("frontend", store.url) as (process, address):
        stub = FrontendStub(open_channel(address))
        await register(stub)
        reply = await stub.schedule(request("a"))
        assert (await stub.get_task(f.GetTaskRequest(id=reply.id))).id == reply.id
        async with grpc.aio.insecure_channel(address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            answer = await health.Check(health_pb2.HealthCheckRequest(service="atf.v1.Frontend"))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        # a long poll does not hold up the end: it is answered with what has finished so far
        waiting = asyncio.create_task(stub.wait_tasks(f.WaitTasksRequest(ids=[reply.id], timeout_us=60 * US)))
        await asyncio.sleep(0.2)
        process.terminate()
        assert not (await waiting).tasks
        assert await end(process) == 0
        await stub.channel.close()


async def test_an_hsc_serves_until_it_is_told_to_stop(store: EmbeddedStore) -> None:
    async with running("frontend", store.url), running("hsc", store.url) as (process, address):
        stub = HSCStub(open_channel(address))
        assert not (await stub.next_claims(asks())).claims
        waits = asyncio.create_task(stub.next_claims(asks(wait_us=30_000_000)))
        await asyncio.sleep(0.2)
        process.terminate()
        await line(process, "stopping")
        with pytest.raises(Unavailable, match="ask another one"):
            await waits
        # An executor that is asked to end at the same moment marks its leases a little later.
        mark = h.HeartbeatRequest(executor_id="e1", draining=True, heartbeat_timeout_us=Timing().heartbeat_timeout_us)
        mark.claims.add().claim.task_id = "0-nobody"
        assert (await stub.heartbeat(mark)).verdicts == [h.LOST]
        assert await end(process) == 0
        await stub.channel.close()


async def test_a_store_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    data.lock()
    store = EmbeddedStore(find_binary(), data)
    process = await start("frontend", "127.0.0.1:0", store.url)
    assert (await line(process, "waiting"))["need"] == "the task store"
    async with store:
        await line(process, "ready")
        process.terminate()
        assert await end(process) == 0
    data.release()


async def test_a_store_that_dies_makes_calls_unavailable_until_it_is_back(store: EmbeddedStore) -> None:
    async with running("frontend", store.url) as (_, address), running("hsc", store.url) as (_, hsc_address):
        stub = FrontendStub(open_channel(address))
        await register(stub)
        await stub.schedule(request("before"))
        store.kill()
        await store.wait()
        with pytest.raises(Unavailable, match="the task store at"):
            await stub.schedule(request("during"))
        hsc = HSCStub(open_channel(hsc_address))
        with pytest.raises(Unavailable, match="the task store at"):
            await hsc.heartbeat(
                h.HeartbeatRequest(executor_id="e1", claims=[h.HeldClaim(claim=t.ClaimRef(task_id="0-a"))])
            )
        await store.start()
        assert not (await until_served(stub, "after")).existed
        assert (await stub.schedule(request("before"))).existed
        with contextlib.suppress(ClaimsPaused):
            await hsc.next_claims(asks(repeated=True))
        await stub.channel.close()
        await hsc.channel.close()


async def test_a_port_in_use_ends_with_2_and_says_what_to_do(store: EmbeddedStore) -> None:
    async with running("frontend", store.url) as (_, address):
        process = await start("hsc", address, store.url)
        said = await line(process, "can't go on")
        assert f"port {address.rpartition(':')[2]} is in use" in said["error"]
        assert "--listen" in said["error"]
        assert await end(process) == 2


async def test_a_store_of_another_number_of_partitions_ends_with_4(store: EmbeddedStore) -> None:
    async with running("frontend", store.url):
        pass
    code = CODE.format(imports=RUN["frontend"]).replace("partitions=2", "partitions=3")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code, "127.0.0.1:0", store.url), stderr=PIPE
    )
    said = await line(process, "can't go on")
    assert "was made with 2 partitions" in said["error"]
    assert said["kind"] == FailedPrecondition.__name__
    assert await end(process) == 4
