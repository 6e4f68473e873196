"""Decides what asks a process to end, and when that means at once. Pure, and the same for every process: roles, guards, workers, `atf up`.

One stop may reach a process several times: a service manager signals every process of a service, and a parent passes its own stop on.
So all of these are one stop, which is carried out in order. Only a person who asks again means "at once":

    SIGTERM, SIGINT      the first asks to end in order; another one, AGAIN_S later or more, to end at once
    SIGHUP               asks to end in order, however often: a terminal was closed, or a service manager sends it beside SIGTERM
    a parent's word      asks to end in order, by a pipe; it is no signal, so it is neither the first nor the second one

Needs nothing: a guard loads it, too.
"""

from __future__ import annotations

import signal
from typing import Final

AGAIN_S: Final = 1.0
"""Seconds after the first SIGTERM or SIGINT within which others count as the same. A stop reaches every process within milliseconds."""
DRAIN: Final = b"d"
"""A controller's word to the guard of an executor: let it finish what it has started."""
AT_ONCE: Final = b"k"
"""A controller's word to the guard of an executor: kill it. The end of the pipe says that the controller is gone, and means DRAIN."""
BEGIN: Final = b"b"
"""A controller's word to the guard of an executor that stands by: let it load its apps, and work."""
_INSIST: Final = frozenset({signal.SIGTERM, signal.SIGINT})


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask to end. SIGHUP is none of them where whoever started this process has it ignored, as nohup does."""
    kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT) if kept else (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequests:
    """The signals that a process has got."""

    def __init__(self) -> None:
        self._first: float | None = None

    def at_once(self, number: int, now: float) -> bool:
        """Takes a signal that asks to end.

        Args:
            number: which.
            now: seconds of the monotonic clock.

        Returns:
            Whether it asks to end at once, and not in order.
        """
        if number not in _INSIST:
            return False
        if self._first is None:
            self._first = now
        return now - self._first >= AGAIN_S
