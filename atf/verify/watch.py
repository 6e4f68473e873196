"""Learns exactly when processes die, from a process of its own that asks the kernel.

A run that its executor's drain has cut begins elsewhere some 40 ms after the death. A thread of a busy caller may hear of it later than that.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path


class ProcessWatch:
    """Watches processes by a name of each; `stop` ends the watch."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._died: dict[str, int] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("watcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,  # a Ctrl-C is not for it
        )
        self._thread = threading.Thread(target=self._read, name="deaths", daemon=True)
        self._thread.start()

    def watch(self, name: str, pid: int) -> None:
        """Watches a process too; again does no harm.

        Raises:
            OSError: the watch has ended.
        """
        if name not in self._known:
            self._known.add(name)
            assert self._process.stdin is not None
            self._process.stdin.write(f"{pid} {name}\n")

    def died_us(self, name: str) -> int:
        """When it died, in µs of CLOCK_MONOTONIC; 0: it lives."""
        return self._died.get(name, 0)

    @property
    def all(self) -> dict[str, int]:
        """When each died that did."""
        return dict(self._died)

    def stop(self) -> None:
        """Ends the watch."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as deaths:
            for line in deaths:
                at_us, _, name = line.rstrip("\n").partition(" ")
                self._died[name] = int(at_us)
