"""Frontend, HSC and store consumer on one port and one store; the pages beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import fakeredis
import pytest
from grpc_health.v1 import health_pb2

from atf.config.settings import (
    FrontendSettings,
    HscSettings,
    RoleSettings,
    StoreConsumerSettings,
    StoreSettings,
    Timing,
    UiSettings,
)
from atf.errors import ConfigError, FailedPrecondition
from atf.rpc import frontend_pb2 as f, hsc_pb2 as h, store_consumer_pb2 as s, task_pb2 as t
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub, HSCStub, StoreConsumerStub
from atf.runtime import SystemRuntime
from atf.server.roles import ServerRoles
from atf.store.store import Store

SPEC = f.LambdaSpec(name="photos/thumbnail")
REQUEST = f.ScheduleRequest(spec=t.TaskSpec(**{"lambda": SPEC.name}))  # type: ignore[arg-type]


@asynccontextmanager
async def serving(**consumer: bool) -> AsyncIterator[ServerRoles]:
    runtime, timing = SystemRuntime(), Timing()
    store = await Store.open(
        StoreSettings(partitions=2, push_when_scheduled=False), timing, runtime, fake=fakeredis.FakeServer()
    )
    settings = RoleSettings(
        frontend=FrontendSettings(listen="127.0.0.1:0"),
        hsc=HscSettings(),
        consumer=StoreConsumerSettings(**consumer),  # type: ignore[arg-type]
    )
    roles = ServerRoles(store, settings, timing, runtime)
    await roles.start(grace=0)
    try:
        yield roles
    finally:
        await roles.end()
        await store.close()


async def test_every_role_answers_on_one_port_and_a_task_that_is_scheduled_is_pushed() -> None:
    async with serving() as roles:
        channel = open_channel(roles.address)
        frontend, hsc = FrontendStub(channel), HSCStub(channel)
        await frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[SPEC]))
        task_id = (await frontend.schedule(REQUEST)).id
        async with asyncio.timeout(5):
            while (await frontend.get_task(f.GetTaskRequest(id=task_id))).status != t.ENQUEUED:
                await asyncio.sleep(0.01)
        verdicts = (await hsc.heartbeat(h.HeartbeatRequest(executor_id="one"))).verdicts
        assert list(verdicts) == []
        with pytest.raises(FailedPrecondition, match="does not know atf"):
            await StoreConsumerStub(channel).poll(s.PollRequest())
        await channel.close()


async def test_health_knows_every_service() -> None:
    async with serving() as roles:
        channel = open_channel(roles.address)
        for name in ("", "atf.v1.Frontend", "atf.v1.HSC", "store", "claims"):
            path = "/grpc.health.v1.Health/Check"
            asked = health_pb2.HealthCheckRequest(service=name)
            answer = await channel.call(path, asked, health_pb2.HealthCheckResponse, 5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
        await channel.close()


async def test_a_consumer_that_waits_for_requests_is_asked_on_the_same_port() -> None:
    async with serving(poll_on_request=True) as roles:
        channel = open_channel(roles.address)
        frontend, consumer = FrontendStub(channel), StoreConsumerStub(channel)
        await frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[SPEC]))
        await frontend.schedule(REQUEST)
        assert (await consumer.poll(s.PollRequest())).enqueued == 1
        await channel.close()


async def test_the_pages_ask_the_frontend_directly() -> None:
    async with serving() as roles:
        await roles.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[SPEC]))
        pages = await roles.serve_pages(UiSettings(listen="127.0.0.1:0"), lambda: True)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{pages}/lambdas/{SPEC.name}") as answer:
                assert "<h1>photos/thumbnail" in await answer.text()
            async with session.get(f"http://{pages}/readyz") as answer:
                assert answer.status == 200


async def test_pages_that_nobody_has_looked_at_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as roles:
        pages = await roles.serve_pages(UiSettings(listen="127.0.0.1:0"), lambda: True)
        with pytest.raises(ConfigError, match="can't listen on"):
            await roles.serve_pages(UiSettings(listen=pages), lambda: True)
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
        with pytest.raises(ConfigError, match="the pages need aiohttp: pip install"):
            await roles.serve_pages(UiSettings(listen="127.0.0.1:0"), lambda: True)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{pages}/")
