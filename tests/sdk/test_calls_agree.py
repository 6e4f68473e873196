"""mypy --strict, pyright and ATF itself agree on which calls of lambdas are right."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import atf
from atf.testing import Harness

# By its name, so that mypy does not follow: the file is wrong on purpose.
sixty_calls: Any = importlib.import_module("tests.sdk.sixty_calls")
FILE = Path(sixty_calls.__file__)
ROOT = FILE.parents[2]
LINES = FILE.read_text(encoding="utf-8").splitlines()


def calls() -> Iterator[tuple[int, ast.Expr]]:
    """Each call with its line."""
    functions = [each for each in ast.parse(FILE.read_text(encoding="utf-8")).body if isinstance(each, ast.FunctionDef)]
    [body] = [each.body for each in functions if each.name == "calls"]
    for each in body:
        assert isinstance(each, ast.Expr)
        yield each.lineno, each


WRONG = {line for line, _ in calls() if "  # wrong: " in LINES[line - 1]}


def shown(lines: set[int]) -> list[str]:
    return [LINES[each - 1].strip() for each in sorted(lines)]


def test_there_are_sixty_and_each_says_what_is_right() -> None:
    lines = [line for line, _ in calls()]
    assert (len(lines), len(WRONG)) == (60, 30)
    assert all(re.search(r"  # (right$|wrong: \w)", LINES[line - 1]) for line in lines)


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_mypy_agrees_on_every_call() -> None:
    cache = ROOT / ".mypy_cache" / "sixty_calls"
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache), str(FILE)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {int(each) for each in re.findall(r"sixty_calls\.py:(\d+): error", ended.stdout)}
    assert shown(found) == shown(WRONG), ended.stdout + ended.stderr


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_pyright_agrees_on_every_call(tmp_path: Path) -> None:
    """As basedpyright ships it, with a Node.js of its own, under pyright's standard rules."""
    settings = {
        "include": [str(FILE)],
        "extraPaths": [str(ROOT)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "-p",
        str(tmp_path),
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    text = ended.stdout[ended.stdout.find("{") :]  # behind what it says of its settings
    if not text.startswith("{"):
        pytest.skip(f"not run: pyright did not start: {(ended.stderr or ended.stdout).strip()[:300]}")
    said = json.loads(text)
    assert said["summary"]["filesAnalyzed"] == 1
    errors = [each for each in said["generalDiagnostics"] if each["severity"] == "error"]
    assert shown({each["range"]["start"]["line"] + 1 for each in errors}) == shown(WRONG), errors


@pytest.mark.usefixtures("h")
@pytest.mark.parametrize("number", range(60))
def test_atf_agrees_on_every_call(number: int) -> None:
    line, call = list(calls())[number]
    code = compile(ast.Expression(call.value), str(FILE), "eval")
    if line not in WRONG:
        assert eval(code, vars(sixty_calls)) is not None
        return
    with pytest.raises((TypeError, atf.InvalidArgument)):
        eval(code, vars(sixty_calls))


@pytest.fixture
def h() -> Iterator[Harness]:
    importlib.reload(sixty_calls)  # one of its calls declares a lambda, which can be done once
    with Harness(sixty_calls.app) as harness:
        yield harness
