"""The short way for threads: what a thread schedules is sent on that very thread, by gRPC's blocking API.

No event loop and no other thread takes part, which halves the CPU of a call. A thread that finds nobody calling makes a call at
once. While it is under way, other threads queue; when it is back, the first of them makes the next call, for all that wait by
then. So a lone thread waits for nobody, and many share calls.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from atf.errors import AtfError, Unavailable
from atf.retry import Pauses
from atf.rpc import frontend_pb2 as f
from atf.runtime import Runtime

from .calls import AGAIN, FIRST_PAUSE, LONGEST_PAUSE, TRY_TIMEOUT
from .coalesce import answer_of, take
from .fork import GATE

if TYPE_CHECKING:
    from .transport import BlockingChannel

_PATH: Final = "/atf.v1.Frontend/ScheduleMany"


class Sender(Protocol):
    """Makes one call, which takes at most so many seconds."""

    def __call__(self, request: f.ScheduleManyRequest, timeout: float, /) -> f.ScheduleManyReply: ...


class _Waiting:
    """One thread's request."""

    __slots__ = ("answer", "request", "size", "turn", "until")

    def __init__(self, request: f.ScheduleRequest, until: float) -> None:
        self.request = request
        self.size = request.ByteSize()
        self.until = until
        self.turn = threading.Lock()
        """Released once: it has its answer, or it is this thread's turn to call."""
        self.turn.acquire()
        self.answer: f.ScheduleReply | AtfError | None = None


class Door:
    """Through which the threads of a process schedule.

    Args:
        send: makes a call.
        monotonic: the clock.
    """

    def __init__(self, send: Sender, monotonic: Callable[[], float]) -> None:
        self._send = send
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._caller: _Waiting | None = None
        GATE.add(self)

    def schedule(self, request: f.ScheduleRequest, timeout: float) -> f.ScheduleReply:
        """Sends one request, in company if there is any.

        Args:
            request: with its id.
            timeout: seconds. A call ends by the time of the first request in it, and nobody waits for more than one call before
                the own one.

        Raises:
            AtfError: what became of this request, or of the call that it travelled in.
        """
        mine = _Waiting(request, self._monotonic() + timeout)
        with self._lock:
            self._waiting.append(mine)
            self._caller = self._caller or mine
            calls = self._caller is mine
        try:
            if not calls:
                mine.turn.acquire()
            if mine.answer is None:
                self._call(mine)
        except BaseException:  # such as Ctrl-C
            self._leave(mine)
            raise
        if isinstance(mine.answer, AtfError):
            raise mine.answer
        assert mine.answer is not None
        return mine.answer

    def _call(self, mine: _Waiting) -> None:
        with self._lock:
            batch = take(self._waiting)
        failure: AtfError = Unavailable("the thread that called for this one, too, was interrupted")
        try:
            timeout = max(0.001, min(each.until for each in batch) - self._monotonic())
            reply = self._send(f.ScheduleManyRequest(requests=[each.request for each in batch]), timeout)
            for each, result in zip(batch, reply.results, strict=True):
                each.answer = answer_of(result)
        except AtfError as error:
            failure = error
        finally:
            for each in batch:
                if each.answer is None:
                    each.answer = type(failure)(*failure.args)
                if each is not mine:
                    each.turn.release()
            self._next()

    def _next(self) -> None:
        with self._lock:
            self._caller = self._waiting[0] if self._waiting else None
            if self._caller is not None:
                self._caller.turn.release()

    def _leave(self, mine: _Waiting) -> None:
        """A thread gives up. If it is its turn, that is the next one's."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
            passes = self._caller is mine
        if passes:
            self._next()

    def forked(self) -> list[Any]:
        self._lock = threading.Lock()
        self._waiting.clear()
        self._caller = None
        return []


class Direct:
    """Schedules for threads.

    Args:
        address: host:port of the frontend.
        timeout: seconds that a call may take, repetitions included.
        runtime: clocks and chance.
        sleep: waits so many seconds.
    """

    def __init__(
        self, address: str, timeout: float, runtime: Runtime, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._address = address
        self._timeout = timeout
        self._runtime = runtime
        self._sleep = sleep
        self._door = Door(self._send, runtime.monotonic)
        self._channel: BlockingChannel | None = None
        self._closed = threading.Event()

    def schedule(self, request: f.ScheduleRequest) -> f.ScheduleReply:
        """Stores one task; blocks. Repeated while the frontend is away, as long as there is time."""
        until = self._runtime.monotonic() + self._timeout
        pauses: Pauses | None = None
        while True:
            left = until - self._runtime.monotonic()
            try:
                return self._door.schedule(request, max(0.001, min(TRY_TIMEOUT, left)))
            except AGAIN:
                pauses = pauses or Pauses(self._runtime.random, first=FIRST_PAUSE, most=LONGEST_PAUSE)
                wait = pauses.next()
                if self._closed.is_set() or self._runtime.monotonic() + wait >= until:
                    raise
                self._sleep(wait)

    def _send(self, request: f.ScheduleManyRequest, timeout: float) -> f.ScheduleManyReply:
        if self._closed.is_set():
            raise Unavailable("the client is closed")
        if self._channel is None:
            with GATE.loading():
                from .transport import BlockingChannel

            self._channel = BlockingChannel(self._address)
        return self._channel.call(_PATH, request, f.ScheduleManyReply, timeout)

    def close(self) -> None:
        """Ends the connection. Calls of other threads, and later ones, raise Unavailable."""
        self._closed.set()
        if self._channel is not None:
            self._channel.cut()
