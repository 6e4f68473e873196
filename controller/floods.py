"""Knows which lambdas are busy, and which of them flood: bring so many tasks at once that the others would wait behind them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from atf.runtime import Runtime

from .demand import Popped, lambda_of

BUSY_S: Final = 1.0
"""Seconds for which a lambda counts as busy after a queue of its was notified or a pop brought some of its tasks, and as one that floods after a
pop that its tasks filled."""
FLOODS: Final = 8
"""Tasks that it brings at least in such a pop. Who claims and reports many at once makes the others wait in the store, in the HSC and in
the executor; so while some other lambda is busy and does not flood, pops are small, and those that brought so many are followed by a rest."""
MANY: Final = 8
"""Lambdas at least that share a full pop in which none floods: then tasks of many lambdas come, few of each, and small pops spare nobody."""


class Floods:
    """The busy lambdas of one host."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._busy: dict[str, float] = {}
        self._floods: dict[str, float] = {}
        self._even_until = float("-inf")

    def notified(self, lambda_name: str) -> None:
        """A queue of a lambda was notified."""
        self._busy[lambda_name] = self._runtime.monotonic()

    def beside_quiet(self) -> bool:
        """Whether several lambdas are busy, and some of them don't flood; but not where many are and none floods."""
        now = self._runtime.monotonic()
        if len(self._busy) > 1:
            self._busy = {name: since for name, since in self._busy.items() if since + BUSY_S > now}
            self._floods = {name: since for name, since in self._floods.items() if since + BUSY_S > now}
        return len(self._busy) > 1 and self._even_until <= now and not self._busy.keys() <= self._floods.keys()

    def brought(self, want: int, found: Popped) -> int:
        """Notes which lambdas a pop brought tasks of, and which of them filled it: had their equal share of it. Returns how many tasks."""
        now, counts = self._runtime.monotonic(), Counter[str]()
        for queue, ids in found:
            if ids:
                counts[lambda_of(queue)] += len(ids)
        self._busy |= dict.fromkeys(counts, now)  # one whose queue is long is seldom notified
        if counts.total() >= want:
            least = max(FLOODS, want // len(counts))
            self._floods |= {name: now for name, count in counts.items() if count >= least}
            self._even_until = now + BUSY_S if len(counts) >= MANY and not self._floods else now
        return counts.total()
