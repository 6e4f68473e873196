"""Knows which lambdas are busy, and which of them flood: bring so many tasks at once that the others would wait behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from atf.runtime import Runtime

from .asks import lambda_of

BUSY_S: Final = 1.0
"""Seconds for which a lambda counts as busy after a queue of its was notified or a call brought some of its tasks, and as one that floods after a
call that its tasks filled."""
FLOODS: Final = 8
"""Tasks that it brings at least in such a call. Who takes and reports many at once makes the others wait in the store, in the HSC and in
the executor; so while some other lambda is busy and does not flood, calls take little, and hosts that took so many rest a while."""
MANY: Final = 8
"""Lambdas at least that share a full call in which none floods: then tasks of many lambdas come, few of each, and small calls spare nobody."""
KNOWN_S: Final = 0.02
"""Seconds between two looks at which lambdas are busy still: of thousands a look takes longer than a call of the store."""


class Floods:
    """The busy lambdas."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._busy: dict[str, float] = {}
        self._floods: dict[str, float] = {}
        self._even_until = float("-inf")
        self._beside_quiet = False
        self._known_until = float("-inf")

    def notified(self, lambda_name: str) -> None:
        """A queue of a lambda was notified."""
        if lambda_name not in self._busy:
            self._known_until = float("-inf")
        self._busy[lambda_name] = self._runtime.monotonic()

    def beside_quiet(self) -> bool:
        """Whether several lambdas are busy, and some of them don't flood; but not where many are and none floods."""
        now = self._runtime.monotonic()
        if now >= self._known_until:
            self._busy = {name: since for name, since in self._busy.items() if since + BUSY_S > now}
            self._floods = {name: since for name, since in self._floods.items() if since + BUSY_S > now}
            self._beside_quiet = len(self._busy) > 1 and not self._busy.keys() <= self._floods.keys()
            self._known_until = now + KNOWN_S
        return self._beside_quiet and self._even_until <= now

    def brought(self, want: int, served: Mapping[str, int]) -> int:
        """Notes which lambdas a call brought tasks of, and which of them filled it: had their equal share of it. Returns how many tasks."""
        now, counts = self._runtime.monotonic(), Counter[str]()
        for queue, count in served.items():
            counts[lambda_of(queue)] += count
        new = counts.keys() - self._busy.keys()
        self._busy |= dict.fromkeys(counts, now)  # one whose queue is long is seldom notified
        if counts.total() >= want:
            least = max(FLOODS, want // len(counts))
            floods = {name: now for name, count in counts.items() if count >= least}
            new |= floods.keys() - self._floods.keys()
            self._floods |= floods
            self._even_until = now + BUSY_S if len(counts) >= MANY and not self._floods else now
        if new:
            self._known_until = float("-inf")
        return counts.total()
