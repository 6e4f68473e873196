"""A store that is deleted under its roles, and brought back from an export while they go on."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

from atf.cli import main
from atf.cli.remote import connect
from atf.embedded import DataDir
from atf.rpc import frontend_pb2 as f

from .test_up import results, running, schedule

pytestmark = pytest.mark.timeout(120)

APP = """
import os, time
import atf

app = atf.App("shop")

@app.task()
def note(ctx: atf.Context, name: str, path: str, until: str = "") -> str:
    with open(path, "ab", buffering=0) as file:
        while True:
            file.write(f"{name} {ctx.fence} {time.monotonic_ns()}\\n".encode())
            if not until or os.path.exists(until):
                return name
            time.sleep(0.01)
"""
TIMES = {
    "ATF_HEARTBEAT_INTERVAL": "0.2",
    "ATF_RPC_DEADLINE": "1",
    "ATF_KILL_TIME": "0.5",
    "ATF_PAUSE": "0.5",
    "ATF_HEARTBEAT_TIMEOUT": "5.5",
}


def notes(path: Path) -> list[tuple[str, int, int]]:
    """(name, fence, when) of every sign of life of a run, in their order."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [(name, int(fence), int(at)) for name, fence, at in (line.split() for line in lines)]


async def until(path: Path, wanted: set[str]) -> None:
    async with asyncio.timeout(20):
        while not wanted <= {name for name, _, _ in notes(path)}:
            await asyncio.sleep(0.02)


async def losses(address: str, ids: dict[str, str]) -> dict[str, int]:
    """How often each task lost its executor, by the names of the tasks."""
    async with connect(address) as stub:
        return {name: (await stub.get_task(f.GetTaskRequest(id=each))).losses for name, each in ids.items()}


async def test_every_due_task_runs_and_what_may_have_run_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    runs, data = tmp_path / "runs", tmp_path / "data"
    for name, value in {"ATF_FREE_PORTS": "true", "ATF_CONFIG": str(tmp_path / "atf.toml"), **TIMES}.items():
        monkeypatch.setenv(name, value)

    async def plan(address: str, *names: str, until: str = "", delay: float = 0) -> dict[str, str]:
        payloads: list[dict[str, Any]] = [{"name": name, "path": str(runs), "until": until} for name in names]
        return {each["name"]: await schedule(address, "shop/note", each, delay) for each in payloads}

    async def atf(*arguments: str) -> dict[str, int]:
        capfd.readouterr()
        assert await asyncio.to_thread(main, ["store", *arguments, "--json"]) == 0
        found: dict[str, int] = json.loads(capfd.readouterr().out.splitlines()[-1])
        return found

    async with running(tmp_path, dict(os.environ), executors=2) as cluster:
        address = cluster.frontend_address
        announced = DataDir(data).announced()
        assert announced is not None
        url = announced["redis_url"]
        done = await plan(address, *(f"done{number}" for number in range(5)))
        await results(address, list(done.values()), 20)
        running_then = await plan(address, "long", until=str(tmp_path / "enough"))
        await until(runs, {"long"})
        # This also loads what an export needs, which takes seconds on a busy machine: not while what is due soon waits.
        assert (await atf("export", str(tmp_path / "earlier"), "--redis-url", url, "--partitions", "1"))["tasks"] == 1
        soon = await plan(address, *(f"soon{number}" for number in range(5)), delay=4)
        later = await plan(address, *(f"later{number}" for number in range(5)), delay=14)

        assert (await atf("export", str(tmp_path / "backup"), "--redis-url", url, "--partitions", "1"))["tasks"] == 11
        await plan(address, "lost", delay=60)  # accepted after the backup
        await until(runs, set(soon))
        await results(address, list(soon.values()), 20)
        with redis.Redis.from_url(url) as client:
            client.flushall()
            client.function_flush()
        deleted_ns = time.monotonic_ns()
        earlier = {(name, fence) for name, fence, _ in notes(runs)}
        said = await atf(
            "import",
            str(tmp_path / "backup"),
            "--yes",
            "--redis-url",
            url,
            "--partitions",
            "1",
            "--ran",
            str(tmp_path / "ran"),
        )

        assert (said["stored"], said["present"], said["may_have_run"]) == (11, 0, 6)
        listed = [json.loads(line) for line in (tmp_path / "ran").read_text("utf-8").splitlines()]
        assert {each["id"]: each["why"] for each in listed} == {
            **dict.fromkeys(soon.values(), "due"),
            running_then["long"]: "held",
        }
        expected = {**running_then, **soon, **later}
        before = await losses(address, expected)
        async with asyncio.timeout(20):
            while not any(name == "long" and (name, fence) not in earlier for name, fence, _ in notes(runs)):
                await asyncio.sleep(0.02)
        (tmp_path / "enough").touch()
        assert sorted(await results(address, list(expected.values()), 40)) == sorted(expected)
        lost = await losses(address, expected)

    fences: dict[str, list[int]] = {}
    for name, fence, _ in notes(runs):
        fences.setdefault(name, []).append(fence)
    assert all(each == sorted(each) for each in fences.values()), (
        "two runs of a task at the same time, or a token again"
    )
    began = {(name, fence): at for name, fence, at in reversed(notes(runs))}
    since = Counter(name for (name, _), at in began.items() if at > deleted_ns)
    assert set(since) == set(expected)
    # Each once; but a slow machine may cost an executor three heartbeats, which ends it, and its task runs again.
    assert all(since[name] <= 1 + lost[name] - before[name] for name in expected), (since, before, lost)
