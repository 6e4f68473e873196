"""What the command says where stdout or the words given to it are out of the ordinary."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

from atf.cli import main
from atf.embedded import DataDir, EmbeddedStore, server
from atf.embedded.binary import ServerBinary
from atf.errors import ConfigError
from atf.rpc import task_pb2 as t
from atf.sdk import loading
from atf.store.servers.address import parse
from tests.cli.conftest import Atf, FakeFrontend


@pytest.mark.parametrize("words", [[], ["store"], ["cron"]])
def test_a_command_alone_prints_its_help_in_lines(atf: Atf, words: list[str]) -> None:
    ran = atf(*words)
    assert ran.code == 2
    assert "\\n" not in ran.err
    assert ran.err.startswith("Usage: atf")
    assert ran.err.count("\n") > 5


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_result_that_stdout_has_no_letters_for_is_no_failure(
    frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    frontend.add("0-a", t.SUCCESS, result='"naïve 日本"'.encode(), result_encoding=t.JSON)

    def said(*words: str) -> bytes:
        taken = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, encoding=encoding))
        assert main(words) == 0
        return taken.getvalue()

    assert "日本".encode(encoding, "replace") in said("get", "0-a")
    assert json.loads(said("get", "0-a", "--json"))["result"] == "naïve 日本"


@pytest.mark.parametrize(
    "name", ["C# shop", "100%25", "what?", "[x]", "a@b", "ünïcode", "two  blanks", "a&b=c;d", "q'\"", "\udcff", "x,y:z"]
)
def test_the_address_of_an_embedded_store_names_its_socket_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(server, "_MAX_SOCKET_PATH", 10_000)
    store = EmbeddedStore(ServerBinary(Path("/bin/true"), (7, 2, 0), "PATH"), DataDir(tmp_path / name))
    path = parse(store.url).options["path"]
    assert path == str(tmp_path / name / "store.sock")
    assert not {"#", "?", " ", "@"} & set(store.url)
    assert unquote(store.url, errors="surrogateescape") == f"unix://{path}"


@pytest.mark.parametrize("name", ["queue", "email", "types"])
def test_a_module_named_like_one_of_pythons_says_which_was_loaded(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("import atf\napp = atf.App('shop')\n")
    with pytest.raises(ConfigError) as caught:
        loading.load_lambdas([f"{name}:app"])
    said = str(caught.value)
    assert f"{name}.py was not loaded, but Python's own module {name!r} (" in said
    assert "give yours another name" in said


def test_a_module_behind_an_app_that_is_named_so_is_said_too(tmp_path: Path) -> None:
    (tmp_path / "types.py").write_text("class Order: ...\n")
    for number, body in enumerate(("from types import Order", "import types\ntypes.Order")):
        (tmp_path / f"shop_{number}.py").write_text(body)
        with pytest.raises(ConfigError, match=r"types\.py was not loaded, but Python's own module 'types'"):
            loading.load_lambdas([f"shop_{number}:app"])


def test_patched_threads_are_one_sentence(atf: Atf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "patched_shop.py").write_text("import atf\napp = atf.App('shop')\n")
    for library, function in (("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, library, SimpleNamespace(**{function: lambda name: name == "socket"}))
            ran = atf("lambdas", "check", "patched_shop:app")
        assert ran.code == 2
        assert f"patched by {library.partition('.')[0]} (socket)" in ran.err
        assert ran.err.count("\n") == 1
