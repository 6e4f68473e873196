"""What a caller does while something it calls fails: wait longer each time, and, if it is a duty, say so once.

Owns no call and no clock: whoever calls asks how long to wait, and waits by itself.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from atf.errors import AtfError, DeadlineExceeded

if TYPE_CHECKING:  # the client waits by this module too, and has no library for the roles' log
    from atf.log import Logger


class Pauses:
    """The waits between repeated tries: doubling, each shortened by chance so that peers spread out.

    Args:
        chance: the source of the jitter.
        first: seconds of the first wait, before the jitter.
        most: seconds that no wait exceeds.
    """

    def __init__(self, chance: random.Random, *, first: float, most: float) -> None:
        self._chance = chance
        self._first = self._next = first
        self._most = most

    def next(self) -> float:
        """Seconds to wait now; the wait after this one is twice as long."""
        pause, self._next = self._next, min(self._next * 2, self._most)
        return pause * (0.5 + self._chance.random() / 2)

    def reset(self) -> None:
        """It went well: the next wait is the first again."""
        self._next = self._first


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
