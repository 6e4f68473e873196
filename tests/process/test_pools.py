"""Two hosts as real processes: one without a pool, and one of a pool of its own that quarantines what keeps killing its executors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from atf.cli.local.cluster import Cluster

from .roles import end, line_of
from .test_up import results, running, schedule

pytestmark = pytest.mark.timeout(300)

APP = """
import os
import atf

app = atf.App("shop")

@app.task(pool="gpu")
def render() -> str:
    return os.environ["HOST"]

@app.task
def mail() -> str:
    return os.environ["HOST"]

@app.task(pool="gpu", max_losses=100)
def crash() -> None:
    os._exit(3)
"""


@contextlib.asynccontextmanager
async def another_host(cluster: Cluster, env: dict[str, str], *more: str) -> AsyncIterator[str]:
    """A controller beside the cluster's own, with an executor; answers its address. It has to end in order."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atf.cli", "controller", "--listen", "127.0.0.1:0", "--log-format", "json"),
        *("--drain-timeout", "1"),
        *("--hsc", cluster.addresses["hsc"], "--frontend", cluster.frontend_address, *more, "shop:app"),
        stdin=DEVNULL,
        stderr=PIPE,
        env=env,
    )
    try:
        yield (await line_of(process, "controller", "ready"))["address"]
    finally:
        if process.returncode is None:
            process.terminate()
        code = await end(process, within=60)
    assert code == 0


async def said(cluster: Cluster, words: list[str], enough: Callable[[Any], bool]) -> Any:
    """What a command prints with --json, once that is enough."""
    command = [sys.executable, "-P", "-m", "atf.cli", *words, "--json", "--frontend", cluster.frontend_address]
    printed: Any = None
    try:
        async with asyncio.timeout(90):
            while printed is None or not enough(printed):
                ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
                assert ran.returncode == 0, ran.stderr
                printed = json.loads(ran.stdout)
    except TimeoutError:
        raise AssertionError(f"atf {' '.join(words)} says for 90 s only {printed}") from None
    return printed


@pytest.mark.long
async def test_a_lambda_runs_in_its_pool_alone_and_only_what_kills_its_executors_is_quarantined_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [ours.get("PYTHONPATH"), str(tmp_path)]))
    env = {**ours, "ATF_CONFIG": str(tmp_path / "atf.toml"), "PYTHONPATH": path}
    async with running(tmp_path, {**env, "HOST": "plain"}) as cluster:
        address = cluster.frontend_address

        async def run(name: str, count: int) -> set[str]:
            """Where they ran."""
            ids = [await schedule(address, name, {}) for _ in range(count)]
            return set(await results(address, ids, 90))

        waiting = await schedule(address, "shop/render", {})
        assert await run("shop/mail", 3) == {"plain"}
        explained = await said(
            cluster,
            ["explain", waiting],
            lambda found: (found["task"]["status"], found["reason"]) == ("ENQUEUED", "no_pool"),
        )
        assert "runs in the pool gpu alone, and no live worker belongs to it" in explained["sentence"]

        async with another_host(cluster, {**env, "HOST": "gpu"}, "--pool", "gpu"):
            assert await results(address, [waiting], 90) == ["gpu"]
            assert await run("shop/render", 8) == {"gpu"}
            assert await run("shop/mail", 8) == {"plain"}

            crashing = await schedule(address, "shop/crash", {})
            hosts = await said(cluster, ["host"], lambda found: any(each["quarantined"] for each in found))
            assert {each["pool"]: list(each["quarantined"]) for each in hosts} == {"default": [], "gpu": ["shop/crash"]}
            await said(cluster, ["explain", crashing], lambda found: found["reason"] == "quarantined")
            assert await run("shop/render", 8) == {"gpu"}
            assert await run("shop/mail", 8) == {"plain"}
