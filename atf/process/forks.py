"""Keeps processes of ATF fit to fork: roles, whose controller starts executors, and executors, whose lambdas do as they like.

gRPC: left to itself, it starts its threads again in every child, until that runs another program. There they go on with what those of the
parent were about to do: a child of an executor, born while a connection opened, sent on it as well, after which the HSC refused every
result that came over it. A client is another matter (client/fork.py).

Signals: an event loop has the signals that it handles written to a pipe, and a child inherits both the handlers and the pipe. A signal to
such a child, as `multiprocessing.Process.terminate` sends, would do nothing to the child and stop the parent.

Needs nothing: a guard loads it, too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident  # noqa: TID251  any thread may fork
from typing import Any, Final

FORK_SUPPORT: Final = "GRPC_ENABLE_FORK_SUPPORT"
"""The variable that gRPC reads when it is loaded."""


@contextmanager
def without_fork_support() -> Iterator[None]:
    """GRPC that is loaded within the block does nothing at a fork. What this process starts finds the variable as it was."""
    before = os.environ.get(FORK_SUPPORT)
    os.environ[FORK_SUPPORT] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FORK_SUPPORT]
        else:
            os.environ[FORK_SUPPORT] = before


class _ForkSignals:
    """What this process does with signals, which no child of it shall do."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._masks: dict[int, set[int]] = {}
        """What each thread that forks just now had blocked before."""
        os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def handled(self, *numbers: int) -> None:
        self._handlers.update({number: signal.getsignal(number) for number in numbers})

    def _before(self) -> None:
        # A signal that reaches the child before `_in_child` has run must wait for it: the handler is the parent's until then.
        if self._handlers:
            self._masks[get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, self._handlers)

    def _in_parent(self) -> None:
        mask = self._masks.pop(get_ident(), None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _in_child(self) -> None:
        mask = self._masks.get(get_ident())
        self._masks.clear()
        if mask is None:
            return
        signal.set_wakeup_fd(-1)
        for number, ours in self._handlers.items():
            if signal.getsignal(number) is ours:  # else user code has set its own, which its children have as well
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        self._handlers.clear()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_SIGNALS: Final = _ForkSignals()


def keep_signals_from_children(*numbers: int) -> None:
    """Children that this process forks from now on get Python's own handlers of these signals, and never wake its event loop.

    Args:
        numbers: the signals that this process has just begun to handle.
    """
    _SIGNALS.handled(*numbers)
