"""Repeats a client's calls while the frontend is away, within their time.

A call is repeated until the client's `timeout` is over. What belongs to a wait is repeated until the caller's own time is over, however
long the frontend is away.

Every call may be repeated: a task that is scheduled has its id already, and the other calls say what shall be, not what to
change. Knows the frontend by its interface; loads gRPC at the first call, and only if it has to connect.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from atf.calls.retry import RetryPolicy, retry
from atf.config.settings import FRONTEND_PORT
from atf.config.store_urls import is_store_url
from atf.errors import InvalidArgument, Unavailable
from atf.rpc import api
from atf.runtime import Runtime
from atf.sdk.options import Duration, duration_us
from atf.sdk.payload import short
from atf.task import US

from .fork import FORK_GUARD
from .own_frontend import open_frontend

if TYPE_CHECKING:
    from atf.rpc.caller_security import CallerSecurity
    from atf.rpc.channel import StreamingChannel

Q = TypeVar("Q")
A = TypeVar("A")
Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that a call may take, with all its tries, where neither the program nor ATF_TIMEOUT says otherwise."""
TRY_TIMEOUT: Final = 10.0
"""Seconds that one try of a call may take at most."""
LEAST_TRY: Final = 1.0
"""Seconds that one try may take in any case, if the call has them."""
AGAIN: Final = RetryPolicy(first=0.05, most=2.0)
"""How a call is repeated, until its time is over."""
LATE: Final = 2.0
"""Seconds beyond the caller's own time that the last answer of a wait may take."""
NOW: Final = 0.001
"""Seconds that are too few to wait for."""


def call_address(given: str | None) -> str:
    """Where a client's calls go: as given, else as ATF_FRONTEND says."""
    return given or os.environ.get("ATF_FRONTEND") or f"localhost:{FRONTEND_PORT}"


def call_timeout(given: Duration | None) -> float:
    """Seconds that a call may take: as given, else as ATF_TIMEOUT says.

    Raises:
        InvalidArgument: it is no duration, or none at all.
    """
    what, value = ("timeout", given) if given is not None else ("ATF_TIMEOUT", os.environ.get("ATF_TIMEOUT") or None)
    seconds = DEFAULT_TIMEOUT if value is None else duration_us(value, what) / US
    if not seconds:
        raise InvalidArgument(f"{what} {short(value)}: give more than 0")
    return seconds


def time_of_try(timeout: float, left: float) -> float:
    """Seconds for one try of a call: half of its time, so that another one finds another connection if this one leads nowhere.

    Args:
        timeout: seconds that the call may take, with all its tries.
        left: of which so many are left.
    """
    return max(NOW, min(TRY_TIMEOUT, max(timeout / 2, LEAST_TRY), left))


class RepeatingCalls:
    """Makes calls of the frontend, each again and again until it is answered or its time is over.

    Args:
        address: host:port to connect to, several with commas between, or a task store's.
        timeout: seconds that a call may take, with all its tries.
        frontend: what to call instead.
        runtime: clocks and chance.
        security: what calls show, and how connections are encrypted; None: what this process has.
    """

    def __init__(
        self,
        address: str,
        timeout: float,
        frontend: api.Frontend | None,
        runtime: Runtime,
        security: CallerSecurity | None = None,
    ) -> None:
        self._address = address
        self.timeout = timeout
        self._frontend = frontend
        self._runtime = runtime
        self._security = security
        self._channel: StreamingChannel | None = None
        self._closed = False
        self._heard_at = -math.inf

    async def close(self) -> None:
        """Ends the connection. Calls that wait, and later ones, raise Unavailable."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()

    def connected(self) -> api.Frontend:
        """What one try of a call is made of."""
        if self._closed:
            raise Unavailable("the client is closed")
        if self._frontend is None:
            with FORK_GUARD.loading():
                from atf.rpc.stubs import FrontendStub

                self._channel = self._open()
            self._frontend = FrontendStub(self._channel)
        return self._frontend

    def _open(self) -> StreamingChannel:
        if is_store_url(self._address):
            return open_frontend(self._address, self._runtime)
        from .transport import open_fork_safe

        return open_fork_safe(self._address, self._security)

    def repeat(self, call: Callable[[float], Awaitable[Q]], until: float | None = None) -> Awaitable[Q]:
        """Calls until it is answered.

        Args:
            call: is given the seconds that one try may take.
            until: of what belongs to a wait: when the caller's time is over, on the monotonic clock; infinite: never. None: the client's
                `timeout` counts.

        Raises:
            Unavailable, DeadlineExceeded: it was not answered within the client's `timeout`.
            TimeoutError: it was not answered by `until`; the cause is the last failure.
        """
        if until is not None:
            return self._repeat_for_wait(call, until)
        end = self._runtime.monotonic() + self.timeout

        def attempt() -> Awaitable[Q]:
            return self._try(call, time_of_try(self.timeout, end - self._runtime.monotonic()))

        return retry(attempt, AGAIN, self._runtime, until=end, failed=self.unless_closed)

    async def _try(self, call: Callable[[float], Awaitable[Q]], seconds: float) -> Q:
        answer = await call(seconds)
        self._heard_at = self._runtime.monotonic()
        return answer

    async def _repeat_for_wait(self, call: Callable[[float], Awaitable[Q]], until: float) -> Q:
        def attempt() -> Awaitable[Q]:
            left = max(0.0, until - self._runtime.monotonic())
            return self._try(call, max(NOW, min(TRY_TIMEOUT, self.timeout, left + LATE)))

        try:
            # The last try is when the time of the wait is over.
            return await retry(attempt, AGAIN, self._runtime, until=until, to_the_end=True, failed=self.unless_closed)
        except AGAIN.errors as error:
            if self._closed:
                raise
            raise TimeoutError(f"the time of the wait is over, and the frontend is away: {error}") from error

    def unless_closed(self, error: Exception) -> None:
        """Raises the error of a try after which no other one is of use."""
        if self._closed:
            raise error


class RepeatedCall(Protocol[Q_contra, A_co]):
    """A call of one message and one answer. `until`: as of RepeatingCalls."""

    def __call__(self, request: Q_contra, until: float | None = None, /) -> Awaitable[A_co]: ...


class repeated(Generic[Q, A]):  # noqa: N801  as `property` is
    """A method of the frontend's interface, repeated."""

    def __init__(self, method: Callable[[Any, Q], Awaitable[A]]) -> None:
        self._name = method.__name__

    def __get__(self, calls: RepeatingCalls, _owner: object) -> RepeatedCall[Q, A]:
        def call(request: Q, until: float | None = None, /) -> Awaitable[A]:
            return calls.repeat(lambda timeout: getattr(calls.connected(), self._name)(request, timeout=timeout), until)

        return call
