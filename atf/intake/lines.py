"""Keeps the lines of all kinds: which exist, which serve a lambda, and which are to be looked at now.

A line without asks is kept for a while, with what is known of its queues. Nothing here loops over lines or asks for one notification.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

from .asks import AskKind
from .backlog import Backlog
from .line import AskLine

FORGET_S: Final = 120.0
"""Seconds without an ask until a line, and what is known of its queues, is forgotten."""


class Hint(NamedTuple):
    """Tasks of some queues were left to a host."""

    partition: int
    since: dict[str, float]  # of the queues
    until: float


class ServedLine(AskLine):
    """The line of one kind, and what is known of its queues.

    Attributes:
        backlog: the queues that may hold something for it.
        busy: the partitions of which a call is under way for it.
        hints: by host what was left to it.
    """

    def __init__(self, kind: AskKind, backlog: Backlog) -> None:
        super().__init__(kind)
        self.backlog = backlog
        self.busy: set[int] = set()
        self.hints: dict[str, Hint] = {}
        self.used_at = 0.0
        self.timer = math.inf
        """When it is looked at next by itself."""
        self.is_due = False


class Lines:
    """All lines of one process.

    Args:
        partitions: how many the store has.
        ageing: seconds of waiting that make a queue count as one priority higher.
    """

    def __init__(self, partitions: int, ageing: float) -> None:
        self._partitions = partitions
        self._ageing = ageing
        self._lines: dict[AskKind, ServedLine] = {}
        self._of_lambda: dict[str, dict[AskKind, ServedLine]] = {}
        self._due: list[tuple[tuple[float, int], int, ServedLine]] = []
        """A heap of those to be looked at, by who waits longest in them."""
        self._timers: list[tuple[float, int, ServedLine]] = []
        self._number = 0

    def __iter__(self) -> Iterator[ServedLine]:
        return iter(self._lines.values())

    def known(self, kind: AskKind) -> ServedLine | None:
        return self._lines.get(kind)

    def make(self, kind: AskKind, now: float) -> ServedLine:
        """A new line; it makes room for itself."""
        self._forget(now - FORGET_S)
        line = ServedLine(kind, Backlog(kind.lambdas, partitions=self._partitions, ageing=self._ageing))
        self._lines[kind] = line
        for name in line.backlog.lambdas:
            self._of_lambda.setdefault(name, {})[kind] = line
        return line

    def serving(self, lambda_name: str) -> Collection[ServedLine]:
        """Those whose asks may be given tasks of a lambda."""
        return self._of_lambda.get(lambda_name, {}).values()

    def look_at(self, line: ServedLine) -> None:
        """Something has changed for a line."""
        place = line.front()
        if place is not None and not line.is_due:
            line.is_due = True
            self._number += 1  # an ask may have gone from one line to another meanwhile
            heappush(self._due, (place, self._number, line))

    def look_later(self, line: ServedLine, at: float) -> None:
        """A line is looked at by itself at that instant."""
        if at < line.timer:
            line.timer = at
            self._number += 1
            heappush(self._timers, (at, self._number, line))

    def next_due(self, now: float) -> ServedLine | None:
        """The line to be looked at in which somebody waits longest; None: nothing is to be done before `next_at`."""
        while self._timers and self._timers[0][0] <= now:
            at, _, line = heappop(self._timers)
            if at == line.timer:
                line.timer = math.inf
                self.look_at(line)
        if not self._due:
            return None
        _, _, line = heappop(self._due)
        line.is_due = False
        return line

    def next_at(self) -> float | None:
        """When a line is to be looked at by itself; None: never."""
        return self._timers[0][0] if self._timers else None

    def _forget(self, before: float) -> None:
        for kind, line in [*self._lines.items()]:
            if line or line.busy or line.used_at > before:
                continue
            del self._lines[kind]
            for name in line.backlog.lambdas:
                of_lambda = self._of_lambda[name]
                del of_lambda[kind]
                if not of_lambda:
                    del self._of_lambda[name]
