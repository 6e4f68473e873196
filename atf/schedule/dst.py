"""Decides what becomes of a cron expression's ticks when the clocks of its zone are set forward or back.

Clocks set forward pass over wall times (the gap); clocks set back show some twice (the fold). An expression that names
hours says what shall become of it by `Gap` and `Fold`. One that leaves the hour open ticks by elapsed time: whenever the
clocks show a wall time that matches, in both passes of a fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice, takewhile
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from atf.errors import InvalidArgument
from atf.task import MAX_AHEAD_US, US

from .cron import LATEST_S, Expression
from .instants import EPOCH
from .refusal import GivenText
from .zones import Change, changes, offset_s

_NEAR_S: Final = 2 * 86_400
"""No fold is as long."""
_LOOK_BACK_S: Final = (60, 3_600, 36 * 3_600, 10 * 86_400, 400 * 86_400)
"""How far before a change ticks are looked for: farther only where they are rare, so that there are never many to pass."""


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
                # Whether `wall`, the first wall time that would have matched without the change, is made up for at it.
                if self.gap is Gap.RUN_AFTER and self.expression.names_hours and wall in change.lost:
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

    def _unwanted(self, tick: int) -> range | None:
        """The pass of a fold that a tick is in, if that pass is not to tick."""
        if self.fold is Fold.BOTH or not self.expression.names_hours:
            return None
        for change in changes(self.zone, tick - _NEAR_S, tick + _NEAR_S):
            unwanted = change.first_pass if self.fold is Fold.SECOND else change.second_pass
            if tick in unwanted:
                return unwanted
        return None


class TicksAroundChange(NamedTuple):
    """A change of the clocks, and the ticks on both sides of it, in microseconds since the epoch."""

    change: Change
    before_us: list[int]
    after_us: list[int]


def ticks_around_changes(cron: Cron, at_us: int, count: int) -> list[TicksAroundChange]:
    """Every change in the year in which an instant lies by a zone's clocks, with so many ticks on each side."""
    at_s = at_us // US
    if at_s > LATEST_S:
        return []
    year = (EPOCH + timedelta(seconds=at_s + offset_s(cron.zone, at_s))).year
    naive_s = ((datetime(each, 1, 1) - EPOCH) // timedelta(seconds=1) for each in (year, year + 1))  # noqa: DTZ001 - wall time
    start, end = (each - offset_s(cron.zone, each) for each in naive_s)
    return [_around(cron, change, count) for change in changes(cron.zone, start - 1, end - 1)]


def _around(cron: Cron, change: Change, count: int) -> TicksAroundChange:
    at_us = change.at_s * US
    before: list[int] = []
    for back_s in _LOOK_BACK_S:
        before = list(takewhile(lambda tick: tick < at_us, _ticks(cron, at_us - back_s * US - 1)))
        if len(before) >= count:
            break
    return TicksAroundChange(change, before[-count:], list(islice(_ticks(cron, at_us - 1), count)))


def _ticks(cron: Cron, after_us: int) -> Iterator[int]:
    tick = cron.next_us(after_us)
    while tick is not None:
        yield tick
        tick = cron.next_us(tick)
