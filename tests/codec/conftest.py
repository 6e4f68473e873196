"""A pipeline whose caller and executor have a key file, and all that its store holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fakeredis
import pytest

from atf.codec.key_file import new_keys, write_keys
from tests.store.world import read


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "codec.keys")
    write_keys(path, new_keys(), new=True)
    monkeypatch.setenv("ATF_CODEC_KEYS", path)
    return path


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Every key and value of the stores that are made from now on, as text."""
    server = fakeredis.FakeServer()
    monkeypatch.setattr(fakeredis, "FakeServer", lambda: server)
    return lambda: repr(read(fakeredis.FakeRedis(server=server)).data)
