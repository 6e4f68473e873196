"""Tests run on the packaged store server and without the caller's settings, whatever is installed and set."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atf.embedded import find_binary
from atf.embedded.binary import packaged
from atf.errors import ConfigError
from tests.surroundings import SERVER, settle


def server(folder: Path, version: str) -> Path:
    folder.mkdir()
    program = folder / "redis-server"
    program.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0'\n", "utf-8")
    program.chmod(0o755)
    return program


def first_on(environment: dict[str, str]) -> Path:
    found = shutil.which("valkey-server", path=environment["PATH"])
    assert found is not None
    return Path(found).resolve()


@pytest.mark.processes
def test_the_packaged_server_comes_before_whatever_is_installed(tmp_path: Path) -> None:
    ours = packaged()
    assert ours is not None
    for version in ("6.2.7", "7.0.15", "8.6.0"):
        environment = {"PATH": str(server(tmp_path / version, version).parent)}
        settle(environment)
        settle(environment)
        assert first_on(environment) == ours.path.resolve()
        assert environment["PATH"].count(os.pathsep) == 1
        assert find_binary(search_path=environment["PATH"]).version == ours.version


@pytest.mark.processes
def test_the_tests_themselves_run_on_it() -> None:
    ours = packaged()
    assert ours is not None
    if SERVER not in os.environ:
        assert first_on(dict(os.environ)) == ours.path.resolve()


@pytest.mark.processes
def test_one_that_is_named_is_taken(tmp_path: Path) -> None:
    named = server(tmp_path / "older", "7.0.15")
    environment = {"PATH": os.defpath, SERVER: str(named)}
    settle(environment)
    assert first_on(environment) == named
    with pytest.raises(ConfigError, match="no such program"):
        settle({"PATH": os.defpath, SERVER: str(tmp_path / "none")})


@pytest.mark.processes
def test_no_setting_of_the_callers_stays() -> None:
    callers = {
        "ATF_PARTITIONS": "7",
        "ATF_REDIS_URL": "redis://h",
        "PYTHONWARNINGS": "error",
        "GRPC_VERBOSITY": "debug",
    }
    environment = {**callers, "PATH": os.defpath, "ATF_TEST_ACL": "1", "ATF_MODEL_EXAMPLES": "9", "HOME": "/root"}
    settle(environment)
    assert environment.keys() == {"PATH", "ATF_TEST_ACL", "ATF_MODEL_EXAMPLES", "HOME"}


@pytest.mark.processes
def test_what_tests_start_is_hung_up_and_interrupted_also_under_nohup_and_in_the_background() -> None:
    code = """
import os, subprocess
from tests.surroundings import settle_signals
settle_signals()
subprocess.run(["kill", "-HUP", str(os.getpid())], check=True)  # nohup's promise stands
for name in ("HUP", "INT"):
    print(subprocess.run(["sh", "-c", f"kill -{name} $$"]).returncode)
"""
    ignoring = ["sh", "-c", 'trap "" HUP INT; exec "$@"', "sh", sys.executable, "-P", "-c", code]
    root = str(Path(__file__).parents[1])
    ran = subprocess.run(ignoring, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "-1\n-2\n"), ran.stderr
