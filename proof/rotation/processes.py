"""Processes of roles, for the proofs of tokens and certificates."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_START_S: Final = 60.0
_PLAIN: Final = "import sys; from atf.cli import main; sys.exit(main(sys.argv[1:]))"


@contextlib.asynccontextmanager
async def running(
    *words: str, first: str = "", kill: bool = False, env: Mapping[str, str] = {}
) -> AsyncIterator[dict[str, Any]]:
    """A process of `atf` with these words; gives its line that it is ready.

    Args:
        words: of its command line.
        first: Python that it runs before.
        kill: whether it is killed in the end: a worker whose token is revoked tries for 10 s to say goodbye.
        env: of its environment, beside which it has no variable of ATF's.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    own |= {"PYTHONPATH": str(ROOT), "ATF_LOG_FORMAT": "json", **env}
    command = [sys.executable, "-P", "-c", f"{first}\n{_PLAIN}", *words]
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stderr=PIPE, env=own)
    try:
        ready = await _ready(process, words)
        reading = asyncio.ensure_future(_drop(process))
        yield ready
    finally:
        if process.returncode is None:
            process.kill() if kill else process.terminate()
        await process.wait()
    await reading


async def _ready(process: Process, words: Sequence[str]) -> dict[str, Any]:
    assert process.stderr is not None
    role, said = {"worker": "controller"}.get(words[0], words[0]), b""
    async with asyncio.timeout(_START_S):
        while line := await process.stderr.readline():
            said += line
            found = json.loads(line) if line.startswith(b"{") else {}
            if found.get("event") == "ready" and found["role"] == role:
                return dict(found)
    raise AssertionError(said.decode())


async def _drop(process: Process) -> None:
    assert process.stderr is not None
    while await process.stderr.readline():
        pass


def children(pid: int) -> list[int]:
    """A process, and all that it and they have started."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
    return found
