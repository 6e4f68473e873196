"""docs/how-to/runbooks: every command of every page runs against a cluster that has the pages' faults, and prints what the page says.

Commands run in this process, as on a terminal. "# of LAMBDA" behind an id of a page names the lambda whose task is meant.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from atf.cli import main

from .test_tutorial import ROOT, Command, missing, steps
from .ups import Up

PAGES: Final = sorted((ROOT / "docs" / "how-to" / "runbooks").glob("*.md"))
ID: Final = re.compile(r"\b\d+-[0-9a-f]{20,}\b")
STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
APP: Final = """
import os, time
import atf

app = atf.App("shop")

@app.task(max_attempts=1)
def mail(to: str) -> None:
    raise ConnectionError(f"no route to mail.example for {to}")

@app.task
def bill(order: int) -> int:
    return order

@app.task(max_losses=1)
def photo(path: str) -> None:
    os._exit(9)

@app.task(pool="gpu")
def render(model: str) -> None: ...

@app.task(schedule="0 30 2 * * *", tz="Europe/Berlin")
def report(day: str = "") -> None: ...

@app.task(backoff=atf.Backoff(60))
def charge(order: int) -> None:
    raise TimeoutError("payments.example did not answer")

@app.task(max_running=1)
def slow(seconds: float) -> None:
    time.sleep(seconds)
"""
FAULTS: Final = """
pause shop/bill --why "accounts are being moved"
schedule shop/mail -a to=a1
schedule shop/mail -a to=a2
schedule shop/mail -a to=a3
schedule shop/charge -a order=1
schedule shop/photo -a path=a.png
schedule shop/slow -a seconds=3600
schedule shop/slow -a seconds=3600
schedule shop/render -a model=m
schedule shop/bill -a order=7
"""


class Terminal(io.StringIO):
    """What a person sees: tables are aligned, and columns without a word left out."""

    def isatty(self) -> bool:
        return True


class Ran(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    said: str


Atf = Callable[[str], Ran]


@pytest.fixture
def atf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Atf]:
    """Runs a command beside a cluster."""
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    env = {**ours, "ATF_FREE_PORTS": "true", "ATF_CONFIG": str(tmp_path / "atf.toml")}
    up = Up(tmp_path, env, "shop:app", "--executors", "2", "--command-allow", "true=/bin/true", "--json")
    try:
        monkeypatch.chdir(tmp_path)
        for name, value in {"FRONTEND": up.where()["roles"]["frontend"], "CONFIG": env["ATF_CONFIG"]}.items():
            monkeypatch.setenv(f"ATF_{name}", value)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("TERM", "xterm")  # a dumb one has 80 columns, whatever COLUMNS says

        def run(command: str) -> Ran:
            screen = Terminal()
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", screen)
                patched.setattr(sys, "stderr", screen)
                code = main(shlex.split(command, comments=True))
            return Ran(code, STYLE.sub("", screen.getvalue()))

        yield run
    finally:
        up.kill()


def break_things(atf: Atf) -> dict[str, str]:
    """The cluster has its faults; the newest task of each lambda."""
    newest = {}
    for command in FAULTS.strip().splitlines():
        ran = atf(command)
        assert ran.code == 0, ran.said
        if command.startswith("schedule"):
            newest[command.split()[1]] = ran.said.strip()
    ready = {"shop/mail --status dead": 3, "shop/photo --status dead": 1, "shop/charge --status retriable_failure": 1}
    deadline = time.monotonic() + 60
    while {
        each: len(ID.findall(atf(f"ls {each} --json").said)) >= least for each, least in ready.items()
    } != dict.fromkeys(ready, True):
        assert time.monotonic() < deadline, atf("ls").said
        time.sleep(0.1)
    return newest


@pytest.mark.timeout(120)
def test_every_command_of_every_runbook_prints_what_the_page_says(atf: Atf) -> None:
    assert len(PAGES) > 10
    newest = break_things(atf)
    wrong = [told for page in PAGES for told in faults(page, atf, newest)]
    assert not wrong, "\n".join(wrong)


def faults(page: Path, atf: Atf, newest: dict[str, str]) -> Iterator[str]:
    """What is not as a page says."""
    made = ""
    for command in commands(page):
        told = command.text.removeprefix("atf ")
        if of := re.search(r"# of (\S+)$", told):
            told = ID.sub(made or newest.get(of[1], "no such task"), told)
        elif ID.search(told):
            yield f"{page.name}: of which lambda is the task?\n$ {command.text}"
        ran = atf(told)
        if told.split()[0] in {"schedule", "job"} and (printed := ID.fullmatch(ran.said.strip())):
            made = printed[0]
        line = missing(command.prints, ran.said)
        if ran.code not in ({0, 1} if told == "status" else {0}) or line is not None:
            yield f"{page.name}: exit code {ran.code}, did not print {line!r}\n$ {command.text}\n{ran.said}"


def commands(page: Path) -> list[Command]:
    """The commands of a page, in order. They stand in lists, too, and are indented there."""
    text = re.sub(r"^ +(?=```|\$ )", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return list(steps(text))


@pytest.mark.parametrize("page", [each for each in PAGES if each.stem != "index"], ids=lambda page: page.stem)
def test_every_command_of_a_page_is_one_of_atf(page: Path) -> None:
    assert commands(page)
    assert all(each.text.startswith("atf ") for each in commands(page))
