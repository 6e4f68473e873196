"""docs/tutorial: a bash runs every command as it stands there, in order, and prints what the page says.

Each page is one script. Files are written where the page shows them, `atf up` runs beside what follows it, and `$ ^C` is a Ctrl-C for it.
What differs from run to run (ids, times, and what "…" stands for) may be anything; lines that the page leaves out may be there.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE: Final = re.compile(r"# (\S+\.py)\n")
VARIES: Final = (
    (re.compile(r"\b\d+-[0-9a-z]{20,}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+\+\d\d:\d\d"), "<time>"),
    (
        re.compile(
            r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d 08:30:00 \+\d\d:\d\d  \d{4}-\d\d-\d\dT0[67]:30:00Z  in [\d dhmins.]+"
        ),
        "<half past eight>",
    ),
    (re.compile(r"\b\d\d-\d\d \d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b\d+\.\d+ s\b"), "<seconds>"),
    (re.compile(r"^ticks +[1-9]\d*$", re.MULTILINE), "<ticks>"),
)
UP: Final = """
rm -f up.out; {command} >up.out 2>&1 & UP=$!
for _ in $(seq 300); do grep -q 'everything is up' up.out && break; kill -0 $UP || break; sleep 0.1; done
cat up.out
"""
INTERRUPT: Final = "kill -INT $UP; wait $UP; code=$?; cat up.out; (exit $code)"


class Command(NamedTuple):
    """A command of a page, and the lines that it is to print."""

    text: str
    prints: list[str]


def steps(page: str) -> Iterator[Command]:
    """What a reader of a page does, in order. To save a file is a command, too."""
    for kind, text in BLOCK.findall(page):
        if kind == "python":
            named = FILE.match(text)
            assert named, f"the page does not say how the file is called:\n{text}"
            yield Command(f"cat >{named[1]} <<'END_OF_FILE'\n{text}END_OF_FILE", [])
        elif kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, *lines = part.splitlines()
                yield Command(command, lines)


def script(commands: list[Command]) -> str:
    """A bash script that runs them, each between marks that say where its output begins and how it ended."""
    lines = []
    for number, each in enumerate(commands):
        text = UP.format(command=each.text) if each.text.startswith("atf up ") else each.text
        lines += [f"echo '@@ {number}'", INTERRUPT if text == "^C" else text, 'printf "\\n@@ ended %s\\n" $?']
    return "\n".join(["trap 'kill $UP 2>/dev/null' EXIT", *lines])


def pattern(line: str) -> str:
    """A regular expression for a line of a page; columns may have other widths."""
    for varies, word in VARIES:
        line = varies.sub(word, line)
    return r"\s+".join(".*".join(map(re.escape, word.split("…"))) for word in line.split())


def missing(expected: list[str], printed: str) -> str | None:
    """The first line of those expected that was not printed after the ones before it."""
    for varies, word in VARIES:
        printed = varies.sub(word, printed)
    rest = iter(printed.splitlines())
    for line in expected:
        if not any(re.fullmatch(pattern(line), each.strip()) for each in rest):
            return line
    return None


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what is installed, so that a build leaves nothing here."""
    copy = tmp_path / "checkout"
    kept = ("atf", "frontend", "store_consumer", "controller", "executor", "hsc")
    for name in kept:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_tutorial_prints_what_the_page_says(page: Path, checkout: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    port = free_ports(home / page.stem)
    commands = list(steps(page.read_text(encoding="utf-8")))
    assert len(commands) > 20
    env = {**surroundings(home), "ATF_FRONTEND": f"127.0.0.1:{port}"}
    said = on_a_terminal(["bash", "-c", script(commands)], checkout, env)
    parts = re.split(r"^@@ (\d+)\n", said.replace(f":{port}", ":7401"), flags=re.MULTILINE)[1:]
    assert len(parts) == 2 * len(commands), said
    wrong = [told for command, part in zip(commands, parts[1::2], strict=True) if (told := fault(command, part))]
    assert not wrong, "\n".join(wrong)


def on_a_terminal(command: list[str], folder: Path, env: dict[str, str]) -> str:
    """What a command shows a person: tables are aligned, and columns without a word left out."""
    ours, theirs = pty.openpty()
    options: dict[str, Any] = {"cwd": folder, "env": env, "start_new_session": True}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, **options) as process:
        os.close(theirs)
        said = b""
        try:
            with contextlib.suppress(OSError):  # EIO: nobody holds the other end any more
                while part := os.read(ours, 65536):
                    said += part
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def fault(command: Command, part: str) -> str | None:
    """What is not as the page says: how a command ended, or a line that it did not print."""
    printed, _, code = part.rpartition("\n@@ ended ")
    wanted = "1" if any("FATAL" in line or " wrong;" in line for line in command.prints) else "0"
    if code.strip() != wanted:
        return f"ended with {code.strip()}, not {wanted}:\n$ {command.text}\n{printed}"
    line = missing(command.prints, printed)
    return None if line is None else f"did not print {line!r}:\n$ {command.text}\n{printed}"


def free_ports(folder: Path) -> int:
    """Has an `atf up` in `folder` listen where nothing else does; returns the frontend's port."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
    folder.mkdir()
    others = "".join(f'[{role}]\nlisten = "127.0.0.1:0"\n' for role in ("hsc", "store_consumer", "controller"))
    (folder / "atf.toml").write_text(f'[frontend]\nlisten = "127.0.0.1:{port}"\n{others}')
    return port


def surroundings(home: Path) -> dict[str, str]:
    """An empty home, and the packages of this environment in place of an index."""
    packages = os.pathsep.join(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]))
    here = home.parent / "bin"
    here.mkdir()
    python = here / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return {
        "HOME": str(home),
        "TERM": "dumb",
        "COLUMNS": "160",
        "PATH": f"{here}:{os.defpath}",
        "PYTHONPATH": packages,
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_FORCE_REINSTALL": "1",
    }
