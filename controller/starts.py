"""Decides whether this host's executors come to work, from what is known of their starts, and what follows.

An executor works from its first NextWork on: by then its code was imported, its lambdas are registered, and it has found its controller. A start
has failed where its guard says so, or where the guard itself could not start. Pure; pool.py makes the starts.

Where no executor works and the starts of each have failed more than `retries` times in a row, starting more of them is given up. An executor that
works, or drains still, keeps the controller going: nothing that runs is ended for a bad deploy, and its successors are tried for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from atf.errors import FailedPrecondition
from atf.log import get_logger
from atf.task import STARTS

STARTING: Final = "its executors are starting, and none has asked for work yet"

_log = get_logger(duty="pool")


class Starts:
    """The starts of a controller's executors.

    Args:
        size: how many executors there are to be.
        retries: starts of each after a first one that failed; None: for ever.

    Attributes:
        changed: each is called when `why_not` has changed.
        works: each is called with the id of an executor that has come to work.
        failure: why the last start failed, or where it stands; empty while some executor works, and before one has failed.
    """

    def __init__(self, size: int, retries: int | None = None) -> None:
        self.changed: list[Callable[[], None]] = []
        self.failure = ""
        self.works: list[Callable[[str], None]] = []
        self._retries = retries
        self._failed = [0] * size
        self._slots: dict[str, int] = {}
        """The number of its place by executor, while its guard runs."""
        self._working: set[str] = set()
        self._worked = size == 0
        self._held = False
        self._said: tuple[str, int] | None = None

    @property
    def why_not(self) -> str:
        """Why no work is done here; empty: it is, or it is up to others: to executors started by hand, to an operator who has the host drain."""
        if self._held:
            return ""
        if self.failure:
            return f"no executor can start: {self.failure}"
        return "" if self._worked else STARTING

    @property
    def to_say(self) -> str:
        """What the store is told: why none can start, "" (they can), or STARTS while that is not known.

        A controller that starts again must not take back what the one before it said of the same bad deploy.
        """
        return "" if self._held else self.failure or ("" if self._worked else STARTS)

    def hold(self, held: bool) -> None:
        """An operator has the host drain: none are started until this is called with False."""
        self._held = held
        self._tell()

    def began(self, slot: int, executor_id: str) -> None:
        """An executor has started, in one of the places."""
        self._slots[executor_id] = slot

    def called(self, executor_id: str) -> None:
        """An executor asks for work."""
        if executor_id in self._working or executor_id not in self._slots:
            return
        self._working.add(executor_id)
        self._failed[self._slots[executor_id]] = 0
        self._worked, self.failure = True, ""
        if self._said is not None:
            self._said = None
            _log.info("executors start again")
        self._tell()
        for each in self.works:
            each(executor_id)

    def is_working(self, executor_id: str) -> bool:
        """Whether an executor has asked for work, and its guard runs."""
        return executor_id in self._working

    def slow(self, why: str) -> None:
        """An executor does not get on with its start."""
        _log.warning("executor starts slowly", why=why)
        self._note(why)

    def ended(self, executor_id: str) -> None:
        """An executor's guard is gone."""
        self._slots.pop(executor_id, None)
        self._working.discard(executor_id)

    def failed(self, slot: int, why: str, again_in: float) -> None:
        """A start has failed.

        Args:
            slot: whose.
            why: as its guard tells it.
            again_in: seconds until the next one.

        Raises:
            FailedPrecondition: no more are made.
        """
        self._failed[slot] += 1
        times = self._failed[slot]
        if self._said is None or self._said[0] != why or times > self._said[1]:  # one line for all that fail alike
            self._said = why, times
            _log.error("executor can't start", why=why, failed=times, again_in_s=round(again_in, 1))
        self._note(why)
        if self._retries is not None and not self._working and min(self._failed) > self._retries:
            tries = f"{self._retries + 1} tries" if self._retries else "one try"
            raise FailedPrecondition(
                f"no executor can start, after {tries} of each: {why.rstrip('.')}. Mend that and start this controller again"
                " (start_retries says how often it tries)"
            )

    def _note(self, why: str) -> None:
        if not self._working and why != self.failure:
            self.failure = why
            self._tell()

    def _tell(self) -> None:
        for each in self.changed:
            each()
