"""Roles and the settings of their store, as processes: what they refuse, wait for and say; and all of it as the user that ships."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient
from atf.demo.record import DIRECTORY
from atf.embedded import find_binary
from atf.store.servers.permissions import acl_user
from tests.store.servers import Server, running

from . import kills
from .roles import end, line

pytestmark = pytest.mark.timeout(180)

HERE = Path(__file__).parent
SOUND = {"appendonly": "yes", "appendfsync": "always", "maxmemory": "1gb"}
HSC = """
import sys
from atf.process import store_watch
from atf.config.settings import HscSettings, LogSettings, SecuritySettings, StoreSettings, Timing
from atf.hsc.main import main
store_watch.LOOK_AGAIN_S = 0.05
store = StoreSettings(redis_url=sys.argv[1], partitions=2)
timing = Timing(heartbeat_timeout=float(sys.argv[2]))
raise SystemExit(main(HscSettings(listen="127.0.0.1:0"), store, timing, LogSettings(log_format="json"), SecuritySettings()))
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with running(str(find_binary().path)) as started:
        yield started


@pytest.fixture
def real(server: Server) -> Iterator[Any]:
    with server.client() as client:
        for name, value in SOUND.items():
            client.config_set(name, value)
        yield client


async def python(*arguments: str, **environment: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", *arguments), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=ours() | environment
    )


def ours() -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [found.get("PYTHONPATH"), str(HERE.parents[1])]))
    return {**found, "PYTHONPATH": path, "ATF_CONFIG": str(HERE / "none.toml"), "ATF_LOG_FORMAT": "json"}


async def hsc(server: Server, timeout: float = 16) -> Process:
    return await python("-c", HSC, server.url, str(timeout))


async def test_a_role_waits_for_a_store_that_evicts_and_says_what_goes_wrong_later(server: Server, real: Any) -> None:
    real.config_set("maxmemory-policy", "allkeys-lru")
    process = await hsc(server)
    assert "CONFIG SET maxmemory-policy noeviction" in (await line(process, "waiting"))["error"]
    real.config_set("maxmemory-policy", "noeviction")
    await line(process, "ready")
    real.config_set("maxmemory-policy", "allkeys-lfu")
    assert "would lose tasks" in (await line(process, "task store"))["warning"]
    real.config_set("maxmemory-policy", "noeviction")
    assert (await line(process, "task store is mended"))["check"] == "maxmemory-policy"
    process.terminate()
    assert await end(process) == 0


@pytest.mark.usefixtures("real")
async def test_a_role_with_another_timeout_does_not_start(server: Server) -> None:
    first = await hsc(server)
    await line(first, "ready")
    other = await hsc(server, 20)
    assert "atf store timing --set 20" in (await line(other, "can't go on"))["error"]
    assert await end(other) == 4
    first.terminate()
    assert await end(first) == 0


async def test_everything_runs_as_the_user_that_ships(server: Server, real: Any, tmp_path: Path) -> None:
    real.execute_command("ACL", "SETUSER", *acl_user("secret").split()[1:])
    url = f"unix://atf:secret@{server.socket}"
    (tmp_path / "record").mkdir()
    said: list[str] = []
    cluster = Cluster(
        ClusterSettings(redis_url=url, partitions=2, free_ports=True),
        ["tests.process.kills:app"],
        env=ours() | {DIRECTORY: str(tmp_path / "record")},
        say=lambda name, line: said.append(f"{name} | {line}"),
    )
    try:
        async with cluster, AsyncClient(cluster.frontend_address, timeout=30) as client:
            handles = await client.schedule_many([kills.short.prepare() for _ in range(40)])
            results = await asyncio.gather(*(each.result_async(timeout=30) for each in handles))
            assert len(results) == 40
            executor = await python(
                *("-m", "atf.cli", "executor", "tests.process.kills:app"),
                ATF_CONTROLLER=cluster.addresses["controller"],
                ATF_HSC=cluster.addresses["hsc"],
                ATF_FRONTEND=cluster.frontend_address,
                ATF_HEARTBEAT_TIMEOUT="20",
            )
            assert executor.stderr is not None
            _, errors = await asyncio.wait_for(executor.communicate(), 60)
            assert executor.returncode == 4
            assert b"heartbeat_timeout = 20 s, and this controller to 16 s" in errors

        assert real.execute_command("ACL", "LOG") == []  # nothing was denied
        doctor = await python("-m", "atf.cli", "doctor", "--redis-url", url, "--partitions", "2")
        out, errors = await asyncio.wait_for(doctor.communicate(), 60)
        assert (doctor.returncode, errors) == (0, b"")
        assert {row.split("\t")[0] for row in out.decode().splitlines()[1:]} == {"ok"}, out.decode()
    except BaseException:
        print("\n".join(said))
        raise
