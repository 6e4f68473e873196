"""An asyncio event loop on virtual time: waiting moves a clock instead of taking time.

Owns the clock. When nothing is ready, the loop jumps to the instant of the next timer; so an hour of sleeping costs nothing,
and the order of events depends on nothing outside the program. Real input and output have no place here, since real time
passes in them: sockets, pipes, subprocesses, signals and calls from other threads are refused with `RealIO`.

It knows nothing of ATF. A simulation builds on it by overriding `_run_once` (order, killing, freezing of handles).
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable
from typing import Any, Final, NoReturn

US: Final = 1_000_000

_ROUNDING_US: Final = 1e-3
"""Timers are floats of seconds: what lies less than this behind a whole microsecond is that microsecond."""


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: what is awaited can never happen."""


class RealIO(RuntimeError):
    """Something on the loop asked for real input or output, a subprocess, a signal or another thread."""


class VirtualLoop(BaseEventLoop):
    """An event loop whose clock starts at 0 and moves only by jumps to the next timer.

    `run_until_complete` jumps as far as it must and raises Deadlock where no jump helps. `advance_to` stops at an instant.
    """

    _scheduled: list[asyncio.TimerHandle]  # BaseEventLoop's heap of timers

    def __init__(self) -> None:
        super().__init__()
        self._now_us = 0
        self._now = 0.0
        self._horizon_us: int | None = None
        self._thread: int | None = None
        self._selector = self  # BaseEventLoop calls select() to wait; waiting is ours

    @property
    def now_us(self) -> int:
        """Microseconds since the loop was made."""
        return self._now_us

    def time(self) -> float:
        """Seconds since the loop was made. Never less than the instant of a timer that has run: whoever computes the rest of a
        wait from it must not find a billionth left, again and again.
        """
        return max(self._now, self._now_us / US)

    def advance_to(self, instant_us: int) -> None:
        """Runs everything due until `instant_us`, that instant included, and leaves the clock there."""
        self._horizon_us = max(instant_us, self._now_us)
        try:
            self.run_forever()
        finally:
            self._horizon_us = None

    def skip_to(self, instant_us: int) -> None:
        """Moves the clock and every timer with it, as if the process had been suspended meanwhile: nothing runs."""
        skipped = max(instant_us - self._now_us, 0)
        self._now_us += skipped
        for handle in self._scheduled:  # all by the same time, so the heap stays one
            handle._when += skipped / US  # type: ignore[attr-defined]

    def timer_contexts(self) -> list[contextvars.Context]:
        """The contexts in which the timers that stand were set."""
        return [handle._context for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]

    def next_timer_us(self) -> int | None:
        """The instant of the earliest timer that stands; None: there is none."""
        standing = (handle.when() for handle in self._scheduled if not handle.cancelled())
        earliest = min(standing, default=None)
        return None if earliest is None else _whole_us(earliest)

    # --- what BaseEventLoop asks of a subclass -----------------------------------------------------------------------

    def select(self, timeout: float | None) -> list[Any]:
        """Waits: moves the clock to the next timer, or ends `advance_to` if that lies beyond its instant."""
        if timeout is not None and timeout <= 0:
            return []  # something is ready now
        target = _whole_us(self._scheduled[0].when()) if self._scheduled else None
        if self._horizon_us is not None and (target is None or target > self._horizon_us):
            self._now_us = self._horizon_us
            self.stop()
        elif target is None:
            raise Deadlock("nothing is ready and no timer is set: what is awaited can never happen")
        else:
            self._now_us = max(self._now_us, target)
            self._now = max(self._now, self._scheduled[0].when())
        return []

    @property
    def _clock_resolution(self) -> float:
        """How much too early BaseEventLoop may run a timer: not at all."""
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """BaseEventLoop sets that of the real clock."""

    def run_forever(self) -> None:
        self._thread = threading.get_ident()
        try:
            super().run_forever()
        finally:
            self._thread = None

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: select() never reports any."""

    def _write_to_self(self) -> None:
        """Called by call_soon_threadsafe. From the loop's own thread it needs no waking."""
        if self._thread not in {None, threading.get_ident()}:
            raise RealIO("another thread called into the virtual-time loop; on it, threads would run in real time")

    # --- threads and real input and output ---------------------------------------------------------------------------

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Calls `func` here and now, so that `asyncio.to_thread` works; no virtual time passes in it."""
        outcome: asyncio.Future[Any] = self.create_future()
        try:
            outcome.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  it belongs to whoever awaits the outcome
            outcome.set_exception(error)
        return outcome


def _whole_us(seconds: float) -> int:
    return math.ceil(seconds * US - _ROUNDING_US)


_REFUSED: Final = (
    *("add_reader", "add_writer", "remove_reader", "remove_writer", "add_signal_handler", "remove_signal_handler"),
    *(
        "sock_recv",
        "sock_recv_into",
        "sock_recvfrom",
        "sock_recvfrom_into",
        "sock_sendall",
        "sock_sendto",
        "sock_sendfile",
    ),
    *("sock_connect", "sock_accept", "getaddrinfo", "getnameinfo", "sendfile", "start_tls"),
    *("create_connection", "create_server", "create_unix_connection", "create_unix_server", "create_datagram_endpoint"),
    *("connect_accepted_socket", "connect_read_pipe", "connect_write_pipe", "subprocess_shell", "subprocess_exec"),
)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(_self: VirtualLoop, *_args: object, **_kwargs: object) -> NoReturn:
        raise RealIO(
            f"loop.{name}: real input and output do not run on the virtual-time loop, where waiting takes no time. "
            "Replace what does it (a client, a subprocess) with a stand-in for the test, or test against `atf up`"
        )

    return refuse


for _name in _REFUSED:
    setattr(VirtualLoop, _name, _refusal(_name))
