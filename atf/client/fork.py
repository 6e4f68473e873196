"""Keeps a process that uses gRPC fit to fork: preforked web servers do, after they have scheduled tasks.

gRPC's own state does not survive a fork while a call is under way: the child crashed or hung in 2 of 24 trials, and with
GRPC_ENABLE_FORK_SUPPORT in 8 of 22. Nor does grpc.aio in any state: parent and child share its poller, and both hang at once.
It does survive in the blocking API while nothing is under way. So a fork waits here until no call is:

1. No call starts and no connection opens while a fork is prepared; starters wait.
2. Calls under way may end within GRACE; what has not (a long poll) is cancelled. Its caller asks again, as after any
   lost connection.
3. The child leaves the connections that it inherited untouched for ever, and opens its own at its first call.

A process that also uses grpc.aio, as an executor does, can't keep to that: its children are refused every call, in words (`refuse_children`).

Loads no gRPC itself: its import too must not be cut in two by a fork.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from atf.errors import FailedPrecondition

GRACE: Final = 0.25
"""Seconds in which calls under way may end by themselves before a fork."""
CANCEL_TIME: Final = 5.0
"""Seconds that cancelled calls may take to end; gRPC does it within milliseconds."""


T = TypeVar("T")


class Inheritor(Protocol):
    """Holds what a child process must not use."""

    def forked(self) -> list[Any]:
        """Runs in the child: gives up what it inherited, and returns it so that it is never collected."""
        ...


class _Blocking:
    """A call that blocks its thread, as something that can be cancelled."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self.cancel = cancel


class ForkGuard:
    """Through which every call of the process passes."""

    def __init__(self) -> None:
        self._inheritors: weakref.WeakSet[Inheritor] = weakref.WeakSet()
        self._inherited: list[Any] = []
        self._of_children = ""
        self._refusal = ""
        self._reset()
        os.register_at_fork(
            before=self._before, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child
        )

    def _reset(self) -> None:
        self._opening = threading.RLock()
        self._quiet = threading.Condition()
        self._under_way: set[Any] = set()

    def add(self, inheritor: Inheritor) -> None:
        """`inheritor` will be told, once in each child process, as long as it lives."""
        self._inheritors.add(inheritor)

    def refuse_children(self, why: str) -> None:
        """From now on every call in a child of this process raises FailedPrecondition(why), where it would hang or crash."""
        self._of_children = why

    def check(self, work: Coroutine[Any, Any, Any] | None = None) -> None:
        """Raises FailedPrecondition if this process is a child whose calls are refused. `work` was to make one: it is closed then."""
        if self._refusal:
            if work is not None:
                work.close()
            raise FailedPrecondition(self._refusal)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """No fork happens within the block: a module that another thread has half loaded would never load in the child."""
        with self._opening:
            yield

    def start(self, begin: Callable[[], Any]) -> Any:
        """Begins a call and returns its future; waits while a fork is being prepared.

        Args:
            begin: opens what has to be opened, and returns the grpc.Future.

        Raises:
            FailedPrecondition: see `refuse_children`.
        """
        self.check()
        with self._opening:
            call = begin()
            with self._quiet:
                self._under_way.add(call)
        call.add_done_callback(self._ended)
        return call

    @contextmanager
    def blocking(self, begin: Callable[[], T], cut: Callable[[], object]) -> Iterator[T]:
        """Within the block this thread makes a call that blocks; waits while a fork is being prepared.

        Args:
            begin: opens what has to be opened, and returns what the block calls.
            cut: ends the call from another thread.

        Raises:
            FailedPrecondition: see `refuse_children`.
        """
        self.check()
        call = _Blocking(cut)
        with self._opening:
            begun = begin()
            with self._quiet:
                self._under_way.add(call)
        try:
            yield begun
        finally:
            self._ended(call)

    def _ended(self, call: Any) -> None:
        with self._quiet:
            self._under_way.discard(call)
            if not self._under_way:
                self._quiet.notify_all()

    def _before(self) -> None:
        self._opening.acquire()
        if self._wait_until_quiet(GRACE):
            return
        with self._quiet:
            left = list(self._under_way)
        for call in left:
            call.cancel()
        self._wait_until_quiet(CANCEL_TIME)

    def _wait_until_quiet(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        with self._quiet:
            while self._under_way:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._quiet.wait(left)
        return True

    def _after_in_parent(self) -> None:
        self._opening.release()

    def _after_in_child(self) -> None:
        # The locks may be held by threads that do not exist here.
        self._reset()
        self._refusal = self._of_children
        for inheritor in list(self._inheritors):
            self._inherited.extend(inheritor.forked())


FORK_GUARD: Final = ForkGuard()
"""One for the process, as a fork is."""
