"""Jobs on real processes, by the command line: declared with the code and made by hand, through a kill of the store consumer."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings

pytestmark = pytest.mark.timeout(120)

APP = """
import atf

app = atf.App("shop")

@app.task(schedule="@every 1s", job={"misfire": "all", "overlap": "allow"})
def beat(ctx: atf.Context, path: str = "PATH") -> None:
    with open(path, "a") as file:
        file.write(f"{ctx.tick} {ctx.scheduled_at.isoformat()}\\n")

@app.task
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture
def ticks(tmp_path: Path) -> Path:
    """Where the ticks of the code's job are written down."""
    (tmp_path / "shop.py").write_text(APP.replace("PATH", str(tmp_path / "ticks")), encoding="utf-8")
    return tmp_path / "ticks"


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Cluster]:
    said: list[str] = []
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    path = os.pathsep.join(filter(None, [ours.get("PYTHONPATH"), str(folder)]))
    env = {**ours, "ATF_CONFIG": str(folder / "atf.toml"), "PYTHONPATH": path}
    settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True)
    cluster = Cluster(settings, ["shop:app"], env=env, say=lambda name, line: said.append(f"{name} | {line}"))
    try:
        async with cluster:
            yield cluster
    except BaseException:
        print("\n".join(said))
        raise


async def atf(cluster: Cluster, *words: str, code: int = 0) -> Any:
    """What a command prints with --json; what it says where it fails."""
    command = [sys.executable, "-P", "-m", "atf.cli", *words, "--json", "--frontend", cluster.frontend_address]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else json.loads(done.stdout)


def lines_of(ticks: Path) -> list[str]:
    return ticks.read_text("utf-8").splitlines() if ticks.exists() else []


async def seen(ticks: Path, count: int) -> list[str]:
    async with asyncio.timeout(60):
        while len(lines_of(ticks)) < count:
            await asyncio.sleep(0.05)
    return lines_of(ticks)


async def test_a_job_of_the_code_ticks_through_a_kill_and_none_is_doubled_or_missing(
    tmp_path: Path, ticks: Path
) -> None:
    async with running(tmp_path) as cluster:
        await seen(ticks, 2)
        cluster.kill("store-consumer")
        lines = await seen(ticks, 8)
        job = await atf(cluster, "job", "get", "shop/beat")
        assert job["from_code"]
        assert job["skipped"] == 0
    numbers = sorted(int(line.split()[0]) for line in lines)
    assert numbers == list(range(1, len(lines) + 1))
    assert len({line.split()[1] for line in lines}) == len(lines)


async def test_a_job_is_made_seen_run_stopped_and_deleted_by_hand(tmp_path: Path, ticks: Path) -> None:
    async with running(tmp_path) as cluster:
        await seen(ticks, 1)  # the lambdas are registered
        made = await atf(cluster, "job", "schedule", "shop/sum", "shop/add", "@every 1h", "-a", "a=1", "-a", "b=2")
        assert (made["schedule"], made["ticks"], made["overlap"], made["misfire"]) == (
            "@every 1h",
            0,
            "queue",
            "latest",
        )
        ran = await atf(cluster, "job", "run", "shop/sum")
        (task,) = await atf(cluster, "wait", ran["id"])
        assert (task["status"], task["result"]) == ("SUCCESS", 3)
        assert [each["name"] for each in await atf(cluster, "job", "ls", "shop/s")] == ["shop/sum"]
        assert (await atf(cluster, "job", "pause", "shop/sum"))["paused"]
        assert not (await atf(cluster, "job", "resume", "shop/sum"))["paused"]
        taken = await atf(
            cluster, "job", "schedule", "shop/sum", "shop/add", "@daily", "-a", "a=1", "-a", "b=2", code=2
        )
        assert "overwrite" in taken
        wrong = await atf(
            cluster, "job", "schedule", "shop/x", "shop/add", "0 61 * * * *", "-a", "a=1", "-a", "b=2", code=2
        )
        sentence, place, mark = wrong.splitlines()
        assert "minute" in sentence
        assert place[mark.index("^") :].startswith("61")
        assert (await atf(cluster, "job", "rm", "shop/sum"))["deleted"] == 1
        assert "no job" in await atf(cluster, "job", "get", "shop/sum", code=3)
