"""Knows one isolated run: what it is told, whether its process was killed, and what the end of that process means for its task."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading  # noqa: TID251  a worker's thread waits for its run
from typing import Final

from atf.executor.held import HeldTask
from atf.executor.outcome import HandedBack, Outcome, Returned, RunFailed, RunStopped, RunTimedOut

from .packets import pack, tell_server

NOT_MADE_S: Final = 1.0
"""Seconds until a run may be tried again for which the system gave no process."""


class IsolatedRun:
    """One run in a process of its own, as its task knows it. Its methods are called on the executor's loop."""

    def __init__(self, number: int, connection: socket.socket, control: socket.socket) -> None:
        self.number = number
        self.killed = False
        self.code: int | None = None
        """The exit code of its process, -n for signal n; None: it has not ended, or nobody knows."""
        self.unborn = ""
        """Why its process could not be made."""
        self.over = threading.Event()
        self._socket = connection
        self._control = control
        self._open = threading.Lock()
        self._closed = False

    def tell(self, word: str, *fields: object) -> None:
        """Says something to the lambda; from any thread."""
        with self._open:
            if not self._closed:
                with contextlib.suppress(
                    OSError
                ):  # its process has ended; or it does not listen, and is killed in time
                    self._socket.send(pack(word, *fields), socket.MSG_DONTWAIT)

    def kill(self) -> bool:
        """Kills its process. False: that was tried before, or can't be."""
        if self.killed:
            return False
        self.killed = True
        return tell_server(self._control, "kill", self.number)

    def ended(self, code: int | None) -> None:
        """Its process has ended, with this exit code; None: its fork server has, and the kernel ends it, or it was never made."""
        self.code = code
        self.over.set()
        with self._open:
            if code is not None and not self._closed:
                # The worker reads what was said last, and then sees the end, though a child of the run may still hold the other end.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """The worker is done with it."""
        with self._open:
            self._closed = True
            self._socket.close()


def judged(task: HeldTask, run: IsolatedRun, said: Outcome | None) -> Outcome:
    """How a run ended whose process has. `said`: what its process said of it; None: nothing."""
    if run.unborn:
        return HandedBack(f"no process could be made for the run: {run.unborn}", NOT_MADE_S)
    if task.timed_out:
        more = "; its process was killed, since it did not end by itself" if run.killed else ""
        return RunTimedOut(f"timed out after {task.timeout:g} s{more}")
    if task.cancelled and not isinstance(said, Returned):
        if run.killed:
            return RunStopped("cancelled; its process was killed, since it did not end by itself")
        if said is None or isinstance(said, RunStopped):
            return said or RunStopped("cancelled")
        return RunStopped(f"cancelled; {said.error}")
    if said is not None:
        return said
    if run.code is None:
        return RunFailed("the run's process ended with the fork server of its executor")
    return RunFailed(f"the run's process {how_it_ended(run.code)}" + " before the lambda returned" * (run.code >= 0))


def how_it_ended(code: int) -> str:
    """An exit code in words; -n for signal n."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "a signal without a name"
    memory = ": by the kernel, where memory ran out, or by hand" if code == -signal.SIGKILL else ""
    return f"was killed by {name} (signal {-code}){memory}"
