"""`atf bench` with real processes: every figure is there, it leaves nothing behind, and says what can't be started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from atf.bench import run
from atf.bench.run import Plan, Report, bench
from atf.cli.progress import Lines

COMMAND = [sys.executable, "-P", "-m", "atf.cli", "bench"]


def test_it_measures_a_store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "IDLE_S", 0.5)
    monkeypatch.setattr(run, "LEAD_S", 2.0)
    monkeypatch.setattr(run, "AHEAD_S", (0.3, 0.6))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said: list[str] = []
    plan = Plan(tasks=300, rounds=2, singles=20, burst=50, rate=50, seconds=1, executors=1, settings={})
    report: Report = asyncio.run(bench(plan, Lines(said.append), os.environ))
    found = report.as_json()
    measured = found["measured"]
    assert measured["before"] == {"pending": 0, "finished": 0}
    assert (found["appendonly"], found["appendfsync"], found["durability"]) == ("yes", "everysec", "relaxed")
    assert all(found["versions"].values()), found["versions"]
    assert list(measured) == [
        "before",
        "idle",
        "drain",
        "end_to_end",
        "kinds",
        "memory",
        "one_caller",
        "callers",
        "due_at_once",
        "ahead",
    ]
    assert measured["end_to_end"]["scheduled_per_s"] > measured["end_to_end"]["per_s"] > 0
    assert measured["end_to_end"]["cpu_us"] >= measured["end_to_end"]["cpu_us_store"] > 0
    assert measured["end_to_end"]["ran_again"] == measured["drain"]["ran_again"] == 0
    assert measured["kinds"].keys() == {"def", "async_def"}
    assert {"store", "executors", "frontend"} <= measured["memory"].keys()
    assert min(measured["memory"].values()) > 1
    assert measured["drain"]["per_s"] > 0 < measured["drain"]["bytes_per_waiting_task"]
    assert measured["one_caller"]["per_s"] > 0 < measured["callers"]["per_s"]
    assert {measured[each]["early"] for each in ("due_at_once", "ahead")} == {0}
    assert measured["ahead"]["cpu_us"] >= measured["ahead"]["cpu_us_client"] > 0
    assert (
        0 < measured["due_at_once"]["p50_ms"] <= measured["due_at_once"]["p99_ms"] <= measured["due_at_once"]["max_ms"]
    )
    assert (found["executors"], found["tasks"], found["rounds"]) == (1, 300, 2)
    assert any("valkey" in line or "redis" in line for line in said), "it names the store"
    assert not list(tmp_path.glob("atf-bench-*")), "it leaves nothing behind"


def test_a_store_that_can_not_be_started_is_named(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*COMMAND, "--store-bin", "/no/such/server"]
    ended = subprocess.run(command, capture_output=True, text=True, env=env, timeout=55, check=False)
    assert ended.returncode == 2
    assert "/no/such/server" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())
