"""Decides what becomes of a cron expression's ticks when the clocks of its zone are set forward or back.

Clocks set forward pass over wall times (the gap); clocks set back show some twice (the fold). An expression that names
hours says what shall become of it by `Gap` and `Fold`. One that leaves the hour open ticks by elapsed time: whenever the
clocks show a wall time that matches, in both passes of a fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from atf.errors import InvalidArgument
from atf.task import MAX_AHEAD_US, US

from .cron import LATEST_S, Expression
from .refusal import GivenText
from .zones import Change, changes, offset_s

_NEAR_S: Final = 2 * 86_400
"""No fold is as long."""


class Gap(StrEnum):
    """Of ticks whose wall time is passed over."""

    SKIP = "skip"
    """There are none."""
    RUN_AFTER = "run_after"
    """One, for all of them, at the first instant after the gap."""


class Fold(StrEnum):
    """Of ticks whose wall time comes twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


@dataclass(frozen=True)
class Cron:
    """A cron expression by the clocks of a zone."""

    expression: Expression
    zone: ZoneInfo
    gap: Gap = Gap.SKIP
    fold: Fold = Fold.BOTH

    def next_us(self, after_us: int) -> int | None:
        """The first tick after an instant, microseconds since the epoch; None: there is none within ten years.

        It goes from one change of the clocks to the next: in between, wall time runs evenly.
        """
        after_s = after_us // US
        if after_s > LATEST_S:
            return None
        until_s = after_s + MAX_AHEAD_US // US
        at, offset, since = after_s, offset_s(self.zone, after_s), after_s
        while True:
            wall = self.expression.next_wall(at + offset)
            if wall is None or since > until_s or wall - offset > until_s:
                return None
            tick = wall - offset
            passed = changes(self.zone, since, tick)
            if passed:
                change = passed[0]
                if self._makes_up(change, wall):
                    return change.at_s * US
                at, offset, since = change.at_s - 1, change.after_s, change.at_s
            elif unwanted := self._unwanted(tick):
                at = since = unwanted.stop - 1
            else:
                return tick * US

    @property
    def rhythm(self) -> str:
        """The same for all schedules that tick alike."""
        return f"{self.expression.rhythm} {self.zone.key} {self.gap} {self.fold}"

    def never(self, given: GivenText) -> InvalidArgument:
        """The error for a schedule that has no ticks."""
        return given.refuse(
            self.expression.day_at, "no such day comes in ten years", "write a day that its months have"
        )

    def _makes_up(self, change: Change, wall: int) -> bool:
        """Whether there is a tick at a change for `wall`, the first wall time that would have matched without it."""
        return self.gap is Gap.RUN_AFTER and self.expression.names_hours and wall in change.lost

    def _unwanted(self, tick: int) -> range | None:
        """The pass of a fold that a tick is in, if that pass is not to tick."""
        if self.fold is Fold.BOTH or not self.expression.names_hours:
            return None
        for change in changes(self.zone, tick - _NEAR_S, tick + _NEAR_S):
            unwanted = change.first_pass if self.fold is Fold.SECOND else change.second_pass
            if tick in unwanted:
                return unwanted
        return None
