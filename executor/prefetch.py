"""Decides how much work an executor asks for: enough that no worker idles, never so much that work waits long here.

What waits in this process can't run in another, whatever idles there. So about 50 ms of work is held beyond what
runs, by the measured mean of the slowest lambda that is held or ended a run of late; where that takes longer, or has never ended
a run here, only as much as workers are free. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from atf.task import MAX_BATCH

HOLD_S: Final = 0.05
"""Seconds of work that may wait here to start."""
HOT: Final = 8
"""Tasks of one lambda in one answer that make it *hot*: one of those that come in great numbers."""
HOT_S: Final = 1.0
"""Seconds for which it counts as such."""
_WEIGHT: Final = 0.1
"""Of the newest run in the mean: about the last twenty count."""
_LEAST_S: Final = 1e-6
"""What a run counts as at least."""
_RECENT_S: Final = 10.0
"""A lambda of which nothing is held and that has not ended a run for so long does not count: it is not what comes in now."""


@dataclass(slots=True)
class _Known:
    """What is known of one lambda."""

    held: int = 0
    """How many of its tasks are in a worker."""
    mean: float = 0.0
    """Seconds of a run; 0: none has ended yet."""
    ended_at: float = 0.0


class Prefetch:
    """The measured run times, what is in the workers, and what follows from them."""

    def __init__(self) -> None:
        self.known: defaultdict[str, _Known] = defaultdict(_Known)
        self._hot_at: dict[str, float] = {}

    def arrived(self, lambda_names: Iterable[str], now: float) -> None:
        """An answer has brought tasks of these lambdas, one for each name."""
        self._hot_at |= {name: now for name, count in Counter(lambda_names).items() if count >= HOT}

    def not_hot(self, lambdas: Sequence[str], now: float) -> Sequence[str]:
        """Which of these lambdas to ask for in calls of their own: those that are not hot, where others are."""
        self._hot_at = {name: at for name, at in self._hot_at.items() if at > now - HOT_S}
        cold = [name for name in lambdas if name not in self._hot_at] if self._hot_at else ()
        return cold if len(cold) < len(lambdas) else ()

    def came(self, lambda_names: Iterable[str]) -> None:
        """Tasks of these lambdas, one for each name, were put into a worker."""
        known = self.known
        for name in lambda_names:
            known[name].held += 1

    def left(self, lambda_names: Iterable[str]) -> None:
        """Tasks that `came` have left their worker, whether they ran or not."""
        known = self.known
        for name in lambda_names:
            known[name].held -= 1

    def ran(self, lambda_name: str, seconds: float, now: float) -> None:
        """A run has ended after `seconds`."""
        known = self.known[lambda_name]
        known.mean = max(_LEAST_S, known.mean + _WEIGHT * (seconds - known.mean) if known.mean else seconds)
        known.ended_at = now

    def hold(self, lambdas: Iterable[str], workers: int, now: float) -> int:
        """How many tasks may wait beside `workers` workers that take any of these lambdas."""
        slowest = 0.0
        for name in lambdas:
            known = self.known.get(name)
            if known is None:
                continue
            if not known.mean:
                if known.held:
                    return 0  # its first runs may take hours: nothing is to wait behind them
            elif known.mean > slowest and (known.held or known.ended_at + _RECENT_S > now):
                slowest = known.mean
        # 0: free workers are all there is to fill
        return min(MAX_BATCH, int(HOLD_S * workers / slowest)) if slowest else 0

    def room(self, lambdas: Iterable[str], load: tuple[int, int, int], now: float) -> int:
        """How many tasks of these lambdas, of one kind, to ask for. `load`: how many of it can run at once, how many run, how many wait."""
        workers, running, waiting = load
        free = max(0, workers - running)
        hold = self.hold(lambdas, workers, now)
        if waiting > hold // 2 and waiting >= free:
            return 0  # asking for every task that ends would cost a call each
        return max(0, min(MAX_BATCH, free + hold - waiting))
