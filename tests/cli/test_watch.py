"""`atf up --watch`: what counts as a change, what is said of it, and which files are watched."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path

import pytest

from atf.cli.local.loaded_files import below
from atf.cli.local.watch import Watch, check_installed
from atf.errors import ConfigError


class Folder:
    """A folder with two modules, watched."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replaced = 0
        self.said: list[str] = []
        self.files = {self.write("shop.py", "a = 1"), self.write("lib/mail.py", "b = 1")}
        self.watch = Watch(path, self.list, self.replace, lambda _name, line: self.said.append(line))

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        old = file.stat().st_mtime_ns if file.exists() else 0
        file.write_text(text, "utf-8")
        if old:
            os.utime(file, ns=(old + 1, old + 1))  # in the same second
        return file

    async def list(self) -> set[Path]:
        return self.files

    def replace(self) -> None:
        self.replaced += 1


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path.resolve())
    asyncio.run(made.watch.list())
    return made


def test_a_change_is_told_once_and_replaces_the_executors(folder: Folder) -> None:
    assert not folder.watch.look()
    folder.write("shop.py", "a = 2")
    folder.write("lib/mail.py", "b = 2")
    assert folder.watch.look()
    assert not folder.watch.look()
    assert folder.said == ["lib/mail.py, shop.py changed: starting executors with the new code"]
    assert folder.replaced == 1


def test_a_file_that_is_not_loaded_changes_nothing_until_it_is(folder: Folder) -> None:
    other = folder.write("tests.py", "c = 1")
    folder.write("tests.py", "c = 2")
    assert not folder.watch.look()
    folder.files.add(other)
    asyncio.run(folder.watch.list())
    assert not folder.watch.look()
    folder.write("tests.py", "c = 3")
    assert folder.watch.look()


def test_a_syntax_error_is_said_in_one_line_and_replaces_nothing_until_it_is_mended(folder: Folder) -> None:
    folder.write("shop.py", "a = 1\ndef (")
    assert not folder.watch.look()
    assert folder.said.pop() == (
        "shop.py changed: shop.py, line 2: SyntaxError: invalid syntax; the executors go on with the code from before"
    )
    folder.write("lib/mail.py", "b = 2")
    assert not folder.watch.look()
    assert "lib/mail.py changed: shop.py, line 2: SyntaxError" in folder.said.pop()
    folder.write("shop.py", "a = 3")
    assert folder.watch.look()


def test_a_file_that_an_editor_is_about_to_put_back_is_waited_for(folder: Folder) -> None:
    (folder.path / "shop.py").unlink()
    assert not folder.watch.look()
    folder.write("shop.py", "a = 2")
    assert folder.watch.look()


def test_what_python_has_compiled_of_a_changed_file_goes(folder: Folder) -> None:
    cached = Path(importlib.util.cache_from_source(str(folder.path / "shop.py")))
    cached.parent.mkdir()
    cached.write_bytes(b"of the same second and size")
    folder.write("shop.py", "a = 2")
    folder.watch.look()
    assert not cached.exists()


def test_what_is_installed_below_the_folder_is_not_the_users(tmp_path: Path) -> None:
    loaded = ["shop.py", "lib/mail.py", ".venv/lib/x.py", "env/lib/site-packages/y.py", "fast.so"]
    outside = str(tmp_path.parent / "z.py")
    assert below(tmp_path, [*(str(tmp_path / each) for each in loaded), outside]) == [
        str(tmp_path / "lib/mail.py"),
        str(tmp_path / "shop.py"),
    ]


def test_without_the_package_that_watches_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'atf-tasks\[dev\]'"):
        check_installed()
