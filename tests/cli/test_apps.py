"""MODULE:APP words: what is found, and the one sentence on what is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from atf.errors import ConfigError
from atf.sdk.loading import look_for

from .conftest import Atf, FakeFrontend

GOOD = """
import atf
app = atf.App("{name}")

@app.task
def mail(to: str, copies: int = 1) -> None: ...
"""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules imported here are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("good_", "bad_")):
            del sys.modules[name]


def write(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")


def test_an_app_in_the_current_directory(atf: Atf, tmp_path: Path) -> None:
    write(tmp_path, "good_one", GOOD.format(name="one"))

    ran = atf("lambdas", "check", "good_one:app", "--json")

    assert ran.json == [{"name": "one/mail", "signature": "(to: str, copies: int = 1) -> None"}]


def test_what_the_frontend_warns_of_stands_beside_what_was_registered(
    atf: Atf, frontend: FakeFrontend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "good_one", GOOD.format(name="one"))
    frontend.warnings = ["one/mail runs in the pool 'gqu'\x1b[2J\nDid you mean gpu?"]

    ran = atf("lambdas", "register", "good_one:app", "--json")

    assert "one/mail" in [each["name"] for each in ran.json]
    assert ran.err == "atf: warning: one/mail runs in the pool 'gqu'\\x1b[2J\\nDid you mean gpu?\n"


def test_a_look_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "bad_code", "raise SystemExit(7)")
    paths = list(sys.path)
    look_for(["bad_code:app", "bad_code.further:app", "asyncio.tasks:app", "__main__:app"])
    assert "bad_code" not in sys.modules
    with pytest.raises(ConfigError, match=r"^app bad_nowhere\.x:app: .*No module named 'bad_nowhere'$"):
        look_for(["bad_code:app", "bad_nowhere.x:app"])
    with pytest.raises(ConfigError, match="write MODULE:APP"):
        look_for(["bad_code"])
    assert sys.path == paths


def test_two_apps_with_one_name(atf: Atf, tmp_path: Path) -> None:
    write(tmp_path, "good_one", GOOD.format(name="one"))
    write(tmp_path, "good_two", GOOD.format(name="one"))

    ran = atf("lambdas", "check", "good_one:app", "good_two:app")

    assert (ran.code, ran.err) == (2, "atf: lambda one/mail is defined by two of the apps good_one:app, good_two:app\n")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("bad_form", "app 'bad_form': write MODULE:APP, such as shop:app"),
        (".bad_name:app", "app '.bad_name:app': write MODULE:APP, such as shop:app"),
        ("./bad_name.py:app", "app './bad_name.py:app': write MODULE:APP, such as shop:app"),
        (":app", "app ':app': write MODULE:APP, such as shop:app"),
        ("nowhere_at_all:app", "app nowhere_at_all:app: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("bad_name:nothing", "app bad_name:nothing: bad_name has no atf.App named 'nothing'"),
        ("bad_name:other", "app bad_name:other: bad_name has no atf.App named 'other'"),
        ("bad_line:app", "bad_line.py line 2: ZeroDivisionError: division by zero"),
        ("bad_syntax:app", "bad_syntax.py line 1: SyntaxError: "),
        ("bad_exit:app", "bad_exit.py line 2: SystemExit: 0"),
    ],
)
def test_what_can_not_be_used_is_named_with_its_line(word: str, says: str, atf: Atf, tmp_path: Path) -> None:
    write(tmp_path, "bad_name", "other = 1")
    write(tmp_path, "bad_line", "a = 1\nb = a / 0\n")
    write(tmp_path, "bad_syntax", "def f(:\n")
    write(tmp_path, "bad_exit", "import sys\nsys.exit(0)\n")

    ran = atf("lambdas", "check", word)

    assert ran.code == 2
    assert says in ran.err
    assert ran.err.count("\n") == 1


BAD = {
    "an environment without a variable": ('import os\nos.environ["ATF_NOT_THERE"]\n', "bad_code.py line 2: KeyError: 'ATF_NOT_THERE'"),
    "a NUL byte": ("a = 1\0\n", "Error: source code string cannot contain null bytes"),
    "an unknown coding": ("# coding: nonsense\n", "bad_code.py: SyntaxError: "),
    "a text that exits": (
        "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit(0)\nraise Odd\n",
        "bad_code.py line 4: Odd: its text can't be read",
    ),
    "a module that answers wrongly": ("def __getattr__(name):\n    raise OSError(name)\n", "bad_code.py line 2: OSError: app"),
    "an app that answers wrongly": (
        "class Odd:\n    @property\n    def __class__(self):\n        raise OSError('no')\napp = Odd()\n",
        "bad_code.py line 4: OSError: no",
    ),
    "a cause": (
        "try:\n    1 / 0\nexcept ArithmeticError as error:\n    raise OSError('no settings') from error\n",
        "bad_code.py line 4: OSError: no settings (from ZeroDivisionError: division by zero)",
    ),
    "a cause that is its own": ("e = OSError('no')\ne.__cause__ = e\nraise e\n", "bad_code.py line 3: OSError: no"),
    "a context that is hidden": ("try:\n    1 / 0\nexcept ArithmeticError:\n    raise OSError('no') from None\n", "line 4: OSError: no\n"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "says"), BAD.values(), ids=BAD)
def test_what_an_import_raises_is_named_with_its_line(code: str, says: str, atf: Atf, tmp_path: Path) -> None:
    write(tmp_path, "bad_code", code)
    ran = atf("lambdas", "check", "bad_code:app")
    assert ran.code == 2
    assert "bad_code.py" in ran.err
    assert says in ran.err
    assert ran.err.count("\n") == 1


def test_a_folder_may_be_named_like_one_of_python(atf: Atf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_importlib").mkdir()
    monkeypatch.chdir(tmp_path / "my_importlib")
    write(tmp_path / "my_importlib", "bad_code", "a = 1\nb = a / 0\n")
    assert "bad_code.py line 2: ZeroDivisionError" in atf("lambdas", "check", "bad_code:app").err


def test_a_long_text_is_cut(atf: Atf, tmp_path: Path) -> None:
    write(tmp_path, "bad_code", "raise OSError('x' * 100_000)")
    assert len(atf("lambdas", "check", "bad_code:app").err) < 2_000
