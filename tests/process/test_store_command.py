"""`atf store export` and `import` on data directories that no `atf up` uses."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atf.cli import main, store as store_command
from atf.config.settings import StoreSettings, Timing
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime
from atf.store.backup.importing import Imported, MayHaveRun, import_tasks
from atf.store.store import Store
from atf.store.values.tasks import NewTask
from tests.store.servers import running


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


async def fill(path: Path, tasks: int, delay_us: int = 3_600_000_000) -> None:
    data = DataDir(path)
    data.lock()
    async with EmbeddedStore(find_binary(), data) as embedded:
        settings = StoreSettings(redis_url=embedded.url, partitions=1)
        store = await Store.open(settings, Timing(), SystemRuntime())
        await store.schedule([new_task(number)._replace(delay_us=delay_us) for number in range(tasks)])
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
    assert main(["store", "import", "tasks.atf", "--yes", "--data-dir", "new", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [said[name] for name in ("stored", "present", "ended", "may_have_run")] == [300, 0, 0, 0]
    assert main(["store", "import", "tasks.atf", "--yes", "--data-dir", "new"]) == 0
    assert capsys.readouterr().out == "0 tasks stored, 300 were there before\n"


def test_the_list_is_whole_after_each_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the first import was cut off behind what it had stored."""
    asyncio.run(fill(tmp_path / "old", 300, delay_us=0))
    assert main(["store", "export", "tasks.atf", "--data-dir", "old", "--json"]) == 0
    found = []
    for flags in ([], ["--overwrite"]):
        assert main(["store", "import", "tasks.atf", "--yes", "--data-dir", "new", "--ran", "ran.jsonl", *flags]) == 0
        assert "300 may have run" in capsys.readouterr().out
        lines = (tmp_path / "ran.jsonl").read_text(encoding="utf-8").splitlines()
        found.append(sorted(json.loads(line)["id"] for line in lines))
    assert found[0] == found[1]
    assert len(set(found[0])) == 300


def test_files_that_are_there_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(fill(tmp_path / "old", 1, delay_us=0))
    assert main(["store", "export", "tasks.atf", "--data-dir", "old", "--json"]) == 0
    (tmp_path / "ran.jsonl").write_text("mine")
    assert main(["store", "import", "tasks.atf", "--yes", "--data-dir", "new", "--ran", "ran.jsonl"]) == 2
    assert "ran.jsonl is there already: give another name, or --overwrite" in capsys.readouterr().err
    assert (tmp_path / "ran.jsonl").read_text() == "mine"
    assert not (tmp_path / "new").exists(), "nothing was stored"
    assert main(["store", "export", os.devnull, "--data-dir", "old", "--overwrite"]) == 2
    assert "/dev/null is no ordinary file" in capsys.readouterr().err


def test_what_was_reported_is_in_the_list_if_the_import_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(fill(tmp_path / "old", 1, delay_us=0))
    assert main(["store", "export", "tasks.atf", "--data-dir", "old", "--json"]) == 0
    seen: list[str] = []

    async def watched(*arguments: Any, report: Callable[[MayHaveRun], None], **more: Any) -> Imported:
        def reported(suspect: MayHaveRun) -> None:
            report(suspect)
            seen.extend((tmp_path / "ran.jsonl").read_text(encoding="utf-8").splitlines())

        return await import_tasks(*arguments, report=reported, **more)

    monkeypatch.setattr(store_command, "import_tasks", watched)
    assert main(["store", "import", "tasks.atf", "--yes", "--data-dir", "new", "--ran", "ran.jsonl", "--json"]) == 0
    assert [json.loads(line)["id"] for line in seen] == ["0-t0"]


def test_the_old_store_is_asked_while_the_number_of_partitions_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def prepare(url: str) -> None:
        store = await Store.open(StoreSettings(redis_url=url, partitions=2), Timing(), SystemRuntime())
        places = [new_task(number)._replace(partition=store.partition_for(f"t{number}")) for number in range(20)]
        await store.schedule([each._replace(delay_us=0) for each in places])
        await store.close()

    async def cancel(url: str) -> None:
        store = await Store.open(StoreSettings(redis_url=url, partitions=2), Timing(), SystemRuntime())
        await store.cancel_tasks([f"{store.partition_for(name)}-{name}" for name in ("t3", "t7")])
        await store.close()

    with running(str(find_binary().path)) as server:
        url = server.url
        asyncio.run(prepare(url))
        export = ["store", "export", "tasks.atf", "--redis-url", url, "--partitions", "2", "--json"]
        assert main(export) == 0
        asyncio.run(cancel(url))
        capsys.readouterr()
        command = ["store", "import", "tasks.atf", "--yes", "--data-dir", "new", "--partitions", "4", "--json"]
        assert main([*command, "--old-redis-url", url]) == 0
        said = json.loads(capsys.readouterr().out)
        assert [said[name] for name in ("stored", "ended", "may_have_run")] == [18, 2, 0]

        (tmp_path / "empty.atf").touch()
        assert main(["store", "import", "empty.atf", "--yes", *command[4:], "--old-redis-url", url]) == 2
        assert "empty.atf: this is no export of a task store" in capsys.readouterr().err


def test_a_directory_without_a_store_is_refused_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "export", "tasks.atf", "--data-dir", "none"]) == 2
    assert capsys.readouterr().err.startswith("atf: no task store in none: give --redis-url")
    assert not (tmp_path / "none").exists()


def test_a_file_that_is_no_export_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tasks.atf").write_text("hello\n", encoding="utf-8")

    assert main(["store", "import", "tasks.atf", "--yes", "--data-dir", "new"]) == 2
    assert "tasks.atf line 1" in capsys.readouterr().err


def test_a_store_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "export", "tasks.atf", "--redis-url", "redis://127.0.0.1:1/0"]) == 4
    assert capsys.readouterr().err.count("\n") == 1
