"""What clients show: what they are given, else what the environment has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import atf
from atf.errors import ConfigError, InvalidArgument
from atf.rpc.caller_security import CallerSecurity, Security, of_client, of_environment


def test_what_is_given_counts_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-file\n")
    env = {"ATF_TOKEN": "of-env\n", "ATF_TOKEN_FILE": str(file)}
    assert shown(of_environment(env)) == "of-env"
    assert shown(of_environment(env, token="given")) == "given"
    assert shown(of_environment(env, token_file=str(file))) == "of-file"
    assert of_client() is None
    assert of_client(token=None) is None


def test_a_file_is_read_again_and_held_while_it_is_being_replaced(tmp_path: Path) -> None:
    file, now = tmp_path / "token", [0.0]
    security = Security(token_file=str(file), monotonic=lambda: now[0])
    with pytest.raises(ConfigError, match="can't be read"):
        security.metadata()
    for text, expected in (("one", "one"), ("", "one"), ("two", "two"), ("no token", "two")):
        file.write_text(text)
        now[0] += 2
        assert shown(security) == expected
    file.unlink()
    now[0] += 2
    assert shown(security) == "two"


def test_an_empty_file_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(ConfigError, match="no token"):
        Security(token_file=str(tmp_path / "token")).metadata()


def test_clients_refuse_what_they_can_not_show() -> None:
    for make in (atf.Client, atf.AsyncClient):
        with pytest.raises(ConfigError, match="no token") as caught:
            make("127.0.0.1:1", token="a b")
        assert "a b" not in str(caught.value)
        with pytest.raises(TypeError, match="did you mean token_file"):
            make("127.0.0.1:1", tokenfile="x")  # type: ignore[call-arg]
        with pytest.raises(InvalidArgument, match="for a frontend"):
            make("redis://127.0.0.1:1", token="abc")
    client = atf.AsyncClient("127.0.0.1:1", token="abcdef")
    assert "abcdef" not in repr(client) + repr(vars(client))
    asyncio.run(client.close())


def shown(security: CallerSecurity) -> str:
    ((_, value),) = security.metadata() or ()
    return str(value).removeprefix("Bearer ")
