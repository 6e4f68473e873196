"""`atf demo` with real processes: it passes, it says what it must, and it ends cleanly whatever it is given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-P", "-m", "atf.cli", "demo"]
FIELDS = {"tasks", "succeeded", "lost", "concurrent", "retried_after_kill", "start_delay_p99_ms", "tasks_per_second"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "files"
    directory.mkdir()
    for number in range(30):
        (directory / f"{number}").write_bytes(bytes(number) * number * 1_000)
    (directory / "large").write_bytes(b"large" * 1_500_000)
    return directory


def run(*arguments: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    # What somebody has set for roles of their own is none of the demo's.
    theirs = {
        "ATF_POOL": "gpu",
        "ATF_PARTITIONS": "9",
        "ATF_THREADS": "0",
        "ATF_FRONTEND": "nowhere:1",
        "REDIS_URL": "x",
    }
    env = {**os.environ, **theirs, "ATF_REDIS_URL": "redis://127.0.0.1:1", "TMPDIR": str(tmp_path)}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=env, timeout=55, check=False)


def test_nothing_is_lost_and_nothing_runs_twice_at_once(files: Path, tmp_path: Path) -> None:
    ended = run(str(files), "--tasks", "400", "--json", tmp_path=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads(ended.stdout)
    assert report.keys() >= FIELDS
    assert (report["tasks"], report["succeeded"], report["lost"], report["concurrent"]) == (400, 400, 0, 0)
    assert report["rescued"] >= 1
    assert report["rescue_seconds"] is not None
    assert "killed an executor (SIGKILL to process" in ended.stderr
    assert not list(tmp_path.glob("atf-demo-*")), "it leaves nothing behind"


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere", "there is no such directory"), ("empty", "no regular file"), ("file", "is no directory")],
)
def test_a_directory_that_will_not_do_is_bad_input(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    ended = run(str(tmp_path / name), tmp_path=tmp_path)
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_ctrl_c_ends_every_process(files: Path, tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    # A shell that starts something in the background has it ignore SIGINT, and whatever that starts ignores it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    demo = subprocess.Popen(
        [*COMMAND, str(files), "--tasks", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        start_new_session=True,
    )
    assert demo.stdout is not None
    children: list[int] = []
    for line in demo.stdout:
        if line.startswith("scheduled") and "done 0 " not in line:
            children = _descendants(demo.pid)
            break
    demo.send_signal(signal.SIGINT)
    try:
        demo.communicate(timeout=40)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 130
    assert len(children) >= 8  # the store, four roles, two guards with a worker each at least
    until = time.monotonic() + 5
    while (left := [pid for pid in children if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    assert not list(tmp_path.glob("atf-demo-*"))


def _descendants(pid: int) -> list[int]:
    found = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(each for child in found for each in _descendants(child))]
