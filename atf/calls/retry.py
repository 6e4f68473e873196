"""Calls that fail are repeated: which, after how long a wait, until when, and what is said meanwhile.

`retry` repeats a call that ends with an answer, `retry_blocking` does so for threads. What has no one answer (a stream, a duty that rests
until something happens) takes its waits from `Pauses`.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from atf.errors import AtfError, DeadlineExceeded, Unavailable

if TYPE_CHECKING:  # the client waits by this module too, and has no library for the roles' log
    from atf.log import Logger

R = TypeVar("R")

_NOW: Final = 0.001
"""Seconds that are too few to wait for."""


class Surroundings(Protocol):
    """What is needed of a Runtime."""

    random: random.Random

    def monotonic(self) -> float: ...


@dataclass(frozen=True)
class RetryPolicy:
    """Which errors are worth another try, and how long to wait before it."""

    first: float
    """Seconds before the second try."""
    most: float
    """Seconds that no wait exceeds."""
    factor: float = 2.0
    """How much longer each wait is than the one before."""
    jitter: float = 0.5
    """Share of a wait that chance may take away, so that peers spread out."""
    errors: tuple[type[Exception], ...] = (Unavailable, DeadlineExceeded)
    """What a repetition may mend: the call was not done, or nobody knows whether it was."""
    never: tuple[type[Exception], ...] = ()
    """Of these errors those that no repetition mends."""


class Pauses:
    """The waits between the tries of one call, or of one duty.

    Args:
        policy: how long they are.
        surroundings: clock and chance.
        until: on the monotonic clock, when there is no time for another try; it may be set later.
        to_the_end: whether a wait is cut short, so that the last try is at `until`.
    """

    def __init__(
        self, policy: RetryPolicy, surroundings: Surroundings, *, until: float = math.inf, to_the_end: bool = False
    ) -> None:
        self.until = until
        self._policy = policy
        self._surroundings = surroundings
        self._to_the_end = to_the_end
        self._next = policy.first

    def next(self) -> float:
        """Seconds to wait now; the next wait is longer."""
        policy = self._policy
        pause, self._next = self._next, min(self._next * policy.factor, policy.most)
        return pause * (1 - policy.jitter + policy.jitter * self._surroundings.random.random())

    def after(self, error: Exception) -> float:
        """Seconds to wait after an error. Raises it again where no repetition mends it, or no time is left for one."""
        if not isinstance(error, self._policy.errors) or isinstance(error, self._policy.never):
            raise error
        pause, left = self.next(), self.until - self._surroundings.monotonic()
        if left < _NOW if self._to_the_end else pause >= left:
            raise error
        return min(pause, left)

    def reset(self) -> None:
        """It went well: the next wait is the first again."""
        self._next = self._policy.first


async def retry(
    attempt: Callable[[], Awaitable[R]],
    policy: RetryPolicy,
    surroundings: Surroundings,
    *,
    until: float = math.inf,
    to_the_end: bool = False,
    failed: Callable[[Exception], object] | None = None,
    trouble: tuple[Trouble, object] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> R:
    """Makes a call until it is answered.

    Args:
        attempt: one try.
        policy: which errors it is repeated after, and when.
        surroundings: clock and chance.
        until, to_the_end: as of Pauses.
        failed: told of each error that a repetition may mend; what it raises ends this.
        trouble: says that calls fail and that they succeed again; and the key of this call there.
        sleep: waits so many seconds.

    Raises:
        What the last try raised.
    """
    pauses: Pauses | None = None
    while True:
        try:
            answer = await attempt()
        except policy.errors as error:
            pauses = pauses or Pauses(policy, surroundings, until=until, to_the_end=to_the_end)
            pause = _pause_after(error, pauses, failed, trouble)
        else:
            if trouble is not None:
                trouble[0].ended(trouble[1])
            return answer
        await sleep(pause)


def retry_blocking(
    attempt: Callable[[], R],
    policy: RetryPolicy,
    surroundings: Surroundings,
    *,
    sleep: Callable[[float], object],
    until: float = math.inf,
    failed: Callable[[Exception], object] | None = None,
) -> R:
    """`retry` for a thread, which it blocks."""
    pauses: Pauses | None = None
    while True:
        try:
            return attempt()
        except policy.errors as error:
            pauses = pauses or Pauses(policy, surroundings, until=until)
            pause = _pause_after(error, pauses, failed, None)
        sleep(pause)


def _pause_after(
    error: Exception,
    pauses: Pauses,
    failed: Callable[[Exception], object] | None,
    trouble: tuple[Trouble, object] | None,
) -> float:
    try:
        pause = pauses.after(error)
        if failed is not None:
            failed(error)
    except BaseException:
        if trouble is not None:
            trouble[0].ended(trouble[1])
        raise
    if trouble is not None:
        trouble[0].failed(trouble[1], error)
    return pause


class Trouble:
    """Says that calls fail when the first of them does, and that they succeed again when the last one has recovered.

    Args:
        log: where it is said.
        what: what is called, as the line shall name it: "store", "hsc".
    """

    def __init__(self, log: Logger, what: str) -> None:
        self._log = log
        self._what = what
        self._failing: set[object] = set()

    def __bool__(self) -> bool:
        """Whether anything fails now."""
        return bool(self._failing)

    def failed(self, key: object, error: Exception) -> None:
        """Call inside the `except` block. `key` tells apart what fails and recovers on its own, such as partitions."""
        if isinstance(
            error, TimeoutError
        ):  # of asyncio.timeout, such as after this process stood still: it has no text
            error = DeadlineExceeded("no answer in time")
        if not isinstance(error, AtfError):
            self._log.exception("duty failed", on=self._what, key=str(key))
        elif not self._failing:
            self._log.warning(f"{self._what} unavailable", error=str(error), reason=error.reason)
        self._failing.add(key)

    def ended(self, key: object) -> None:
        """The call that failed under `key` has succeeded, or is not made any more."""
        if key in self._failing:
            self._failing.remove(key)
            if not self._failing:
                self._log.info(f"{self._what} available again")
