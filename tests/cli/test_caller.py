"""What commands show to the frontend: by flags, variables and atf.toml; and what they end with where that is not enough."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from atf.cli import remote
from atf.cli.caller import NAMES, security
from atf.cli.options import kept
from atf.errors import AtfError, PermissionDenied, Unauthenticated

from .conftest import Atf, FakeFrontend
from .test_every_flag import ALL


def test_every_command_that_asks_a_frontend_has_the_flags() -> None:
    roles = {"ui", "worker", "controller", "executor", "server"}
    flags = {name: {each.name for each in command.params} for name, command in ALL.items() if name not in roles}
    assert [name for name, has in flags.items() if "frontend" in has and not {*NAMES} <= has] == []
    assert sum("token_file" in has for has in flags.values()) > 30


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What commands show from now on."""
    found: list[object] = []

    @asynccontextmanager
    async def connect(_address: str, **_more: bool) -> AsyncIterator[FakeFrontend]:
        found.append(security({name: kept(name) for name in NAMES}).metadata())
        yield FakeFrontend()

    monkeypatch.setattr(remote, "connect", connect)
    return found


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


def test_the_flag_counts_before_the_variable_and_that_before_the_file(
    atf: Atf, shown: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"{name}\n")
    assert atf("ls").code == 0
    (tmp_path / "atf.toml").write_text(f'token_file = "{tmp_path}/one"\ntls_cert = "a role\'s"\ntls_key = "its"\n')
    atf("ls")
    monkeypatch.setenv("ATF_TOKEN", "variable")
    atf("ls")
    atf("ls", "--token-file", str(tmp_path / "two"))
    assert shown == [None, bearer("one"), bearer("variable"), bearer("two")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--token-file", "away"], "token_file = away: it can't be read"),
        (["--tls-cert", "c"], "tls_cert and tls_key belong together"),
        (["--tls-cert", "c", "--tls-key", "k"], "tls_cert without tls_ca"),
    ],
)
@pytest.mark.usefixtures("shown")
def test_what_can_not_be_shown_is_bad_input(atf: Atf, words: list[str], says: str) -> None:
    ran = atf("ls", *words)
    assert ran.code == 2
    assert says in ran.err


@pytest.mark.usefixtures("shown")
def test_what_is_no_token_is_not_repeated(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATF_TOKEN", "se cret\nwords")
    ran = atf("ls")
    assert ran.code == 2
    assert "the token is no token" in ran.err
    assert "cret" not in ran.err


@pytest.mark.parametrize("error", [Unauthenticated("who?"), PermissionDenied("token x: no admin")])
def test_who_is_not_allowed_has_an_exit_code_of_its_own(atf: Atf, frontend: FakeFrontend, error: AtfError) -> None:
    frontend.fails = error
    ran = atf("ls")
    assert ran.code == 5
    assert str(error) in ran.err


def test_no_flag_takes_a_token_itself() -> None:
    flags = {word for command in ALL.values() for each in command.params for word in each.opts}
    assert flags & {"--token", "--secret", "--password"} == set()
