"""Frontends as Dapr's scheduler service, on real processes: plain gRPC clients, and one frontend killed while a watcher has a trigger."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import dapr_scheduler_pb2 as d

from .roles import end, line

pytestmark = pytest.mark.timeout(120)

SERVICE = "/dapr.proto.scheduler.v1.Scheduler/"
LEASE_S = 2.5
TIMES = {
    "ATF_HEARTBEAT_INTERVAL": "0.2",
    "ATF_RPC_DEADLINE": "0.3",
    "ATF_KILL_TIME": "0.2",
    "ATF_PAUSE": "0.3",
    "ATF_HEARTBEAT_TIMEOUT": f"{LEASE_S:g}",
}
OF = d.JobMetadata(app_id="billing", namespace="prod", target=d.JobTargetMetadata(job=d.TargetJob()))


@contextlib.asynccontextmanager
async def role(name: str, url: str, *flags: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    ours = {key: value for key, value in os.environ.items() if not key.startswith("ATF_")}
    env = {
        **ours,
        **TIMES,
        "ATF_REDIS_URL": url,
        "ATF_PARTITIONS": "2",
        "ATF_LOG_FORMAT": "json",
        "ATF_CONFIG": "/none",
    }
    command = [sys.executable, "-P", "-m", "atf.cli", name, "--listen", "127.0.0.1:0", *flags]
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stderr=PIPE, env=env)
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


async def call(channel: Any, method: str, request: Any, reply: Any) -> Any:
    rpc = channel.unary_unary(SERVICE + method, request.__class__.SerializeToString, reply.FromString)
    return await rpc(request, timeout=10)


async def watch(channel: Any) -> Any:
    stream = channel.stream_stream(
        SERVICE + "WatchJobs", d.WatchJobsRequest.SerializeToString, d.WatchJobsResponse.FromString
    )()
    await stream.write(d.WatchJobsRequest(initial=d.WatchJobsRequestInitial(app_id="billing", namespace="prod")))
    return stream


async def acknowledge(stream: Any, trigger: d.WatchJobsResponse, status: Any = d.SUCCESS) -> None:
    await stream.write(d.WatchJobsRequest(result=d.WatchJobsRequestResult(id=trigger.id, status=status)))


async def test_a_trigger_outlives_the_frontend_whose_watcher_had_it(store: EmbeddedStore) -> None:
    async with contextlib.AsyncExitStack() as stack:
        started = [role("frontend", store.url), role("frontend", store.url), role("store-consumer", store.url)]
        (first, first_at), (second, second_at), _ = await asyncio.gather(*map(stack.enter_async_context, started))
        one = await stack.enter_async_context(grpc.aio.insecure_channel(first_at))
        two = await stack.enter_async_context(grpc.aio.insecure_channel(second_at))

        # What a sidecar does when it starts: it asks for the hosts, and watches each.
        hosts = one.unary_stream(
            SERVICE + "WatchHosts", d.WatchHostsRequest.SerializeToString, d.WatchHostsResponse.FromString
        )(d.WatchHostsRequest())
        assert [each.address for each in (await hosts.read()).hosts] == [first_at]
        doomed = await watch(one)

        job = d.Job(schedule="@every 1h", due_time="0s", data={"type_url": "t", "value": b"\xff"})
        made = d.ScheduleJobRequest(name="backup", job=job, metadata=OF)
        await call(two, "ScheduleJob", made, d.ScheduleJobResponse)
        with pytest.raises(grpc.aio.AioRpcError) as taken:
            await call(two, "ScheduleJob", made, d.ScheduleJobResponse)
        assert taken.value.code() is grpc.StatusCode.ALREADY_EXISTS
        assert (await call(two, "GetJob", d.GetJobRequest(name="backup", metadata=OF), d.GetJobResponse)).job == job

        async with asyncio.timeout(30):
            trigger = await doomed.read()
            assert (trigger.name, trigger.data, trigger.metadata) == ("backup", job.data, OF)
            other = await watch(two)
            # Longer than a lease: the first frontend keeps it for its watcher.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(reading := asyncio.ensure_future(other.read())), LEASE_S + 0.5)
            killed = time.monotonic()
            first.kill()
            again = await reading
            assert time.monotonic() - killed < LEASE_S + 3
        assert (again.name, again.data, again.metadata) == ("backup", job.data, OF)
        with pytest.raises(grpc.aio.AioRpcError):
            await doomed.read()

        # A failed trigger comes again by the policy; an acknowledged one does not, and the stream ends with its frontend.
        await acknowledge(other, again, d.FAILED)
        async with asyncio.timeout(30):
            retried = await other.read()
            await acknowledge(other, retried)
            second.terminate()
            assert await other.read() is grpc.aio.EOF
            assert (await other.code(), await end(second)) == (grpc.StatusCode.OK, 0)
