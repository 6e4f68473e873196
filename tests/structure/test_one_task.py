"""docs/explanation/one-task.md: what it names is there, and a task's path stays short."""

from __future__ import annotations

import ast
import re
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "explanation" / "one-task.md"
MOST_FILES: Final = 40
MOST_FILES_OF_EXECUTOR: Final = 8
_ROW: Final = re.compile(r"\| (\d+) \|.*\| `([^`]+)` \| `([^`]+)` \|")
HOPS: Final = [(int(number), file, function) for number, file, function in _ROW.findall(PAGE.read_text("utf-8"))]


def functions(file: str) -> set[str]:
    """The functions and methods of a module, as Class.method; of a file of Lua the store's function that its first line names."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".lua"):
        return {text.removeprefix("-- ").partition(":")[0]}
    found = set()
    for node in ast.parse(text).body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(f"{node.name}.{each.name}" if isinstance(node, ast.ClassDef) else each.name)
    return found


@pytest.mark.parametrize(("number", "file", "function"), HOPS)
def test_each_hop_is_where_the_page_says(number: int, file: str, function: str) -> None:
    assert function in functions(file), f"hop {number}: {file} has no {function}: mend docs/explanation/one-task.md"


def test_the_hops_are_numbered_and_every_other_file_that_is_named_is_there() -> None:
    assert [number for number, *_ in HOPS] == list(range(1, len(HOPS) + 1))
    named = set(re.findall(r"`([\w/]+\.(?:py|lua))`", PAGE.read_text("utf-8")))
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


def test_a_task_that_has_left_a_file_does_not_come_back() -> None:
    """Within a process, that is: it visits the HSC twice."""
    for section in PAGE.read_text("utf-8").split("\n## "):
        path = [file for file, _ in groupby(file for _, file, _ in _ROW.findall(section))]
        assert [file for file in path if path.count(file) > 1] == [], section.partition("\n")[0]


def test_a_task_crosses_few_files() -> None:
    files = {file for _, file, _ in HOPS}
    assert len(files) <= MOST_FILES
    assert len({each for each in files if each.startswith("executor/")}) <= MOST_FILES_OF_EXECUTOR
