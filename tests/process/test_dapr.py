"""Dapr's APIs on real processes: an application of Dapr's makes a job, its tick comes to its callback, also where it has moved to."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.wrappers_pb2 import StringValue

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient
from atf.errors import Internal
from atf.rpc import dapr_runtime_pb2 as d
from atf.rpc.server import Service, serve
from atf.task import Status

pytestmark = pytest.mark.timeout(120)

APP = """
import atf

app = atf.App("mine")
"""
CALLBACK = d.DESCRIPTOR.services_by_name["AppCallback"]


class Application:
    """An application that fails once, and can move."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, AnyMessage, str]] = []
        self.came = asyncio.Event()
        self._where = ""
        self._failures = 1

    async def on_job_event(self, request: d.JobEventRequest) -> d.JobEventResponse:
        if request.name == "broken":
            raise Internal("never")
        if request.name == "report" and self._failures:
            self._failures -= 1
            raise Internal("not this time")
        self.heard.append((request.name, request.data, self._where))
        self.came.set()
        return d.JobEventResponse()

    async def listen(self, servers: AsyncExitStack) -> str:
        """Where it listens from now on."""
        service = Service(CALLBACK, self, name="dapr.proto.runtime.v1.AppCallback")
        server = await serve("127.0.0.1:0", [service])
        servers.push_async_callback(server.stop, 0)
        self._where = server.address
        return server.address

    async def until_heard(self, name: str, where: str) -> AnyMessage:
        async with asyncio.timeout(60):
            while True:
                for heard, data, at in self.heard:
                    if (heard, at) == (name, where):
                        return data
                self.came.clear()
                await self.came.wait()


def configure(folder: Path, address: str) -> None:
    settings = f'dapr_app = "orders={address}"\ndapr_http = "127.0.0.1:0"\n'
    (folder / "atf.toml").write_text(f"[frontend]\n{settings}", encoding="utf-8")


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Cluster]:
    (folder / "mine.py").write_text(APP, encoding="utf-8")
    said: list[str] = []
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [ours.get("PYTHONPATH"), str(folder)]))
    env = {**ours, "ATF_CONFIG": str(folder / "atf.toml"), "PYTHONPATH": path}
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True)
    cluster = Cluster(settings, ["mine:app"], env=env, say=lambda name, line: said.append(f"{name} | {line}"))
    try:
        async with cluster:
            yield cluster
    except BaseException:
        print("\n".join(said))
        raise


async def schedule(cluster: Cluster, job: d.Job) -> None:
    async with grpc.aio.insecure_channel(cluster.frontend_address) as channel:
        call = channel.unary_unary("/dapr.proto.runtime.v1.Dapr/ScheduleJob")
        request = d.ScheduleJobRequest(job=job)
        await call(request.SerializeToString(), metadata=(("dapr-app-id", "orders"),), timeout=30)


def ready(cluster: Cluster) -> int:
    with urllib.request.urlopen(f"http://{cluster.dapr_http}/v1.0/healthz/outbound", timeout=30) as answer:
        return int(answer.status)


async def fatal(cluster: Cluster) -> list[str]:
    """What is kept of the ticks that failed for good, once there are any."""
    async with AsyncClient(cluster.frontend_address) as client, asyncio.timeout(60):
        while not (found := await client.list("atf/dapr-job", Status.FATAL_FAILURE)):
            await asyncio.sleep(0.05)
        return [each.error for each in found]


async def test_a_tick_comes_to_the_application_after_a_failure_and_finds_it_where_it_moved(tmp_path: Path) -> None:
    application = Application()
    async with AsyncExitStack() as servers:
        first = await application.listen(servers)
        configure(tmp_path, first)
        async with running(tmp_path) as cluster:
            assert await asyncio.to_thread(ready, cluster) == 204
            data = AnyMessage()
            data.Pack(StringValue(value="x"))
            constant = d.JobFailurePolicyConstant(interval=Duration(nanos=200_000_000), max_retries=90)
            policy = d.JobFailurePolicy(constant=constant)
            drop = d.JobFailurePolicy(drop=d.JobFailurePolicyDrop())
            await schedule(cluster, d.Job(name="steady", schedule="@every 1s", failure_policy=policy))
            await schedule(cluster, d.Job(name="broken", due_time="0s", failure_policy=drop))
            await schedule(cluster, d.Job(name="report", due_time="0s", data=data, failure_policy=policy))
            assert await application.until_heard("report", first) == data
            await application.until_heard("steady", first)
            assert await fatal(cluster) == [f"the app 'orders' at {first} answered INTERNAL: never"]
            await servers.aclose()
            elsewhere = await application.listen(servers)
            configure(tmp_path, elsewhere)
            await cluster.halt("frontend")
            await cluster.resume("frontend")
            await application.until_heard("steady", elsewhere)
