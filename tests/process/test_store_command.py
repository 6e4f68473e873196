"""`atf store export` and `import` on data directories that no `atf up` uses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from atf.cli import main
from atf.config import StoreSettings, Timing
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.store.types import NewTask


def new_task(number: int) -> NewTask:
    spec = t.TaskSpec(payload=b"{}")
    setattr(spec, "lambda", "shop/mail")
    return NewTask(
        id=f"t{number}",
        partition=0,
        lambda_name="shop/mail",
        priority=1,
        spec=spec.SerializeToString(),
        digest=b"digest",
        at_us=None,
        delay_us=3_600_000_000,
        max_attempts=10,
        max_losses=3,
        retention_us=86_400_000_000,
    )


async def fill(path: Path, tasks: int) -> None:
    data = DataDir(path)
    data.lock()
    async with EmbeddedStore(find_binary(), data) as embedded:
        settings = StoreSettings(redis_url=embedded.url, partitions=1)
        store = await Store.open(settings, Timing(), SystemRuntime())
        await store.schedule([new_task(number) for number in range(tasks)])
        await store.close()
    data.release()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATF_CONFIG", str(tmp_path / "atf.toml"))
    monkeypatch.delenv("ATF_REDIS_URL", raising=False)


def test_tasks_move_from_one_directory_to_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(fill(tmp_path / "old", 300))

    assert main(["store", "export", "tasks.atf", "--data-dir", "old", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 300
    assert main(["store", "import", "tasks.atf", "--data-dir", "new", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [said[name] for name in ("stored", "present", "ended", "may_have_run")] == [300, 0, 0, 0]
    assert main(["store", "import", "tasks.atf", "--data-dir", "new"]) == 0
    assert capsys.readouterr().out == "0 tasks stored, 300 were there before\n"


def test_a_directory_without_a_store_is_refused_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "export", "tasks.atf", "--data-dir", "none"]) == 2
    assert capsys.readouterr().err.startswith("atf: no task store in none: give --redis-url")
    assert not (tmp_path / "none").exists()


def test_a_file_that_is_no_export_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tasks.atf").write_text("hello\n", encoding="utf-8")

    assert main(["store", "import", "tasks.atf", "--data-dir", "new"]) == 2
    assert "tasks.atf line 1" in capsys.readouterr().err


def test_a_store_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "export", "tasks.atf", "--redis-url", "redis://127.0.0.1:1/0"]) == 4
    assert capsys.readouterr().err.count("\n") == 1
