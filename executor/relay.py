"""What a worker and all that its lambdas start write to stdout and stderr: the guard reads it, and says it on its own.

So a write never fails there and never has to wait, whatever has become of where the guard writes. A full disk or a reader that has ended
would otherwise reach user code: `print` would raise, and a program that a lambda starts would end of SIGPIPE.
"""

from __future__ import annotations

import os
import select
import threading  # noqa: TID251  the guard itself must not wait for who writes much

from atf.process.safe_output import SafeOutput

_AT_ONCE = 64 << 10


class Relay:
    """Two pipes, and a thread that empties them.

    Attributes:
        ends: where the worker is to write: its stdout and its stderr.
    """

    def __init__(self) -> None:
        self._ours: dict[int, SafeOutput] = {}
        ends = []
        for descriptor, name in ((1, "worker's stdout"), (2, "worker's stderr")):
            ours, theirs = os.pipe()
            self._ours[ours] = SafeOutput(descriptor, name)
            ends.append(theirs)
        self.ends: tuple[int, int] = (ends[0], ends[1])
        self._thread = threading.Thread(target=self._work, name="relay", daemon=True)

    def start(self) -> None:
        """Begins, once the worker has the ends of the pipes."""
        for each in self.ends:
            os.close(each)
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Waits until all has been said, at most about so long."""
        self._thread.join(seconds)
        for output in self._ours.values():
            output.flush()
            output.settle(seconds)

    def _work(self) -> None:
        poll = select.poll()
        left = dict(self._ours)
        for each in left:
            poll.register(each, select.POLLIN)
        while left:
            for descriptor, _ in poll.poll():
                if data := os.read(descriptor, _AT_ONCE):
                    left[descriptor].write(data)
                else:  # the last who could write has ended
                    poll.unregister(descriptor)
                    del left[descriptor]
                    os.close(descriptor)
