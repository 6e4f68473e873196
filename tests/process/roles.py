"""Processes of roles: the lines that they write, and their ends."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from typing import Any


async def line(process: Process, event: str, within: float = 20) -> dict[str, Any]:
    """The next line about `event`."""
    assert process.stderr is not None
    async with asyncio.timeout(within):
        while raw := await process.stderr.readline():
            found: dict[str, Any] = json.loads(raw)
            if found["event"] == event:
                return found
    raise AssertionError(f"it ended without a line about {event!r}")


async def line_of(process: Process, role: str, event: str, within: float = 60) -> dict[str, Any]:
    """The next line about `event` of a role itself; a controller's executors write among its lines."""
    while (found := await line(process, event, within))["role"] != role:
        pass
    return found


async def end(process: Process, within: float = 20) -> int:
    """Its exit code, once it has ended."""
    async with asyncio.timeout(within):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode
