"""A process that schedules may fork, as web servers do, and schedule on both sides: no hang, no crash, no wrong answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def frontend() -> Iterator[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", str(HERE / "fork_frontend.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(10)


@pytest.mark.parametrize("mode", ["idle", "busy", "waiting", "own_loop"])
def test_schedules_before_and_inside_a_fork(frontend: str, mode: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ATF_FRONTEND": frontend}
    command = [sys.executable, "-P", str(HERE / "fork_user.py"), mode]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("ok")


@pytest.mark.parametrize("role", ["frontend", "store_consumer", "controller", "hsc"])
def test_what_a_role_starts_has_no_part_in_its_connections(role: str) -> None:
    """A controller forks to start executors; gRPC's threads must not start again between that and the new program."""
    code = """
import asyncio, os, sys
from pathlib import Path
from atf.cli.roles import main_of
main_of(sys.argv[1])
import grpc.aio

async def main():
    channel = grpc.aio.insecure_channel("127.0.0.1:9")
    try:
        await channel.unary_unary("/a/b")(b"", timeout=5)
    except grpc.aio.AioRpcError:
        pass  # nobody is there; now its threads are
    child = os.fork()
    if not child:
        os._exit(sum(1 for _ in Path("/proc/self/task").iterdir()))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "GRPC_ENABLE_FORK_SUPPORT" in os.environ)

asyncio.run(main())
"""
    env = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    command = [sys.executable, "-P", "-c", code, role]
    ended = subprocess.run(
        command, env={**env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=50, check=False
    )
    assert (ended.stdout, ended.stderr) == ("1 False\n", "")
