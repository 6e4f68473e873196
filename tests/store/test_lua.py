"""The text of the function library: functions that fit a screen, names where values are unpacked, nothing that nobody calls."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

import atf.store
from atf.store import library
from atf.task import FINISHED, LIVE, Status

LUA: Final = Path(str(files(atf.store))) / "lua"
FILES: Final = sorted(LUA.rglob("*.lua"))
ROOMS: Final = sorted(path.stem for path in (LUA / "shared").iterdir() if path.stem not in {"basics", "keys"})
MOST_LINES: Final = 60
_TOKEN: Final = re.compile(r"--[^\n]*|'(?:[^'\\\n]|\\.)*'|\b(?:function|if|do|repeat|until|end)\b|\n")
_UNPACKED: Final = re.compile(r"local ((?:\w+, )+\w+) =\s+fields_of\(([^'\n]*?), ((?:'[\w-]+'(?:, )?)+)\)\n")


def _functions(text: str) -> dict[int, int]:
    """The first line of each function, and how many lines it has."""
    line, found = 1, {}
    begun: list[tuple[str, int]] = []
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
        elif token in {"function", "if", "do", "repeat"}:
            begun.append((token, line))
        elif token in {"end", "until"}:
            what, first = begun.pop()
            if what == "function":
                found[first] = line - first + 1
    assert not begun
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_function_fits_a_screen(path: Path) -> None:
    long = {first: lines for first, lines in _functions(path.read_text(encoding="utf-8")).items() if lines > MOST_LINES}
    assert long == {}


def test_the_length_of_functions_is_measured() -> None:
    text = "local function f()\n  if x then\n    for _ in y do z('end') end\n  end  -- end\nend\n"
    assert _functions(text) == {1: 5}


def test_fields_are_unpacked_in_their_order() -> None:
    """A field has one name wherever it is unpacked, and as many names as fields stand there."""
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in FILES:
        for variables, key, fields in _UNPACKED.findall(path.read_text(encoding="utf-8")):
            unpacked, read = variables.split(", "), re.findall(r"'([\w-]+)'", fields)
            assert len(unpacked) == len(read), f"{path.name}: {variables}"
            for name, field in zip(unpacked, read, strict=True):
                names[key.partition("(")[0], field].add(name)
    assert names["task_key", "q"] == {"queue"}
    for (key, field), found in names.items():
        if (key, field) not in {
            ("task_key", "c"),
            ("task_key", "n"),
            ("task_key", "y"),
        }:  # the caller names its own token so
            assert len(found) == 1, f"{key} {field}: {found}"


def test_every_function_of_a_room_is_there_and_called() -> None:
    code = re.sub(r"--[^\n]*", "", library.CURRENT.source)
    for room in ROOMS:
        made = set(re.findall(rf"function {room}\.(\w+)\(", code)) | set(
            re.findall(rf"^\s*{room}\.(\w+) = remembered\(", code, re.MULTILINE)
        )
        called = re.findall(rf"(?<![\w.]){room}\.(\w+)\(", code)
        assert set(called) <= made, room
        for name in made:
            assert len(re.findall(rf"(?<![\w.]){room}\.{name}\b", code)) > 1, f"nobody calls {room}.{name}"


def test_functions_know_the_states_that_the_moves_tell() -> None:
    basics = (LUA / "shared" / "basics.lua").read_text(encoding="utf-8")
    for name, states in (("LIVE", LIVE), ("FINISHED", FINISHED)):
        (listed,) = re.findall(rf"^local {name} = {{(.*)}}", basics, re.MULTILINE)
        assert {Status[each] for each in re.findall(r"[A-Z_]+", listed)} == states
