"""Writes a guard's own log lines, and what the worker and its children write to stdout and stderr.

A guard reads that and says it on its own stdout and stderr. So a write never fails there and never has to wait, whatever has become of where the guard writes. A full disk or a reader that has ended
would otherwise reach user code: `print` would raise, and a program that a lambda starts would end of SIGPIPE.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading  # noqa: TID251  the guard itself must not wait for who writes much
from datetime import UTC, datetime

from atf.config.settings import LogSettings
from atf.process.safe_output import SafeOutput

_AT_ONCE = 64 << 10


def say(logs: LogSettings, event: str, *, executor: str = "") -> None:
    """Says an error in one line, in the form of the role's log (atf/log.py), without what that would load.

    Args:
        logs: the format; a terminal's is text, as is `console`.
        event: what has happened.
        executor: its id; empty: there is none yet.
    """
    if logs.log_format == "console" or (logs.log_format == "auto" and sys.stderr.isatty()):
        sys.stderr.write(f"executor {executor}: {event}\n" if executor else f"executor: {event}\n")
        return
    line = {"role": "executor", "pid": os.getpid(), "event": event, "level": "error"}
    line |= {"executor": executor} if executor else {}
    line["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")  # noqa: TID251  as a line of the log has it
    sys.stderr.write(json.dumps(line) + "\n")


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
            output.wait_written(seconds)

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
