"""What is installed is what is in the tree: each role once, under atf, with its data files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROLES = ("controller", "executor", "frontend", "hsc", "store_consumer")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


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
    kinds = [kind for each in SETUPTOOLS["package-data"].values() for kind in each]
    known = {".py", *(Path(kind).suffix or kind for kind in kinds)}
    found = {
        path.suffix or path.name
        for top in ("atf", *ROLES)
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path == path.resolve()
    }
    assert found <= known | {".typed"}
    assert (ROOT / "atf" / "py.typed").is_file()


def test_every_file_of_the_function_library_is_packaged() -> None:
    store = ROOT / "atf" / "store"
    packaged = {path for kind in SETUPTOOLS["package-data"]["atf.store"] for path in store.glob(kind)}
    assert packaged == set(store.rglob("*.lua"))


def test_the_pytest_plugin_is_registered_under_the_name_of_its_module() -> None:
    """Under any other name pytest would refuse a test suite that names the module itself."""
    assert PROJECT["project"]["entry-points"]["pytest11"] == {"atf.testing.plugin": "atf.testing.plugin"}


def test_pins_name_no_index() -> None:
    for path in (ROOT / "requirements").rglob("*.*"):
        assert "://" not in path.read_text(encoding="utf-8"), path.name
