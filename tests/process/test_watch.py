"""`atf up --watch` on real processes: new code within seconds, what runs finishes, and code that is broken ends nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import atf

from .ups import Up

pytestmark = pytest.mark.timeout(60)

SHOP = """
import time
import atf
import words

app = atf.App("shop")

@app.task
def says() -> str:
    return words.WORD

@app.task
def slow(seconds: float) -> str:
    time.sleep(seconds)
    return words.WORD
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    (tmp_path / "words.py").write_text("WORD = 'first'", "utf-8")
    return tmp_path


@pytest.fixture
def up(folder: Path) -> Iterator[Up]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    env = {**ours, "ATF_FREE_PORTS": "true", "ATF_CONFIG": str(folder / "atf.toml")}
    made = Up(folder, env, "--watch", "shop:app", "--json", "--data-dir", str(folder / ".atf"))
    yield made
    made.kill()


def until(up: Up, text: str) -> None:
    """Waits until the log of `atf up` has a text."""
    deadline = time.monotonic() + 20
    while text not in up.log.read_text("utf-8"):
        assert time.monotonic() < deadline, up.log.read_text("utf-8")
        time.sleep(0.02)


def test_changed_code_runs_at_once_and_what_runs_ends_with_the_code_that_it_began_with(folder: Path, up: Up) -> None:
    address = up.where()["roles"]["frontend"]
    with atf.Client(address) as client:
        until(up, "watching 2 files")
        slow = client.schedule("shop/slow", {"seconds": 2.0})
        while client.get(slow.id).status is not atf.Status.PROCESSING:
            time.sleep(0.02)
        (folder / "words.py").write_text("WORD = 'second'", "utf-8")
        until(up, "executor replaced")
        assert client.schedule("shop/says", {}).result(10) == "second"
        (folder / "words.py").write_text("WORD = (", "utf-8")
        until(up, "words.py changed: words.py, line 1: SyntaxError")
        assert client.schedule("shop/says", {}).result(10) == "second"
        assert slow.result(10) == "first"
        ended = client.get(slow.id)
    assert (ended.attempts, ended.losses, ended.runs) == (1, 0, 1)
