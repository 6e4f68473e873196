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
