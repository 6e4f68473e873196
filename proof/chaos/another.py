"""A role beside those of a row's cluster, so that there are several of it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from atf.cli.local.processes import ExecutorPids, executors_of
from atf.embedded.child import Child


class Another:
    """A role's process; its row starts it again when it was killed.

    Args:
        env: of it, with the store's address.
        words: its command line after `atf`.
        log: takes its lines.
    """

    def __init__(self, env: Mapping[str, str], words: Sequence[str], log: Path) -> None:
        self._env, self._words, self._log = env, words, log
        self._child: Child | None = None

    def start(self) -> None:
        """Returns before it is up."""
        self._child = Child([sys.executable, "-P", "-m", "atf.cli", *self._words], env=self._env, on_line=self._line)

    @property
    def pid(self) -> int:
        """Of the process; 0: it was never started."""
        return self._child.pid if self._child is not None else 0

    async def kill_alone(self) -> None:
        """SIGKILL to the process, and not to those that it has started; returns when it is gone."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            await self._child.wait()

    async def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self._child is not None:
            self._child.kill_group()
            await self._child.wait()

    def executors(self) -> list[ExecutorPids]:
        """Of a controller: its executors that run now."""
        return executors_of(self._child.pid) if self._child is not None and self._child.running else []

    def _line(self, line: str) -> None:
        with self._log.open("a", encoding="utf-8") as file:
            print(line, file=file)
