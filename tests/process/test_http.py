"""Tasks without any code of the user's, on real processes: `atf/http` calls a service at every tick of a job, `atf/command` runs programs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import atf
from atf.builtin import http_request
from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings

pytestmark = pytest.mark.timeout(120)


class Service:
    """Is unavailable for the first request, and then keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[tuple[float, dict[str, str]]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.got.append((asyncio.get_running_loop().time(), dict(request.headers)))
        if len(self.got) == 1:
            return web.Response(status=503, headers={"Retry-After": "1"})
        return web.json_response({"ok": True})

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.got) < count:
                await asyncio.sleep(0.02)


@pytest.fixture
async def service() -> AsyncIterator[tuple[Service, str]]:
    app, service = web.Application(), Service()
    app.router.add_route("*", "/ping", service.handle)
    async with TestServer(app, host="127.0.0.1") as server:
        yield service, f"http://127.0.0.1:{server.port}/ping"


async def run_programs(client: atf.AsyncClient) -> None:
    """One that ends well, one that takes too long, and one that is not allowed."""
    slow = await client.schedule("atf/command", {"argv": ["/bin/sleep", "60"]}, timeout=0.1, max_attempts=1)
    good = await client.schedule("atf/command", {"argv": ["echo", "$HOME", "a b"]})
    assert await good.result_async(timeout=30) == {
        "result": {"stdout": "$HOME a b\n", "exit_code": 0},
        "function_invocation": "echo '$HOME' 'a b'",
        "arguments": ["echo", "$HOME", "a b"],
    }
    with pytest.raises(atf.TaskFailed, match=r"timed out after 0\.1 s"):
        await slow.result_async(timeout=30)
    other = await client.schedule("atf/command", {"argv": ["/bin/sh", "-c", "id"]})
    with pytest.raises(atf.TaskFailed, match="'/bin/sh' is not allowed here"):
        await other.result_async(timeout=30)


async def test_a_job_calls_a_service_and_waits_as_long_as_it_is_told(
    tmp_path: Path, service: tuple[Service, str]
) -> None:
    target, url = service
    said: list[str] = []
    (tmp_path / "shop.py").write_text("import atf\n\napp = atf.App('shop')\n", encoding="utf-8")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [ours.get("PYTHONPATH"), str(tmp_path)]))
    env = {**ours, "ATF_CONFIG": str(tmp_path / "atf.toml"), "PYTHONPATH": path}
    settings = ClusterSettings(
        data_dir=str(tmp_path / "data"),
        free_ports=True,
        http_allow=url.split("/")[2],
        command_allow="echo=/bin/echo,/bin/sleep",
    )
    cluster = Cluster(settings, ["shop:app"], env=env, say=lambda name, line: said.append(f"{name} | {line}"))
    async with cluster, atf.AsyncClient(cluster.frontend_address) as client:
        await client.schedule_job(
            "shop/ping", http_request(url, body={"n": 1}), "@every 1s", due_time=timedelta(milliseconds=10)
        )
        await target.until(3)
        elsewhere = await client.schedule("atf/http", {"url": "http://localhost:1/x", "timeout": 5})
        with pytest.raises(atf.TaskFailed, match="localhost:1 is not allowed"):
            await elsewhere.result_async(timeout=30)
        await run_programs(client)
    (first_at, first), (second_at, second), (_, third) = target.got[:3]
    assert second_at - first_at >= 1
    assert first["Idempotency-Key"] == second["Idempotency-Key"] != third["Idempotency-Key"]
    assert [each["ATF-Attempt"] for each in (first, second, third)] == ["1", "2", "1"]
    assert [each["ATF-Tick"] for each in (first, second, third)] == ["1", "1", "2"]
    assert {each["ATF-Job"] for each in (first, second, third)} == {"shop/ping"}
    assert not [line for line in said if "nclosed" in line or "Traceback" in line], said
