"""Bounds what one caller may ask of a server: calls under way, open streams, bytes of their requests, calls a second.

A caller is a token or a certificate; an executor counts as the token that it works by. Where auth is off, it is a connection. Each server of a process has one CallerLimits,
which its gRPC port and its HTTP ports share: without it (tests, a frontend within a program) nothing is bounded.

A request is read only after its caller was let in, and counted. So whoever shows nothing valid takes no memory, and a caller at most `caller_mib`,
READS messages more, and as much again on streams on which it sends: there a message may come at any time, so each counts as one of the largest.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from atf.config.settings import SecuritySettings
from atf.errors import AtfError, DeadlineExceeded, TooManyCalls
from atf.log import get_logger
from atf.metrics.metrics import Metrics
from atf.metrics.table import CALLS_REFUSED
from atf.process.descriptors import SPARE

from .failure import MAX_MESSAGE_BYTES

T = TypeVar("T")

READ_S: Final = 30.0
"""Seconds in which a request must have come after its headers."""
READS: Final = 32
"""Requests of one caller that are being read at the same time; those that are there already take no time."""
BURST_S: Final = 2.0
"""Seconds of `caller_rate` that may come at once."""
MOST_CALLERS: Final = 10_000
"""That are remembered before those are looked for that may be forgotten."""
SAY_EVERY_S: Final = 60.0
LIMITS: Final = ("calls", "streams", "bytes", "rate", "slow", "token")
"""As the metric names them."""

_log = get_logger()


class Usage:
    """What one caller has under way."""

    __slots__ = ("at", "bytes", "calls", "reading", "reads", "room", "sending", "streams", "waiting")

    def __init__(self, room: float, now: float) -> None:
        self.calls = self.streams = self.sending = self.bytes = self.reading = 0
        self.reads = READS
        self.room = room
        """Calls that it may begin at once, as it was at `at`."""
        self.at = now
        self.waiting: deque[asyncio.Future[None]] = deque()
        """Calls whose request is read when those that are being read have come."""

    async def turn(self) -> None:
        """Returns when one more request may be read."""
        while self.reading >= self.reads:
            mine = asyncio.get_running_loop().create_future()
            self.waiting.append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():  # it was this one's turn
                    self.wake()
                raise

    def wake(self) -> None:
        """One more request may be read."""
        while self.waiting:
            first = self.waiting.popleft()
            if not first.done():
                first.set_result(None)
                return


class CallerLimits:
    """The limits of one server.

    Args:
        settings: what they are.
        metrics: where refusals are counted.
        read_s: seconds in which a request must have come.
    """

    def __init__(self, settings: SecuritySettings, metrics: Metrics, *, read_s: float = READ_S) -> None:
        self.calls, self._streams = settings.caller_calls, settings.caller_streams
        self._bytes, self._rate = settings.caller_mib << 20, settings.caller_rate
        self._sending = max(1, self._bytes // MAX_MESSAGE_BYTES)
        self._burst = max(1.0, BURST_S * settings.caller_rate)
        self._refusals = {each: metrics.counter(CALLS_REFUSED, each) for each in LIMITS}
        self._read_s = read_s
        self._callers: dict[str, Usage] = {}
        self._look_at = MOST_CALLERS
        """So many callers are looked through for those that may be forgotten."""
        self._reading: dict[asyncio.Task[object], float] = {}
        """Calls whose request is being read, by when that began: the first is the oldest."""
        self._timer: asyncio.TimerHandle | None = None
        self._said_at = float("-inf")

    def begin(self, who: str, now: float, *, stream: bool = False, sends: bool = False) -> Usage:
        """A call begins; `end` must follow.

        Args:
            who: whose it is.
            now: on a clock that is never set back.
            stream: whether it stays open.
            sends: whether on that stream the caller sends message after message.

        Raises:
            TooManyCalls: it may not; nothing was done.
        """
        used = self._callers.get(who)
        if used is None:
            used = self._new(who, now)
        room = self._room(used, now)
        used.at = now
        too_many = used.calls >= self.calls or used.bytes >= self._bytes or (stream and used.streams >= self._streams)
        too_many = too_many or (sends and used.sending >= self._sending)
        if room < 1 or too_many:
            used.room = room
            raise self._refused(who, used, now)
        used.room = room - 1
        used.calls += 1
        if stream:
            used.streams += 1
            used.sending += sends
        return used

    def end(self, used: Usage, size: int = 0, *, stream: bool = False, sends: bool = False) -> None:
        """A call has ended, whose request had so many bytes; whoever has read that has added them to `used`."""
        used.calls -= 1
        used.bytes -= size
        if stream:
            used.streams -= 1
            used.sending -= sends

    @contextmanager
    def during(self, who: str, *, stream: bool = False) -> Iterator[Usage]:
        """A call begins, and ends with the block. Raises as `begin`."""
        usage = self.begin(who, time.perf_counter(), stream=stream)
        try:
            yield usage
        finally:
            self.end(usage, stream=stream)

    async def read(self, used: Usage, receive: Callable[[], Awaitable[T]], now: float) -> T:
        """What `receive` gives, the request of a call that began now.

        Raises:
            DeadlineExceeded: it has not come in time.
        """
        if used.reading >= used.reads:
            await used.turn()
        task = asyncio.current_task()
        assert task is not None
        used.reading += 1
        self._reading[task] = now
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._read_s, self._end_slow_ones)
        try:
            return await receive()
        except asyncio.CancelledError:
            if task in self._reading:
                raise
            task.uncancel()
            self._refusals["slow"].inc()
            raise DeadlineExceeded(f"the request has not come within {self._read_s:g} s of its headers") from None
        finally:
            self._reading.pop(task, None)
            used.reading -= 1
            if used.waiting:
                used.wake()

    def _end_slow_ones(self) -> None:
        self._timer, now = None, time.perf_counter()
        for task, began in list(self._reading.items()):
            left = began + self._read_s - now
            if left > 0:  # those after it have begun later
                self._timer = asyncio.get_running_loop().call_later(left, self._end_slow_ones)
                return
            del self._reading[task]
            task.cancel()

    def _room(self, used: Usage, now: float) -> float:
        """Calls that a caller may begin at once."""
        return min(used.room + (now - used.at) * self._rate, self._burst)

    def _new(self, who: str, now: float) -> Usage:
        if len(self._callers) >= self._look_at:
            # Not those that must wait for their next call: else whoever comes under many names would get rid of `caller_rate`. They have
            # waited after BURST_S.
            self._callers = {
                name: used for name, used in self._callers.items() if used.calls or self._room(used, now) < self._burst
            }
            self._look_at = max(MOST_CALLERS, 2 * len(self._callers))
        made = self._callers[who] = Usage(self._burst, now)
        return made

    def _refused(self, who: str, used: Usage, now: float) -> AtfError:
        if used.room < 1:
            limit, what, setting = "rate", f"makes more than {self._rate} calls a second", "caller_rate"
        elif used.calls >= self.calls:
            limit, what, setting = "calls", f"has {used.calls} calls under way", "caller_calls"
        elif used.bytes >= self._bytes:
            limit, what, setting = "bytes", f"has requests of {used.bytes >> 20} MiB under way", "caller_mib"
        elif used.sending >= self._sending:
            limit, what, setting = "bytes", f"sends on {used.sending} streams, of 5 MiB each at once", "caller_mib"
        else:
            limit, what, setting = "streams", f"has {used.streams} streams open", "caller_streams"
        self._refusals[limit].inc()
        error = TooManyCalls(
            f"{who} {what}, and {setting} allows no more: make fewer at once, or raise {setting} of this server"
        )
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            _log.warning("a caller was refused", limit=limit, error=str(error))
        return error


def most_connections() -> int:
    """Connections that a port takes at the same time: some file descriptors are left for the rest, so few that the log says it by then."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if limit == resource.RLIM_INFINITY else max(1, limit - SPARE)
