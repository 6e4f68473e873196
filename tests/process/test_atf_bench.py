"""`atf bench` with real processes: every figure is there, it leaves nothing behind, a store of others as it was, and says what can't be started."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from atf import cli
from atf.bench import measurements
from atf.bench.measurements import BenchPlan
from atf.bench.run import BenchReport, bench
from atf.cli.progress import LineView
from atf.config.settings import StoreSettings, Timing
from atf.embedded import find_binary
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import NewTask, TaskRecord
from atf.task import US
from tests.store.servers import running

COMMAND = [sys.executable, "-P", "-m", "atf.cli", "bench"]
SMALL = ("--partitions", "1", "--tasks", "100", "--rounds", "1", "--executors", "1", "--json")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for as long as is needed here."""
    monkeypatch.setattr(measurements, "IDLE_S", 0.5)
    monkeypatch.setattr(measurements, "LEAD_S", 2.0)
    monkeypatch.setattr(measurements, "AHEAD_S", (0.3, 0.6))


@pytest.mark.long
def test_it_measures_a_store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said: list[str] = []
    plan = BenchPlan(tasks=300, rounds=2, singles=20, burst=50, rate=50, seconds=1, executors=1, settings={})
    report: BenchReport = asyncio.run(bench(plan, LineView(said.append), os.environ))
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


@pytest.mark.long
def test_a_store_of_others_keeps_what_is_in_it_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "atf.cli.bench.BenchPlan", functools.partial(BenchPlan, singles=20, burst=50, rate=50, seconds=1)
    )
    with running(str(find_binary().path)) as server, server.client() as client:
        client.set("session:1", "anna")
        client.hset("cart:1", mapping={"apples": 3})
        client.rpush("rq:queue:mail", "a", "b")
        foreign = {key: client.dump(key) for key in ("session:1", "cart:1", "rq:queue:mail")}
        later = asyncio.run(scheduled(server.url))
        before = client.config_get("*"), client.info("server")["run_id"]
        assert cli.main(["bench", "--redis-url", server.url, *SMALL, "--pending", "300"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["measured"]["before"] == {"pending": 1, "finished": 0}, "what others have waits in it"
        assert found["measured"]["end_to_end"]["per_s"] > 0
        assert found["measured"]["pending"]["scheduled_per_s"] > 0 < found["measured"]["pending"]["bytes_per_task"]
        statuses = Counter(client.hget(key, "s") for key in client.scan_iter("atf:*:t:*"))
        assert statuses.keys() == {b"NEW", b"SUCCESS", b"TOMBSTONE"}
        assert (statuses[b"NEW"], statuses[b"TOMBSTONE"]) == (1, 300), "of what waited the taken ids, for ten minutes"
        assert (found["appendonly"], found["appendfsync"]) == ("no", "everysec"), "as it was set"
        assert (client.config_get("*"), client.info("server")["run_id"]) == before, "the same server, set as before"
        assert {key: client.dump(key) for key in foreign} == foreign
        assert asyncio.run(stored(server.url, later.id)) == later
        assert client.set("session:2", "bert"), "it goes on"


async def scheduled(url: str) -> TaskRecord:
    """A task of somebody else, due in an hour."""
    store = await opened(url)
    await store.register_lambdas([LambdaRecord("shop/mail", b"", 1_000, 10 * US, paused=False)])
    (made,) = await store.schedule(
        [NewTask("t1", 0, "shop/mail", 1, b"spec", b"digest", None, 3600 * US, 3, 3, 3600 * US)]
    )
    await store.close()
    found = await stored(url, made.id)
    assert found is not None
    return found


async def stored(url: str, task_id: str) -> TaskRecord | None:
    store = await opened(url)
    (found,) = await store.get_tasks([task_id])
    await store.close()
    return found


async def opened(url: str) -> Store:
    return await Store.open(StoreSettings(redis_url=url, partitions=1), Timing(), SystemRuntime())


def test_a_store_that_can_not_be_started_is_named(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*COMMAND, "--store-bin", "/no/such/server"]
    ended = subprocess.run(command, capture_output=True, text=True, env=env, timeout=55, check=False)
    assert ended.returncode == 2
    assert "/no/such/server" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())
