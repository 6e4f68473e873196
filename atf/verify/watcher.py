"""Is the process behind watch.py that waits for the deaths of others.

It is told "<pid> <name>" per line, and says "<µs of CLOCK_MONOTONIC> <name>" as soon as one has died.

Run as a file, and of the standard library alone: it is there at once, and nothing keeps it from hearing the kernel.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Final

_LOOK_S: Final = 0.002
"""Seconds between two looks where the kernel can't wake it."""


def main() -> None:
    """Watches until its stdin ends."""
    with contextlib.suppress(OSError):
        os.nice(-20)
    with contextlib.suppress(BrokenPipeError):
        if hasattr(os, "pidfd_open"):
            _wait()
        else:
            _look()


def _say(name: str) -> None:
    os.write(1, f"{time.monotonic_ns() // 1000} {name}\n".encode())


def _told() -> list[tuple[int, str]] | None:
    """Who is to be watched too; None: nobody any more."""
    data = os.read(0, 1 << 16)
    if not data:
        return None
    while not data.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            return None
        data += more
    pairs = (line.split(" ", 1) for line in data.decode().splitlines())
    return [(int(pid), name) for pid, name in pairs]


def _wait() -> None:
    poll = select.poll()
    poll.register(0, select.POLLIN)
    names: dict[int, str] = {}
    while True:
        came = [descriptor for descriptor, _ in poll.poll()]
        for descriptor in came:
            if descriptor:
                _say(names.pop(descriptor))
                poll.unregister(descriptor)
                os.close(descriptor)
        if 0 in came:
            told = _told()
            if told is None:
                return
            for pid, name in told:
                try:
                    descriptor = os.pidfd_open(pid)
                except ProcessLookupError:
                    _say(name)
                else:
                    names[descriptor] = name
                    poll.register(descriptor, select.POLLIN)


def _look() -> None:
    alive: list[tuple[int, str]] = []
    while True:
        if select.select([0], [], [], _LOOK_S)[0]:
            told = _told()
            if told is None:
                return
            alive += told
        for pid, name in list(alive):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                _say(name)
                alive.remove((pid, name))


if __name__ == "__main__":
    main()
