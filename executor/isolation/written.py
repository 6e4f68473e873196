"""Reads what an isolated run writes to its descriptors 1 and 2: C code, faulthandler, programs that it starts.

The worker reads it while it waits for the run, and says it line by line as the run's (output/lines.py). So it is there, too, when the run has crashed.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Iterator, Sequence
from typing import Final

from atf.executor.output import capture as output

from .packets import receive

_AT_ONCE: Final = 64 << 10
"""Bytes; a pipe holds as many."""
_LAST_READS: Final = 16
"""Of each pipe when the run has ended; what may still write is about to be killed."""


class Written:
    """Two pipes. Used in the thread that waits for the run, as which `current` is set there.

    Raises:
        OSError: no descriptors are left.
    """

    def __init__(self) -> None:
        self._streams: dict[int, str] = {}
        """By the descriptor that is read here."""
        self._ends: list[int] = []
        self._poll = select.poll()
        try:
            for stream in ("stdout", "stderr"):
                ours, theirs = os.pipe()
                self._streams[ours] = stream
                self._ends.append(theirs)
                os.set_blocking(ours, False)
                self._poll.register(ours, select.POLLIN)
        except OSError:
            self.close()
            raise

    @contextlib.contextmanager
    def ends(self) -> Iterator[Sequence[int]]:
        """Where the run is to write: stdout and stderr; this process keeps them no longer than it gives them on."""
        try:
            yield self._ends
        finally:
            self._close(self._ends)

    def receive(self, connection: socket.socket) -> bytes:
        """The next packet, as packets.receive gives it; until it comes, what is written is said."""
        waited = connection.fileno()
        self._poll.register(waited, select.POLLIN)
        ready: set[int] = set()
        while waited not in ready:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            for descriptor in ready & self._streams.keys():
                self._say(descriptor)
        return receive(connection)

    def say_rest(self) -> None:
        """Says what was written last."""
        for descriptor in list(self._streams):
            for _ in range(_LAST_READS):
                if not self._say(descriptor):
                    break

    def close(self) -> None:
        """Closes what is open of it."""
        self._close(self._ends)
        self._close(list(self._streams))
        self._streams.clear()

    def _say(self, descriptor: int) -> bool:
        """Says what there is; whether there was something."""
        try:
            data = os.read(descriptor, _AT_ONCE)
        except BlockingIOError:
            return False
        if data:
            output.write(self._streams[descriptor], data)
        else:  # nobody can write any more
            self._poll.unregister(descriptor)
            del self._streams[descriptor]
            os.close(descriptor)
        return bool(data)

    @staticmethod
    def _close(descriptors: list[int]) -> None:
        while descriptors:
            os.close(descriptors.pop())
