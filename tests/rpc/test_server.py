"""What every server of ours has: health, reflection, a clear refusal of a taken port."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from atf.errors import ConfigError, Internal, Unavailable
from atf.metrics.metrics import Histogram, Metrics
from atf.metrics.table import RPC_REQUESTS, RPC_SECONDS
from atf.rpc import hsc_pb2 as h
from atf.rpc.channel import open_channel
from atf.rpc.listen_address import split_address
from atf.rpc.server import Service, serve
from atf.rpc.stub import snake_case
from atf.rpc.stubs import HSCStub

HSC = h.DESCRIPTOR.services_by_name["HSC"]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Idle:
    """An HSC that is never called."""

    async def _unused(self, request: object) -> object:
        raise AssertionError(request)

    next_claims = report_host = heartbeat = set_results = hand_back = report_loss = first_time = issue_credential = (
        _unused
    )


async def test_health_follows_the_role() -> None:
    server = await serve("127.0.0.1:0", [Service(HSC, Idle())], serving=False)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        async def status(service: str) -> int:
            return int((await stub.Check(health_pb2.HealthCheckRequest(service=service))).status)

        for name in ("", "atf.v1.HSC"):
            assert await status(name) == NOT_SERVING
        await server.set_serving(True)
        for name in ("", "atf.v1.HSC"):
            assert await status(name) == SERVING
        await server.set_serving(False)
        for name in ("", "atf.v1.HSC"):
            assert await status(name) == NOT_SERVING
    await server.stop(0)


async def test_reflection_names_the_services_and_shows_their_messages() -> None:
    server = await serve("127.0.0.1:0", [Service(HSC, Idle())])
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        ask = reflection_pb2.ServerReflectionRequest
        requests = [
            ask(list_services=""),
            ask(file_containing_symbol="atf.v1.HSC"),
            ask(file_containing_symbol="google.rpc.ErrorInfo"),
        ]
        services, file, details = [answer async for answer in stub.ServerReflectionInfo(iter(requests))]
        assert "atf.v1.HSC" in {each.name for each in services.list_services_response.service}
        assert b"NextClaimsRequest" in b"".join(file.file_descriptor_response.file_descriptor_proto)
        assert details.file_descriptor_response.file_descriptor_proto
    await server.stop(0)


async def test_port_0_takes_a_free_port_and_says_which() -> None:
    server = await serve("127.0.0.1:0", [])
    assert server.port > 0
    assert server.address == f"127.0.0.1:{server.port}"
    await server.stop(0)


async def test_a_port_in_use_is_refused_with_what_to_do() -> None:
    first = await serve("127.0.0.1:0", [])
    with pytest.raises(ConfigError, match=rf"port {first.port} is in use by another process.*--listen HOST:PORT"):
        await serve(first.address, [])
    await first.stop(0)


async def test_a_port_is_free_again_once_its_server_has_stopped() -> None:
    first = await serve("127.0.0.1:0", [])
    await first.stop(0)
    second = await serve(first.address, [])
    await second.stop(0)


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"can't listen on 192\.0\.2\.1:0: Cannot assign requested address"):
        await serve("192.0.2.1:0", [])


async def test_a_name_without_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"can't listen on no-such-host\.invalid:0"):
        await serve("no-such-host.invalid:0", [])


async def test_a_name_of_several_addresses_needs_one_that_works() -> None:
    server = await serve("localhost:0", [])
    assert server.port > 0
    await server.stop(0)


@pytest.mark.parametrize("listen", ["", "7401", ":7401", "host:", "host:x", "host:70000", "host:-1"])
def test_an_address_must_be_host_and_port(listen: str) -> None:
    with pytest.raises(ConfigError, match="write host:port"):
        split_address(listen)


def test_an_ipv6_address_keeps_its_brackets() -> None:
    assert split_address("[::1]:7401") == ("[::1]", 7401)


def test_methods_are_called_by_their_python_names() -> None:
    assert [snake_case(name) for name in ("Schedule", "ScheduleMany", "NextWork")] == [
        "schedule",
        "schedule_many",
        "next_work",
    ]


class Refusing(Idle):
    """An HSC that answers heartbeats, knows no claim, and has a bug."""

    async def heartbeat(self, _request: object) -> h.HeartbeatReply:
        return h.HeartbeatReply()

    async def next_claims(self, _request: object) -> h.NextClaimsReply:
        raise Unavailable("the store is away")


async def test_calls_are_counted_and_timed_by_method_and_code() -> None:
    metrics = Metrics()
    server = await serve("127.0.0.1:0", [Service(HSC, Refusing())], metrics=metrics)
    stub = HSCStub(open_channel(server.address))
    await stub.heartbeat(h.HeartbeatRequest())
    await stub.heartbeat(h.HeartbeatRequest())
    with pytest.raises(Unavailable):
        await stub.next_claims(h.NextClaimsRequest())
    with pytest.raises(Internal):
        await stub.first_time(h.FirstTimeRequest())
    await stub.channel.close()
    await server.stop(0)

    expected = {("Heartbeat", "OK"): 2, ("NextClaims", "UNAVAILABLE"): 1, ("FirstTime", "INTERNAL"): 1}
    assert dict(metrics.values(RPC_REQUESTS)) == expected
    timed = {labels[0]: sum(each.counts) for labels, each in metrics.values(RPC_SECONDS) if isinstance(each, Histogram)}
    assert timed == {"Heartbeat": 2, "NextClaims": 1, "FirstTime": 1}
