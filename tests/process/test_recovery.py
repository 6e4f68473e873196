"""A store that is deleted under its roles, and brought back from an export while they go on."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from atf.cli import main
from atf.embedded import DataDir

from .test_up import results, running, schedule

pytestmark = pytest.mark.timeout(120)

APP = """
import time
import atf

app = atf.App("shop")

@app.task()
def note(ctx: atf.Context, name: str, path: str, seconds: float = 0) -> str:
    until = time.monotonic() + seconds
    with open(path, "ab", buffering=0) as file:
        while True:
            file.write(f"{name} {ctx.fence} {time.monotonic_ns()}\\n".encode())
            if time.monotonic() >= until:
                return name
            time.sleep(0.01)
"""
TIMES = {
    "ATF_HEARTBEAT_INTERVAL": "0.2",
    "ATF_RPC_DEADLINE": "0.5",
    "ATF_KILL_TIME": "0.5",
    "ATF_PAUSE": "0.5",
    "ATF_HEARTBEAT_TIMEOUT": "4",
}


def notes(path: Path) -> list[tuple[str, int, int]]:
    """(name, fence, when) of every sign of life of a run, in their order."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [(name, int(fence), int(at)) for name, fence, at in (line.split() for line in lines)]


async def until(path: Path, wanted: set[str]) -> None:
    async with asyncio.timeout(20):
        while not wanted <= {name for name, _, _ in notes(path)}:
            await asyncio.sleep(0.02)


async def test_every_due_task_runs_and_what_may_have_run_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    runs, data = tmp_path / "runs", tmp_path / "data"
    for name, value in {"ATF_FREE_PORTS": "true", "ATF_CONFIG": str(tmp_path / "atf.toml"), **TIMES}.items():
        monkeypatch.setenv(name, value)

    async def plan(address: str, *names: str, seconds: float = 0, delay: float = 0) -> dict[str, str]:
        payloads: list[dict[str, Any]] = [{"name": name, "path": str(runs), "seconds": seconds} for name in names]
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
        running_then = await plan(address, "long", seconds=4)
        soon = await plan(address, *(f"soon{number}" for number in range(5)), delay=1.5)
        later = await plan(address, *(f"later{number}" for number in range(5)), delay=11)
        await until(runs, {"long"})

        assert (await atf("export", str(tmp_path / "backup"), "--redis-url", url, "--partitions", "1"))["tasks"] == 11
        await plan(address, "lost", delay=60)  # accepted after the backup
        await until(runs, set(soon))
        await results(address, list(soon.values()), 20)
        with redis.Redis.from_url(url) as client:
            client.flushall()
            client.function_flush()
        deleted_ns = time.monotonic_ns()
        said = await atf(
            "import", str(tmp_path / "backup"), "--redis-url", url, "--partitions", "1", "--ran", str(tmp_path / "ran")
        )

        assert (said["stored"], said["present"], said["may_have_run"]) == (11, 0, 6)
        listed = [json.loads(line) for line in (tmp_path / "ran").read_text("utf-8").splitlines()]
        assert {each["id"]: each["why"] for each in listed} == {
            **dict.fromkeys(soon.values(), "due"),
            running_then["long"]: "held",
        }
        expected = {**running_then, **soon, **later}
        assert sorted(await results(address, list(expected.values()), 40)) == sorted(expected)

    fences: dict[str, list[int]] = {}
    for name, fence, _ in notes(runs):
        fences.setdefault(name, []).append(fence)
    assert all(each == sorted(each) for each in fences.values()), (
        "two runs of a task at the same time, or a token again"
    )
    began = {(name, fence): at for name, fence, at in reversed(notes(runs))}
    assert sorted(name for (name, _), at in began.items() if at > deleted_ns) == sorted(expected)  # each once
