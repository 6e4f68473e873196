"""Finds out which kind of schedule a text is, and by whose clocks it is read."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from .cron import MAX_CHARS, parse_cron
from .dst import Cron, Fold, Gap
from .every import EVERY, Every, is_period, parse_every, parse_period
from .refusal import GivenText, word
from .zones import parse_zone

W = TypeVar("W", bound=StrEnum)

UNIX: Final = "unix"
"""The format of a crontab: five fields, without seconds."""
UTC: Final = ZoneInfo("UTC")


class Clocks(NamedTuple):
    """What a cron expression is read by."""

    zone: ZoneInfo | None
    """None: the one that the expression names, or UTC."""
    gap: Gap
    fold: Fold


def parse_clocks(tz: str | None, gap: str | None, fold: str | None) -> Clocks:
    """A time zone and policies from their words; None: the default.

    Raises:
        InvalidArgument: one is not known.
    """
    zone = parse_zone(GivenText("tz", tz)) if tz is not None else None
    return Clocks(zone, _one_of(Gap, "gap", gap) or Gap.SKIP, _one_of(Fold, "fold", fold) or Fold.BOTH)


def parse_schedule(given: GivenText, clocks: Clocks, form: str | None) -> tuple[Cron | Every, int | None]:
    """A schedule of any kind, and how often it ticks at most: None: it does not say.

    Args:
        given: the text.
        clocks: for a cron expression.
        form: UNIX for one of five fields; None: six, seconds first.

    Raises:
        InvalidArgument: it is malformed, or names another time zone than `clocks` does.
    """
    if form not in {None, UNIX}:
        raise GivenText("format", form or "").refuse(
            0, f"{word(form or '')!r} is not known", f"write {UNIX}, or leave it out"
        )
    text = given.checked(MAX_CHARS).text
    if is_period(text):
        return parse_period(given)
    if text.startswith(EVERY) and text[len(EVERY) :][:1] in {"", " "}:
        return parse_every(given), None
    expression = parse_cron(given, unix=form == UNIX)
    zone = clocks.zone or UTC
    if expression.zone is not None:
        zone = parse_zone(expression.zone, expression.zone.text.index("=") + 1)
        if clocks.zone not in {None, zone}:
            raise given.refuse(0, f"it names {zone.key}, and tz is {clocks.zone}", "name the time zone once")
    return Cron(expression, zone, clocks.gap, clocks.fold), None


def _one_of(kind: type[W], field: str, text: str | None) -> W | None:
    if text is None or text in list(kind):
        return kind(text) if text else None
    raise GivenText(field, text).refuse(0, f"{word(text)!r} is not known", f"write {' or '.join(kind)}")
