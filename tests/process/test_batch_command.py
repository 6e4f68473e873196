"""`atf batch` as a user runs it, a process for each command, on `atf up --store memory`: batches need no server, no Redis and no disk."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from atf.sdk.work_items import digest_of

from .ups import Up

pytestmark = pytest.mark.timeout(300)

APP = """
from pathlib import Path

import atf

app = atf.App("shop")

@app.task()
def shout(word: str) -> str:
    if word == "bad" and not Path(__file__).with_name("mended").exists():
        raise ValueError("it is broken")
    return word.upper()
"""

Atf = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the user stands: an app, and two files of which one is there."""
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    (tmp_path / "there").write_text("half\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def atf(folder: Path) -> Iterator[Atf]:
    """Runs a command beside everything in one process."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    env = {**ours, "ATF_FREE_PORTS": "true", "ATF_CONFIG": str(folder / "atf.toml")}
    up = Up(folder, env, "shop:app", "--store", "memory", "--command-allow", "echo=/bin/echo,cat=/bin/cat", "--json")
    try:
        env["ATF_FRONTEND"] = up.where()["roles"]["frontend"]

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-P", "-m", "atf.cli", *words]
            return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

        yield run
        assert up.end(signal.SIGINT) == 0
        assert not (folder / ".atf").exists(), "nothing is stored"
        assert "Traceback" not in up.log.read_text("utf-8")
    finally:
        up.kill()


def chunks(atf: Atf) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """The code, the chunks, and the items of all of them by work-item id."""
    document = json.loads(atf("batch", "results", "b", "--format", "chunks").stdout)
    assert document["request_id"] == "b"
    assert all(document["chunks"]), "every item has run in a chunk that has a name"
    found = list(document["chunks"].values())
    return document["code"], found, {name: item for chunk in found for name, item in chunk["results"].items()}


def test_a_batch_of_a_lambda_with_an_item_that_fails_and_is_retried(folder: Path, atf: Atf) -> None:
    (folder / "items.jsonl").write_text('{"word": "a"}\n["bad"]\n"a"\n', encoding="utf-8")
    first = digest_of("shop/shout", ['"a"'])
    ids = [first, digest_of("shop/shout", ['"bad"']), f"{first}-2"]

    ran = atf("batch", "submit", "shop/shout", "items.jsonl", "--id", "b", "--max-attempts", "1", "--watch")

    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (1, "done with failures: 3 of 3 items, 1 failed"), ran
    lines = [json.loads(each) for each in atf("batch", "results", "b").stdout.splitlines()]
    assert [(each["work_item_id"], each["status"], each["result"]) for each in lines] == [
        (ids[0], "done", "A"),
        (ids[1], "permanently_failed", None),
        (ids[2], "done", "A"),
    ]
    assert lines[1]["error"].startswith("ValueError: it is broken")
    code, found, items = chunks(atf)
    assert (code, sorted(items)) == (-2, sorted(ids))
    assert items[ids[1]]["result"]["exit_code"] == 1
    assert {each["peer"] for each in found} == {each["peer"] for each in lines} != {""}

    (folder / "mended").touch()
    retried = json.loads(atf("batch", "retry", "b", "--json").stdout)
    assert (retried["id"], retried["round"]) == ("b", 2)
    assert atf("batch", "watch", "b").stdout.splitlines()[-1] == "done: 3 of 3 items"

    table = list(csv.DictReader(io.StringIO(atf("batch", "results", "b", "--format", "csv").stdout)))
    assert [(each["number"], each["status"], each["arguments"], each["result"]) for each in table] == [
        ("0", "done", '{"word": "a"}', "A"),
        ("1", "done", '{"word": "bad"}', "BAD"),
        ("2", "done", '{"word": "a"}', "A"),
    ]
    code, _, items = chunks(atf)
    assert (code, items[ids[1]]) == (
        100,
        {
            "result": {"stdout": '"BAD"', "exit_code": 0},
            "function_invocation": 'shop/shout "bad"',
            "arguments": ['"bad"'],
        },
    )


def test_a_batch_of_programs(folder: Path, atf: Atf) -> None:
    lines = [["echo", "a b", "$HOME"], ["cat", str(folder / "there"), str(folder / "away")]]
    (folder / "items.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")

    ran = atf("batch", "submit", "atf/command", "items.jsonl", "--id", "b", "--max-attempts", "1", "--watch")

    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (1, "done with failures: 2 of 2 items, 1 failed"), ran
    code, _, items = chunks(atf)
    well, badly = (items[digest_of("atf/command", each)] for each in lines)
    assert code == -2
    assert well == {
        "result": {"stdout": "a b $HOME\n", "exit_code": 0},
        "function_invocation": "echo 'a b' '$HOME'",
        "arguments": lines[0],
    }
    error = badly["result"].pop("error")
    assert error.startswith("exit code 1: ")
    assert badly == {
        "result": {"stdout": "half\n", "exit_code": 1},
        "function_invocation": shlex.join(lines[1]),
        "arguments": lines[1],
    }
