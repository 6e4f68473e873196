"""Computes when a job fires, from its schedule, due_time, ttl and repeats together.

    first fire      at due_time; without one, at the schedule's first tick after the base
    each further    at the schedule's next tick after the instant of the one before, however late that one ran
    last            the one with number `repeats`, or the last until ttl, that instant included
    no schedule     it fires once, at due_time

The base is the instant at which the job was registered. Durations in due_time count from the base, those in ttl from due_time,
or from the base without one. All is pure: the same plan always means the same instants. Source: Dapr's jobs API, as its
scheduler (github.com/diagridio/go-etcd-cron) carries it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from atf.task import MAX_AHEAD_US

from .cron import MAX_CHARS, parse_cron
from .dst import Cron, Fold, Gap
from .every import EVERY, MAX_REPEATS, Every, is_period, parse_every, parse_period
from .instants import parse_point, text_of
from .refusal import GivenText, word
from .zones import parse_zone

W = TypeVar("W", bound=StrEnum)

UNIX: Final = "unix"
"""The format of a crontab: five fields, without seconds."""
UTC: Final = ZoneInfo("UTC")


@dataclass(frozen=True)
class Plan:
    """When a job fires. All instants are microseconds since the epoch."""

    base_us: int
    schedule: Cron | Every | None
    due_us: int | None
    ends_us: int | None
    """The last instant at which it may fire."""
    repeats: int | None
    """How often it fires at most; None: as often as the schedule has it."""

    @classmethod
    def parse(
        cls,
        *,
        base_us: int,
        schedule: str | None = None,
        due_time: str | None = None,
        ttl: str | None = None,
        repeats: int | None = None,
        tz: str | None = None,
        gap: str | None = None,
        fold: str | None = None,
        format: str | None = None,
        strict: bool = False,
    ) -> Plan:
        """A plan from the texts of a job.

        Args:
            base_us: when the job was registered, microseconds since the epoch.
            schedule: a cron expression, a macro, `@every` and a Go duration, or a reminder's period; None: it fires once.
            due_time: an instant or a duration.
            ttl: an instant or a duration.
            repeats: 1 or more.
            tz: the zone by whose clocks a cron expression is read; None: the one that it names, or UTC.
            gap: "skip" or "run_after"; see `Gap`.
            fold: "first", "second" or "both"; see `Fold`.
            format: "unix" for a cron expression of five fields; None: six, seconds first.
            strict: whether to refuse also what is well formed and never fires, or not within ten years.

        Raises:
            InvalidArgument: a text is malformed, or two do not go together; the message names the field and the place.
        """
        clocks = parse_clocks(tz, gap, fold)
        ticks, times = None, None
        if schedule is not None:
            ticks, times = parse_schedule(GivenText("schedule", schedule), clocks, format)
        if not isinstance(ticks, Cron):
            for field, text in {"tz": tz, "gap": gap, "fold": fold, "format": format}.items():
                if text is not None:
                    raise GivenText(field, text).refuse(0, "only a cron expression has one", f"leave {field} out")
        times = _repeats(repeats, times)
        due_us = None if due_time is None else parse_point(GivenText("due_time", due_time), base_us)
        ends_us = None if ttl is None else parse_point(GivenText("ttl", ttl), base_us if due_us is None else due_us)
        plan = cls(base_us, ticks, due_us, ends_us, times)
        plan._check_together(ttl or "")
        if strict:
            plan._check_fires(schedule or "", due_time or "", ttl or "")
        return plan

    def first_us(self) -> int | None:
        """When the job fires first; None: never, or its schedule alone never would."""
        first = self.due_us
        if self.schedule is not None:
            following = self.schedule.next_us(self.base_us if first is None else first)
            if following is None:
                return None
            first = following if first is None else first
        return self._until_end(first)

    def after(self, tick_us: int, count: int) -> int | None:
        """When the job fires next.

        Args:
            tick_us: the instant for which the fire before was due, not that at which it ran.
            count: how often the job has fired, that one included.

        Returns:
            Microseconds since the epoch; None: it has ended.
        """
        if self.schedule is None or (self.repeats is not None and count >= self.repeats):
            return None
        return self._until_end(self.schedule.next_us(tick_us))

    def __iter__(self) -> Iterator[int]:
        """The instants of all fires, one by one; often without end."""
        tick, count = self.first_us(), 1
        while tick is not None:
            yield tick
            tick, count = self.after(tick, count), count + 1

    def _until_end(self, tick_us: int | None) -> int | None:
        return None if tick_us is None or (self.ends_us is not None and tick_us > self.ends_us) else tick_us

    def _check_together(self, ttl: str) -> None:
        """Raises InvalidArgument where fields that are well formed do not go together."""
        if self.schedule is None:
            if self.due_us is None:
                raise GivenText("schedule", "").refuse(
                    0, "there is neither a schedule nor a due_time", "give one of them"
                )
            if self.ends_us is not None:
                raise GivenText("ttl", ttl).refuse(0, "without a schedule the job fires once", "leave ttl out")
            if self.repeats is not None and self.repeats > 1:
                shown = GivenText("repeats", str(self.repeats))
                raise shown.refuse(0, "without a schedule the job fires once", "give a schedule, or leave repeats out")
        if self.due_us is not None and self.ends_us is not None and self.ends_us < self.due_us:
            raise GivenText("ttl", ttl).refuse(
                0, f"it ends before due_time, {text_of(self.due_us)}", "give a later one"
            )

    def _check_fires(self, schedule: str, due_time: str, ttl: str) -> None:
        """Raises InvalidArgument for a job that would be kept and never fire."""
        start_us = self.base_us if self.due_us is None else self.due_us
        if start_us > self.base_us + MAX_AHEAD_US:
            raise GivenText("due_time", due_time).refuse(0, "it is more than ten years ahead", "give an earlier one")
        following = None if self.schedule is None else self.schedule.next_us(start_us)
        if self.schedule is not None and following is None:
            raise self.schedule.never(GivenText("schedule", schedule))
        if self.first_us() is None and following is not None:
            why = f"it ends before the first tick, {text_of(following)}"
            raise GivenText("ttl", ttl).refuse(0, why, "give a later one, or a due_time")


def _repeats(given: int | None, of_period: int | None) -> int | None:
    """How often a job fires at most, by its own field and by the `Rn/` of its period."""
    if given is None:
        return of_period
    shown = GivenText("repeats", str(given))
    if not 1 <= given <= MAX_REPEATS:
        raise shown.refuse(0, f"it is {'under 1' if given < 1 else f'over {MAX_REPEATS}'}", f"give 1 to {MAX_REPEATS}")
    if of_period not in {None, given}:
        raise shown.refuse(0, f"the period repeats {of_period} times", "give the number once")
    return given


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
