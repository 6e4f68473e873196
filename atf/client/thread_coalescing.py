"""Sends what a thread schedules on that very thread, by gRPC's blocking API or to its own frontend, and shares calls with other threads.

No event loop and no other thread takes part, which halves the CPU of a call. A thread that finds nobody calling makes a call at
once. While it is under way, other threads queue; when it is back, the first of them makes the next call, for all that wait by
then. So a lone thread waits for nobody, and many share calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from atf.calls.coalescing import Pending, again
from atf.calls.retry import retry_blocking
from atf.config.store_urls import is_store_url
from atf.errors import AtfError, DeadlineExceeded, Unavailable
from atf.rpc import frontend_pb2 as f
from atf.runtime import Runtime

from .calls import LIMITS, answer_of
from .fork import FORK_GUARD
from .own_frontend import open_blocking_frontend
from .retrying import AGAIN, TRY_TIMEOUT, time_of_try

if TYPE_CHECKING:
    from atf.direct.blocking_channel import DirectBlockingChannel
    from atf.rpc.caller_security import CallerSecurity
    from atf.rpc.several import BlockingOneOfSeveral

    from .transport import ForkSafeBlockingChannel

_ONE: Final = "/atf.v1.Frontend/Schedule"
_MANY: Final = "/atf.v1.Frontend/ScheduleMany"
_GONE_S: Final = TRY_TIMEOUT + 5
"""Seconds that no call takes."""


class _Waiting:
    """One thread's request."""

    __slots__ = ("answer", "request", "turn", "until")

    def __init__(self, request: f.ScheduleRequest, until: float) -> None:
        self.request = request
        self.until = until
        self.turn = threading.Lock()
        """Released once: it has its answer, or it is this thread's turn to call."""
        self.turn.acquire()
        self.answer: f.ScheduleReply | AtfError | None = None


class ThreadCoalescer:
    """Gathers what the threads of a process schedule into calls, each made by one of these threads.

    Args:
        send: makes a call, which takes at most so many seconds; one answer for each request.
        monotonic: the clock.
    """

    def __init__(
        self,
        send: Callable[[Sequence[f.ScheduleRequest], float], Sequence[f.ScheduleReply | AtfError]],
        monotonic: Callable[[], float],
    ) -> None:
        self._send = send
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._pending: Pending[_Waiting] = Pending(LIMITS)
        self._caller: _Waiting | None = None
        self._since = 0.0
        FORK_GUARD.add(self)

    def schedule(self, request: f.ScheduleRequest, timeout: float) -> f.ScheduleReply:
        """Sends one request, in company if there is any.

        Args:
            request: with its id.
            timeout: seconds.

        Raises:
            AtfError: what became of this request, or of the call that it travelled in.
        """
        mine = _Waiting(request, self._monotonic() + timeout)
        try:
            with self._lock:
                self._pending.add(mine, request.ByteSize())
                if self._caller is None:
                    self._caller, self._since = mine, self._monotonic()
                calls = self._caller is mine
            if not calls and not mine.turn.acquire(timeout=timeout):
                raise DeadlineExceeded(f"Schedule: no answer within {timeout:g} s")
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
        batch: list[_Waiting] = []
        failure: AtfError = Unavailable("the thread that called for this one, too, was interrupted")
        try:
            with self._lock:
                batch = self._pending.take()
            timeout = max(
                0.001, mine.until - self._monotonic()
            )  # the others wait no longer than they may, whatever this one does
            answers = self._send([each.request for each in batch], timeout)
            for each, answer in zip(batch, answers, strict=True):
                each.answer = answer
        except AtfError as error:
            failure = error
        finally:
            for each in batch:
                if each.answer is None:
                    each.answer = again(failure)
                if each is not mine:
                    each.turn.release()
            self._next()

    def _next(self) -> None:
        with self._lock:
            self._caller, self._since = self._pending.first, self._monotonic()
            if self._caller is not None:
                self._caller.turn.release()

    def _leave(self, mine: _Waiting) -> None:
        """When a caller gives up, the next waiter becomes the sender, even if the current sender is stuck: a signal handler may have raised
        in the current one where nothing could be set right.
        """
        with self._lock:
            self._pending.remove(mine)
            gone = self._caller is not None and self._monotonic() > self._since + _GONE_S
            passes = self._caller is mine or gone
        if passes:
            self._next()

    def forked(self) -> list[Any]:
        self._lock = threading.Lock()
        self._pending = Pending(LIMITS)
        self._caller = None
        return []


class ThreadScheduling:
    """Schedules for threads.

    Args:
        address: of the frontend, or of the task store.
        timeout: seconds that a call may take, with all its tries.
        runtime: clocks and chance.
        sleep: waits so many seconds.
        security: what calls show, and how connections are encrypted; None: what this process has.
    """

    def __init__(
        self,
        address: str,
        timeout: float,
        runtime: Runtime,
        sleep: Callable[[float], None] = time.sleep,
        security: CallerSecurity | None = None,
    ) -> None:
        self._address = address
        self._timeout = timeout
        self._runtime = runtime
        self._sleep = sleep
        self._security = security
        self._calls = ThreadCoalescer(self._send, runtime.monotonic)
        self._channel: ForkSafeBlockingChannel | BlockingOneOfSeveral | DirectBlockingChannel | None = None
        self._closed = threading.Event()

    def schedule(self, request: f.ScheduleRequest) -> f.ScheduleReply:
        """Stores one task; blocks. Repeated while the frontend is away, as long as there is time."""
        until = self._runtime.monotonic() + self._timeout

        def attempt() -> f.ScheduleReply:
            return self._calls.schedule(request, time_of_try(self._timeout, until - self._runtime.monotonic()))

        return retry_blocking(attempt, AGAIN, self._runtime, until=until, failed=self._unless_closed, sleep=self._sleep)

    def _unless_closed(self, error: Exception) -> None:
        if self._closed.is_set():
            raise error

    def _send(self, requests: Sequence[f.ScheduleRequest], timeout: float) -> Sequence[f.ScheduleReply | AtfError]:
        channel = self._opened()
        if len(requests) == 1:  # of a lone thread: less to pack, to look at and to answer
            return [channel.call(_ONE, requests[0], f.ScheduleReply, timeout)]
        many = channel.call(_MANY, f.ScheduleManyRequest(requests=requests), f.ScheduleManyReply, timeout)
        return [answer_of(each) for each in many.results]

    def _opened(self) -> ForkSafeBlockingChannel | BlockingOneOfSeveral | DirectBlockingChannel:
        channel = self._channel
        if channel is None:
            with FORK_GUARD.loading():
                if self._closed.is_set():
                    raise Unavailable("the client is closed")
                channel = self._channel = self._open()
        return channel

    def _open(self) -> ForkSafeBlockingChannel | BlockingOneOfSeveral | DirectBlockingChannel:
        if is_store_url(self._address):
            return open_blocking_frontend(self._address, time_of_try(self._timeout, self._timeout))
        from .transport import open_fork_safe_blocking

        return open_fork_safe_blocking(self._address, self._security)

    def close(self) -> None:
        """Ends the connection. Calls of other threads, and later ones, raise Unavailable."""
        with FORK_GUARD.loading():
            self._closed.set()
            if self._channel is not None:
                self._channel.close()
