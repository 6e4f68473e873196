"""A role that runs out of file descriptors says so."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the limit of another process")
async def test_a_role_without_descriptors_names_the_limit_and_does_not_blame_the_store() -> None:
    command = [sys.executable, "-P", "-m", "atf.cli", "frontend", "--listen", "127.0.0.1:0", "--log-format", "json"]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--redis-url",
        "redis://127.0.0.1:9/0",  # nobody is there: it goes on trying
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    said: list[dict[str, str]] = []
    try:
        async with asyncio.timeout(50):
            while not {"out of file descriptors", "waiting"} <= {
                each["event"] for each in said if "file desc" in each["error"]
            }:
                line = await process.stderr.readline()
                assert line, said
                said.append(json.loads(line))
                if said[-1]["event"] == "waiting":
                    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, 4096))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    limited = [each["error"] for each in said if "file desc" in each["error"]]
    assert all(f"process {process.pid} has used up its 3 file descriptors" in each for each in limited)
    assert not any("can't be reached" in each for each in limited)
