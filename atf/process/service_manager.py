"""Tells systemd how a process does that it has started with Type=notify: that it is ready, drains, or is alive.

As sd_notify(3) says: lines in a datagram to the socket that NOTIFY_SOCKET names. The packages that do it need a compiler, or are kept by nobody.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping
from typing import Final

_WATCHED_EVERY: Final = 3.0
"""Signs of life within the time that systemd waits for one."""


class ServiceManager:
    """Who has started this process, and wants to know how it does; nobody, where it was started otherwise.

    What says so is taken out of the environment: the processes that this one starts are not the service.

    Attributes:
        alive_every_s: seconds between two signs of life that it wants; 0: it wants none.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watched, within_us = environment.pop("WATCHDOG_PID", ""), environment.pop("WATCHDOG_USEC", "")
        ours = self._address and watched in {"", str(os.getpid())} and within_us.isdigit()
        self.alive_every_s = int(within_us) / 1e6 / _WATCHED_EVERY if ours else 0.0

    def ready(self, status: str) -> None:
        """The process serves."""
        self._tell("READY=1", status)

    def waits(self, status: str) -> None:
        """It can't serve yet, and says why."""
        self._tell(status=status)

    def stopping(self, why: str) -> None:
        """It drains, and ends after that."""
        self._tell("STOPPING=1", f"drains: {why}")

    def alive(self) -> None:
        """Its event loop goes round."""
        self._tell("WATCHDOG=1")

    def _tell(self, state: str = "", status: str = "") -> None:
        if not self._address:
            return
        lines = "\n".join(each for each in (state, f"STATUS={' '.join(status.split())}" if status else "") if each)
        # An address that begins with @ is in Linux's abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(lines.encode("utf-8", "replace"), address)
