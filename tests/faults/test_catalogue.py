"""The catalogue names tests that exist."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from .catalogue import CATALOGUE, Accident

TESTS = Path(__file__).parents[1]


@functools.cache
def names_in(file: str) -> frozenset[str]:
    """The names of a file's tests; a story on virtual time becomes one by its decorator."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


@pytest.mark.parametrize("accident", CATALOGUE, ids=lambda accident: accident.what)
def test_an_accident_has_tests_that_exist(accident: Accident) -> None:
    assert accident.tests
    for name in accident.tests:
        file, _, test = name.partition("::")
        assert (TESTS / file).is_file(), f"{accident.what}: there is no tests/{file}"
        assert test in names_in(file), f"{accident.what}: tests/{file} has no {test}"


def test_an_accident_stands_there_once() -> None:
    assert len({each.what for each in CATALOGUE}) == len(CATALOGUE)


def test_every_test_of_this_folder_is_named() -> None:
    named = {name for accident in CATALOGUE for name in accident.tests}
    ours = {
        f"faults/{path.name}::{test}"
        for path in TESTS.glob("faults/test_*.py")
        for test in names_in(f"faults/{path.name}")
    }
    rest = {each for each in ours - named if not each.startswith("faults/test_catalogue.py")}
    assert rest == {"faults/test_calls.py::test_every_method_of_the_frontend_has_its_story"}
