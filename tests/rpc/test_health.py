"""Health with details: each is looked at when it is asked for, and says why where it is not well."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from atf.rpc.health import MAX_WHY_BYTES, WHY, Detail, detail_of
from atf.rpc.server import serve

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def ask(details: dict[str, Detail], service: str) -> tuple[int, str]:
    """What health says of a service, and why."""
    server = await serve("127.0.0.1:0", [], details=details)
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            call = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
            status = int((await call).status)
            said: dict[str, Any] = dict(await call.trailing_metadata() or ())
            return status, said.get(WHY, "")
    finally:
        await server.stop(0)


async def test_a_detail_is_well_or_says_why_not() -> None:
    why = ""
    details = {"executors": detail_of(lambda: why)}
    assert await ask(details, "executors") == (SERVING, "")
    assert await ask(details, "") == (SERVING, "")
    why = "no executor can start: shop.py line 3"
    assert await ask(details, "executors") == (NOT_SERVING, why)


async def test_what_a_detail_says_is_one_line_of_ascii_and_not_long() -> None:
    details = {"executors": detail_of(lambda: "zwei\nZeilen: é" + "x" * 5_000)}
    status, why = await ask(details, "executors")
    assert status == NOT_SERVING
    assert why.startswith("zwei\\nZeilen: \\xe9")
    assert why.isascii()
    assert len(why) <= MAX_WHY_BYTES + 100


async def test_a_detail_that_nobody_has_is_not_known() -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await ask({}, "executors")
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
