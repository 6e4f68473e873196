"""Every role of ATF on a host of the lab: `atf up` there, on a store that lies elsewhere.

It owns that process and what is known of its descendants; who is alive when is told by the kernel, not by looking now and then.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from atf.cli.local.processes import ExecutorPids, executors_of
from atf.embedded.child import Child
from atf.errors import Unavailable

from .lab import LabHost

UP_S: Final = 60.0
"""Seconds that all roles may take to start, on a busy machine."""
_LINES_KEPT: Final = 20_000


class ChaosRoles:
    """`atf up` on a host.

    Args:
        host: where.
        url: the task store's address.
        apps: the lambdas' modules.
        env: of every process.
        flags: more flags of `atf up`.
    """

    def __init__(
        self, host: LabHost, url: str, apps: Sequence[str], env: Mapping[str, str], flags: Sequence[str] = ()
    ) -> None:
        self.host = host
        self.said: list[str] = []
        self._command = [sys.executable, "-P", "-m", "atf.cli", "up", *apps, "--redis-url", url, *flags]
        self._env = env
        self._child: Child | None = None
        self._up = asyncio.Event()

    async def start(self) -> None:
        """Returns when all roles are up.

        Raises:
            Unavailable: it ended instead, or took too long; the text has what it said last.
        """
        self._up.clear()
        with self.host.inside():
            self._child = Child(self._command, env=self._env, on_line=self._line)
        ended = asyncio.ensure_future(self._child.wait())
        up = asyncio.ensure_future(self._up.wait())
        await asyncio.wait({ended, up}, timeout=UP_S, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not up.done():
            up.cancel()
            last = "\n".join(self.said[-20:])
            raise Unavailable(f"atf up on {self.host.name} is not up:\n{last}")

    async def stop(self, grace: float = 60.0) -> int:
        """Ends it in order; its exit code."""
        return await self._child.stop(grace) if self._child is not None else 0

    def executors(self) -> list[ExecutorPids]:
        """Guards and workers that run on this host now."""
        return [pids for parent in self.host.pids() for pids in executors_of(parent) if _is_controller(parent)]

    def _line(self, line: str) -> None:
        self.said.append(line)
        del self.said[:-_LINES_KEPT]
        if line.startswith("everything is up"):
            self._up.set()


def _is_controller(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"atf.cli" in words and not {b"controller", b"worker"}.isdisjoint(words)
