"""With ATF_TEST_ACL=1 the store that `atf up` and its like start lets everybody do only what the user that ships may do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from atf.embedded.binary import find_binary
from tests.store.servers import RESTRICTED, restricted


@pytest.fixture(autouse=True, scope="session")
def embedded_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Puts a server on PATH that everybody here finds first."""
    if not RESTRICTED:
        yield
        return
    folder: Path = tmp_path_factory.mktemp("restricted")
    restricted(folder, str(find_binary().path))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
        yield
