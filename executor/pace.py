"""How much work an executor asks for: enough that no lane waits for the next answer, never so much that work waits long here.

What waits in this process can't run in another, whatever idles there. So about 50 ms of work is held beyond what
runs, by the measured mean of each lambda; of a lambda that takes longer, only as much as lanes are free. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from atf.task import MAX_BATCH

HOLD_S: Final = 0.05
"""Seconds of work that may wait here to start."""
_WEIGHT: Final = 0.1
"""Of the newest run in the mean: about the last twenty count."""
_RECENT_S: Final = 10.0
"""A lambda that has not ended a run for so long does not count: it is not what comes in now."""


class Pace:
    """The measured run times, and what follows from them."""

    def __init__(self) -> None:
        self._means: dict[str, tuple[float, float]] = {}

    def ran(self, lambda_name: str, seconds: float, now: float) -> None:
        """A run has ended after `seconds`."""
        known = self._means.get(lambda_name)
        mean = seconds if known is None else known[0] + _WEIGHT * (seconds - known[0])
        self._means[lambda_name] = (mean, now)

    def hold(self, lambdas: Iterable[str], lanes: int, now: float) -> int:
        """How many tasks may wait beside `lanes` lanes that take any of these lambdas."""
        recent = [known[0] for name in lambdas if (known := self._means.get(name)) and known[1] + _RECENT_S > now]
        if not recent:
            return 0  # nothing is known: free lanes are all there is to fill
        return min(MAX_BATCH, int(HOLD_S * lanes / max(*recent, 1e-6)))

    def room(self, lambdas: Iterable[str], load: tuple[int, int, int], now: float) -> int:
        """How many tasks to ask for.

        Args:
            lambdas: of one kind.
            load: how many of it can run at once, how many run, how many wait.
            now: the monotonic clock.
        """
        lanes, running, waiting = load
        free = max(0, lanes - running)
        hold = self.hold(lambdas, lanes, now)
        if waiting > hold // 2 and waiting >= free:
            return 0  # asking for every task that ends would cost a call each
        return max(0, min(MAX_BATCH, free + hold - waiting))
