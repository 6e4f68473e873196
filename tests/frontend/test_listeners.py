"""What a frontend listens on: one gRPC port for its own API and Dapr's, an HTTP port where it is asked for, all of it or nothing."""

from __future__ import annotations

from typing import Any

import aiohttp
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from atf.config.settings import FrontendSettings, Timing
from atf.errors import ConfigError
from atf.frontend import listeners
from atf.frontend.dapr.scheduler import SchedulerService
from atf.frontend.listeners import Listeners
from atf.rpc import dapr_runtime_pb2 as d, frontend_pb2 as f
from atf.rpc.channel import open_channel
from atf.rpc.listen_address import free_address
from atf.rpc.server import Server, serve
from atf.rpc.stubs import FrontendStub

from .conftest import Bench


async def opened(bench: Bench, **fields: str) -> Listeners:
    settings = FrontendSettings(**{"listen": "127.0.0.1:0", "dapr_app_id": "orders", **fields})  # type: ignore[arg-type]
    scheduler = SchedulerService(frontend=bench.frontend, store=bench.store, timing=Timing(), runtime=bench.clock)
    return await Listeners.open(bench.frontend, scheduler, settings, grace=1)


@pytest.mark.parametrize("method", ["ScheduleJob", "ScheduleJobAlpha1"])
async def test_both_apis_are_on_one_port(bench: Bench, method: str) -> None:
    both = await opened(bench)
    assert both.dapr_http == ""
    async with grpc.aio.insecure_channel(both.address) as channel:
        request = d.ScheduleJobRequest(job=d.Job(name="report", schedule="@daily"))
        path = f"/dapr.proto.runtime.v1.Dapr/{method}"
        await channel.unary_unary(path)(request.SerializeToString())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(path)(request.SerializeToString(), metadata=(("dapr-app-id", "orders"),))
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        asked = health_pb2.HealthCheckRequest(service="dapr.proto.runtime.v1.Dapr")
        assert (await health_pb2_grpc.HealthStub(channel).Check(asked)).status == health_pb2.HealthCheckResponse.SERVING
    stub = FrontendStub(open_channel(both.address))
    assert [each.spec.name for each in (await stub.list_jobs(f.ListJobsRequest())).jobs] == ["dapr.orders/report"]
    await stub.channel.close()
    await both.close()


async def test_the_http_port_opens_where_it_is_asked_for_and_closes_with_the_rest(bench: Bench) -> None:
    both = await opened(bench, dapr_http="127.0.0.1:0")
    url = f"http://{both.dapr_http}/v1.0/healthz/outbound"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert answer.status == 204
        await both.close()
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)


async def test_nothing_is_left_open_where_one_of_the_ports_is_taken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened(bench, dapr_http="127.0.0.1:0")
    begun: list[Server] = []

    async def noted(*given: Any, **more: Any) -> Server:
        begun.append(await serve(*given, **more))
        return begun[0]

    monkeypatch.setattr(listeners, "serve", noted)
    with pytest.raises(ConfigError, match="--dapr-http"):
        await opened(bench, dapr_http=first.dapr_http)
    assert await free_address(begun[0].address), "the gRPC port is free again"
    await first.close()
