"""When processes die: a thread asks the kernel, so that an instant is exact whatever the event loop is busy with."""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Final

from .record import now_us

_LOOK_S: Final = 0.05
"""Seconds between two looks at new processes; a death wakes it at once."""
_LOOK_OFTEN_S: Final = 0.002
"""The same where the kernel can't wake it."""


class Deaths:
    """Watches processes by a name of each; `stop` ends the watch."""

    def __init__(self) -> None:
        self._new: list[tuple[str, int]] = []
        self._known: set[str] = set()
        self._died: dict[str, int] = {}
        self._stopping = False
        run = self._wait if hasattr(os, "pidfd_open") else self._look
        self._thread = threading.Thread(target=run, name="deaths", daemon=True)
        self._thread.start()

    def watch(self, name: str, pid: int) -> None:
        """Watches a process too; again does no harm."""
        if name not in self._known:
            self._known.add(name)
            self._new.append((name, pid))

    def died_us(self, name: str) -> int:
        """When it died, in µs of CLOCK_MONOTONIC; 0: it lives."""
        return self._died.get(name, 0)

    @property
    def all(self) -> dict[str, int]:
        """When each died that did."""
        return dict(self._died)

    def stop(self) -> None:
        """Ends the watch."""
        self._stopping = True
        self._thread.join()

    def _wait(self) -> None:
        poll = select.poll()
        names: dict[int, str] = {}
        while not self._stopping:
            while self._new:
                name, pid = self._new.pop()
                try:
                    descriptor = os.pidfd_open(pid)
                except ProcessLookupError:
                    self._died[name] = now_us()
                    continue
                names[descriptor] = name
                poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll(_LOOK_S * 1000):
                self._died[names.pop(descriptor)] = now_us()
                poll.unregister(descriptor)
                os.close(descriptor)
        for descriptor in names:
            os.close(descriptor)

    def _look(self) -> None:
        alive: list[tuple[str, int]] = []
        while not self._stopping:
            while self._new:
                alive.append(self._new.pop())
            for name, pid in list(alive):
                try:
                    os.kill(pid, 0)
                except ProcessLookupError:
                    self._died[name] = now_us()
                    alive.remove((name, pid))
            time.sleep(_LOOK_OFTEN_S)
