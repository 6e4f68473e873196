"""Has a worker stand by: it has loaded ATF, and loads its apps when the controller says so. So the executor of changed code starts soon.

The worker waits at a pipe. Its guard tells nobody of it before the controller's word has come: until then it is no executor.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping
from typing import Final

from atf.process.stops import BEGIN
from atf.process.streams import exit_at_once

from .group import Group

_TICK_MS: Final = 500
"""Between two looks whether the worker has ended."""
_ENV: Final = "ATF_STAND_BY_FD"


class StandBy:
    """The guard's side.

    Attributes:
        descriptor: the worker's end of the pipe, which it inherits.
        env: what the worker must find in its environment.
    """

    def __init__(self) -> None:
        self.descriptor, self._ours = os.pipe()
        self.env: Mapping[str, str] = {_ENV: str(self.descriptor)}

    def over(self, group: Group, signals: int) -> bool:
        """Waits for the controller's word at stdin, and passes it on. False: that was another word, it is gone, a signal came, or the worker has ended."""
        os.close(self.descriptor)
        poll = select.poll()
        for each in (0, signals):
            poll.register(each, select.POLLIN | select.POLLHUP)
        while not group.ended():
            for descriptor, _ in poll.poll(_TICK_MS):
                if descriptor == 0:
                    begins = os.read(0, 1) == BEGIN
                    if begins:
                        os.write(self._ours, BEGIN)
                    os.close(self._ours)
                    return begins
                if set(os.read(signals, 512)) - {signal.SIGCHLD}:
                    return False
        return False


def wait_for_word() -> None:
    """The worker's side: waits, if it stands by. It ends with its guard."""
    descriptor = os.environ.pop(_ENV, "")
    if descriptor:
        word = os.read(int(descriptor), 1)
        os.close(int(descriptor))
        if word != BEGIN:
            exit_at_once(0)
