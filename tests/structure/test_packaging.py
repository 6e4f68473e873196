"""What is installed is what is in the tree: each role once, under atf, with its data files."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROLES = ("controller", "executor", "frontend", "hsc", "store_consumer")
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def folder_of(package: str) -> Path:
    """Where the mapping of pyproject.toml has a package: at its own entry, or below that of the nearest parent."""
    parent, rest = package, ""
    while parent not in SETUPTOOLS["package-dir"]:
        parent, _, last = parent.rpartition(".")
        rest = f"{last}/{rest}"
    return Path(SETUPTOOLS["package-dir"][parent]) / rest


def test_every_folder_with_files_is_listed_as_a_package() -> None:
    kinds = ("*.py", *SETUPTOOLS["package-data"]["*"])
    tree = {
        path.parent.relative_to(ROOT)
        for top in ("atf", *ROLES)
        for kind in kinds
        for path in (ROOT / top).rglob(kind)
        if path.parent == path.parent.resolve()
    }
    assert {folder_of(package) for package in SETUPTOOLS["packages"]} == tree


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_linked_into_atf_by_a_relative_link(role: str) -> None:
    link = ROOT / "atf" / role
    assert link.is_symlink()
    assert link.readlink() == Path("..") / role
    assert link.resolve() == ROOT / role


def test_every_kind_of_data_file_is_packaged() -> None:
    known = {".py", *(Path(kind).suffix or kind for kind in SETUPTOOLS["package-data"]["*"])}
    found = {
        path.suffix or path.name
        for top in ("atf", *ROLES)
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path == path.resolve()
    }
    assert found <= known | {".typed"}
    assert (ROOT / "atf" / "py.typed").is_file()


def test_the_plugin_is_registered_under_its_own_name() -> None:
    entries = {each.name: each.value for each in importlib.metadata.distribution("atf-tasks").entry_points}
    assert entries == {"atf": "atf.cli:main", "atf.testing.plugin": "atf.testing.plugin"}


def test_pins_name_no_index() -> None:
    for path in (ROOT / "requirements").iterdir():
        assert "://" not in path.read_text(encoding="utf-8"), path.name
