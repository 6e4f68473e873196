"""A rolling deploy that renames a parameter, on real processes: hosts of both releases run at once, and tasks of both come all along."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atf.client import AsyncClient

from .test_pools import another_host, said
from .test_up import results, running, schedule

pytestmark = pytest.mark.timeout(300)

APP = """
import atf

app = atf.App("shop")

@app.task(max_attempts=1)
def paint({parameter}: str) -> str:
    return "{parameter}"
"""
EACH = 60


def check(env: dict[str, str], address: str) -> tuple[int, Any]:
    """What `atf lambda check` says of a release, and its exit code."""
    command = [sys.executable, "-P", "-m", "atf.cli", "lambda", "check", "shop:app", "--against", address, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    return ran.returncode, json.loads(ran.stdout)


async def test_both_releases_run_what_fits_them_and_nothing_fails(tmp_path: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    envs = {}
    for parameter in ("color", "colour"):
        folder = tmp_path / parameter
        folder.mkdir()
        (folder / "shop.py").write_text(APP.format(parameter=parameter), encoding="utf-8")
        path = os.pathsep.join(filter(None, [ours.get("PYTHONPATH"), str(folder)]))
        envs[parameter] = {**ours, "ATF_CONFIG": str(tmp_path / "atf.toml"), "PYTHONPATH": path}
    async with running(tmp_path, envs["color"]) as cluster:
        address = cluster.frontend_address
        assert await results(address, [await schedule(address, "shop/paint", {"color": "red"})], 90) == ["color"]
        early = await schedule(address, "shop/paint", {"colour": "red"})
        explained = await said(cluster, ["explain", early], lambda found: found["reason"] == "misfit")
        assert "colour" in explained["sentence"]
        code, found = await asyncio.to_thread(check, envs["color"], address)
        assert (code, [each["example"] for each in found["unfit"]]) == (1, [early])
        assert await asyncio.to_thread(check, envs["colour"], address) == (0, {"read": 1, "unfit": []})
        async with another_host(cluster, envs["colour"]):
            asked = ["color", "colour"] * EACH
            async with AsyncClient(address) as client:
                handles = [await client.schedule("shop/paint", {each: "red"}) for each in asked]
            ran = await results(address, [early, *(each.id for each in handles)], 90)
            assert ran == ["colour", *asked]
            hosts = await said(cluster, ["host"], lambda found: all(each["signatures"] for each in found))
            assert [len(each["signatures"]["shop/paint"]) for each in hosts] == [1, 1]
