"""Lists the ticks of a cron expression around the changes of the clocks in one year, for people who want to see what they do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final, NamedTuple

from atf.task import US

from .cron import LATEST_S
from .dst import Cron
from .instants import EPOCH
from .zones import Change, changes, offset_s

_LOOK_BACK_S: Final = (60, 3_600, 36 * 3_600, 10 * 86_400, 400 * 86_400)
"""How far before a change ticks are looked for: farther only where they are rare, so that there are never many to pass."""


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
    start, end = (_new_year_s(cron, each) for each in (year, year + 1))
    return [_around(cron, change, count) for change in changes(cron.zone, start - 1, end - 1)]


def _new_year_s(cron: Cron, year: int) -> int:
    naive_s = (datetime(year, 1, 1) - EPOCH) // timedelta(seconds=1)  # noqa: DTZ001 - wall time
    return naive_s - offset_s(cron.zone, naive_s)


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
