"""Settings, words of the command line and of MODULE:APP: understood, or refused with a sentence."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from atf.cli import main, remote
from atf.cli.options import duration
from atf.cli.task_request import build_request
from atf.config import settings
from atf.config.loading import load
from atf.errors import AtfError, ConfigError, InvalidArgument
from atf.frontend.validate import check_options, check_spec, check_when
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.listen_address import split_address
from atf.rpc.server import serve
from atf.sdk.loading import load_lambdas
from atf.task import MAX_AHEAD_US, US

from .examples import BROKEN_TEXTS, JSON_VALUES, NUMBERS, TEXTS, fuzz, understood_or
from .texts import BOMBS, acts

SETTINGS = [each for each in vars(settings).values() if dataclasses.is_dataclass(each) and isinstance(each, type)]
NAMES = sorted({field.name for each in SETTINGS for field in dataclasses.fields(each)})
NOWHERE = Path("/nowhere/atf.toml")


def assert_sound(settings: Any) -> None:
    """No setting is a number that arithmetic stumbles over."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        assert not isinstance(value, float) or math.isfinite(value), field.name
        assert not isinstance(value, int) or abs(value) < 1 << 63, field.name
        assert not isinstance(value, str) or "\0" not in value, field.name


@fuzz
@given(kind=st.sampled_from(SETTINGS), env=st.dictionaries(st.sampled_from(NAMES), TEXTS, min_size=1, max_size=6))
def test_variables_are_understood_or_refused(kind: Any, env: dict[str, str]) -> None:
    with understood_or(ConfigError):
        assert_sound(load(kind, env={f"ATF_{name.upper()}": text for name, text in env.items()}, path=NOWHERE))


@fuzz
@given(kind=st.sampled_from(SETTINGS), name=st.sampled_from(NAMES), value=st.one_of(NUMBERS, JSON_VALUES))
def test_any_value_of_any_type_is_understood_or_refused(kind: Any, name: str, value: object) -> None:
    with understood_or(ConfigError):
        assert_sound(load(kind, {name: value}, env={}, path=NOWHERE))


TOML_KEYS = st.sampled_from([*NAMES, "frontend", "hsc", "controller", "executor", "store_consumer", "x"])
TOML_VALUES = st.one_of(
    st.sampled_from(
        [
            "nan",
            "inf",
            "-1",
            "0",
            "1e400",
            "true",
            "[]",
            "{}",
            '"x"',
            '"\\u0000"',
            "1979-05-27",
            "'''a\n'''",
            "9" * 5_000,
        ]
    ),
    st.recursive(st.just("1"), lambda inner: inner.map(lambda each: f"[{each}]"), max_leaves=5),
    TEXTS,
)


@fuzz
@given(
    kind=st.sampled_from(SETTINGS),
    lines=st.lists(
        st.one_of(st.tuples(TOML_KEYS, TOML_VALUES).map(" = ".join), TOML_KEYS.map("[{}]".format), TEXTS), max_size=8
    ),
    table=st.sampled_from(["", "frontend", "executor", "x"]),
)
def test_files_are_understood_or_refused(kind: Any, lines: list[str], table: str, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    with understood_or(ConfigError):
        assert_sound(load(kind, env={}, path=path, table=table))


@pytest.mark.parametrize(
    "body",
    [
        b"x = " + b"[" * 100_000,
        b"a." * 1_000 + b"b = 1",
        b"\xff",
        b"\0",
        b"frontend = 3",
        b'frontend = "[',
        b"x = " + b"9" * 9_999,
    ],
)
def test_a_file_that_is_a_bomb_is_refused_in_a_sentence(body: bytes, tmp_path: Path) -> None:
    path = tmp_path / "atf.toml"
    path.write_bytes(body)
    with understood_or(ConfigError):
        load(settings.FrontendSettings, env={}, path=path, table="frontend")


def test_a_file_without_an_end_is_not_read_as_settings() -> None:
    with pytest.raises(ConfigError, match="over 1048576 bytes"):
        load(settings.FrontendSettings, env={}, path=Path("/dev/zero"), table="frontend")


def test_the_table_of_a_role_is_not_its_address(tmp_path: Path) -> None:
    path = tmp_path / "atf.toml"
    path.write_text('[frontend]\nlisten = "127.0.0.1:1"\n[hsc]\nlisten = "127.0.0.1:2"\n[controller]\nhsc = "far:1"\n')
    assert load(settings.ExecutorSettings, env={}, path=path, table="executor") == settings.ExecutorSettings()
    assert load(settings.ControllerSettings, env={}, path=path, table="controller").hsc == "far:1"
    assert load(remote.FrontendAddress, env={}, path=path) == remote.FrontendAddress()
    assert load(settings.FrontendSettings, env={}, path=path, table="frontend").listen == "127.0.0.1:1"


@pytest.mark.parametrize(
    "name", ["store_timeout", "sweep_interval", "ageing", "stop_grace", "drain_timeout", "poll_interval"]
)
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300"])
def test_no_time_is_endless_negative_or_none(name: str, value: str) -> None:
    (kind,) = {each for each in SETTINGS if name in {field.name for field in dataclasses.fields(each)}}
    with pytest.raises(ConfigError, match=name):
        load(kind, {name: value}, env={}, path=NOWHERE)


@fuzz
@given(text=TEXTS)
def test_an_address_is_host_and_port_or_refused(text: str) -> None:
    try:
        host, port = split_address(text)
    except ConfigError:
        return
    assert host
    assert 0 <= port <= 65_535


@pytest.mark.parametrize("host", ["a" * 300, "\u202e", "a..b", "a b", "-", "\udcff", "1" * 70, "é" * 100])
async def test_an_address_that_no_resolver_takes_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="can't listen on"):
        await serve(f"{host}:0", [])


# --- the command line -------------------------------------------------------------------------------------------------


@fuzz
@given(text=TEXTS)
def test_a_duration_is_seconds_or_refused(text: str) -> None:
    with understood_or(click.BadParameter):
        assert 0 <= duration(text) * US <= MAX_AHEAD_US


OPTIONS = {
    "arguments": st.lists(BROKEN_TEXTS, max_size=3),
    "payload": BROKEN_TEXTS,
    "delay": TEXTS.map(lambda _text: 1.0),
    "at": BROKEN_TEXTS,
    "priority": BROKEN_TEXTS,
    "key": BROKEN_TEXTS,
    "ordering_key": BROKEN_TEXTS,
    "concurrency_key": BROKEN_TEXTS,
    "unique": BROKEN_TEXTS,
    "labels": st.lists(BROKEN_TEXTS.map(lambda text: f"a={text}"), max_size=1),
}


@fuzz
@given(name=st.one_of(st.just("shop/mail"), BROKEN_TEXTS), options=st.fixed_dictionaries({}, optional=OPTIONS))
def test_words_become_a_request_that_a_frontend_can_judge(name: str, options: dict[str, Any]) -> None:
    with understood_or(InvalidArgument, UnicodeEncodeError):  # the command says of the second that it is no text
        request = build_request(name, **options)
        t.TaskSpec.FromString(request.spec.SerializeToString())
        assert isinstance(msgspec.json.decode(request.spec.payload), dict)
        check_spec(request.spec)
        check_options(request.spec.options)
        check_when(request, 0)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_on_the_command_line_is_refused_or_is_text(bomb: str) -> None:
    text = BOMBS[bomb].decode("utf-8", "surrogateescape")
    words: list[dict[str, Any]] = [{"payload": text}, {"arguments": [f"a={text}"]}]
    for options in words:
        with understood_or(InvalidArgument):
            request = build_request("shop/mail", **options)
            msgspec.json.decode(request.spec.payload)


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(InvalidArgument, match="the payload is over 1048576 bytes"):
        build_request("shop/mail", raw="/dev/zero")


WORDS = ["get", "ls", "wait", "cancel", "retry", "explain", "pause", "resume", "queue", "schedule"]
FLAGS = [
    "--json",
    "--limit",
    "--status",
    "--timeout",
    "--any",
    "--frontend",
    "-a",
    "--payload",
    "--delay",
    "--at",
    "--priority",
]
FLAGS += ["--key", "--ordering-key", "--label", "--max-attempts", "--wait", "--wait-timeout", "--", "-"]


class Empty:
    """A frontend that knows nothing, and has no bug that could be taken for one of the command's."""

    def __getattr__(self, name: str) -> Any:
        async def answer(request: Any, *, timeout: float = 10) -> Any:
            from atf.errors import TaskNotFound

            request.SerializeToString()
            if name == "list_lambdas":
                return f.ListLambdasReply()
            raise TaskNotFound("no such task")

        return answer


@fuzz
@given(command=st.sampled_from(WORDS), words=st.lists(st.one_of(st.sampled_from(FLAGS), BROKEN_TEXTS), max_size=6))
def test_any_command_line_ends_with_a_sentence(
    command: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def connect(address: str, **_more: bool) -> AsyncIterator[Empty]:
        yield Empty()

    with monkeypatch.context() as patch:
        patch.setattr(remote, "connect", connect)
        patch.setattr("sys.stdin", open("/dev/null"))  # noqa: PTH123, SIM115
        patch.setenv("ATF_CONFIG", str(NOWHERE))
        patch.delenv("ATF_DEBUG", raising=False)
        code = main([command, *(word.replace("\0", "") for word in words)])
        sys.stdin.close()
    said = capsys.readouterr()
    assert "a bug in atf" not in said.err
    assert code in {0, 1, 2, 3, 4}
    assert acts(said.err) == []
    assert code == 0 or said.err.startswith("atf: ")
    assert said.err.count("\n") <= 1


@fuzz
@given(words=st.lists(st.one_of(BROKEN_TEXTS, BROKEN_TEXTS.map("atf.demo.lambdas:{}".format)), min_size=1, max_size=2))
def test_what_is_no_app_is_refused(words: list[str]) -> None:
    with understood_or(ConfigError):
        load_lambdas(words)


@pytest.mark.parametrize(
    "word",
    ["", ":", "a:", ":a", ".a:b", "..:b", "a..b:c", "os:path", "\0:a", "\ud800:a", "os:\ud800", "x" * 9_999 + ":a"],
)
def test_these_are_no_apps(word: str) -> None:
    with pytest.raises(ConfigError, match="app "):
        load_lambdas([word])


async def test_an_address_of_a_frontend_that_is_none_is_unavailable_or_refused() -> None:
    from atf import AsyncClient

    for address in (
        "",
        "x",
        ":",
        "a:b",
        "127.0.0.1:1",
        "\x1b:1",
        "a b:1",
        "dns:///x:1",
        "unix:/nowhere",
        "é:1",
        "x" * 9_000,
        "[::1:1",
    ):
        async with AsyncClient(address, timeout=0.01) as client:
            with pytest.raises(AtfError):
                await client.get("0-a")
