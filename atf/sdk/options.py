"""Checks how a task is to be run: what a lambda declares once, and what one call of it may change. Values and their checks, no I/O.

Durations are given in seconds, as a timedelta or as text such as "5m", and kept in whole microseconds, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, TypedDict

from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t
from atf.task import MAX_AHEAD_US, MAX_CONCURRENCY, MIN_WINDOW_US, PRIORITIES, US, check_key, check_priority

from .durations import FORMS, seconds_of
from .payload import short

Duration = float | timedelta | str
"""Seconds, a timedelta, or text: 500ms, 30s, 5m, 2h, 1d, 1h30m."""

MAX_FACTOR: Final = 1000
"""Of a backoff."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Backoff:
    """The wait before attempt n + 1: min(base * factor ** (n - 1), max), times a random number in [1 - jitter, 1 + jitter].

    Raises:
        InvalidArgument: a value is outside its range.
    """

    base: Duration = 1.0
    """The first wait, more than 0."""
    factor: float = 2.0
    """By which each wait is longer than the one before; at least 1."""
    max: Duration = 600.0
    """The longest wait, at least `base`."""
    jitter: float = 0.1
    """0 to 1."""

    def __post_init__(self) -> None:
        base_us, max_us = duration_us(self.base, "backoff base"), duration_us(self.max, "backoff max")
        if base_us == 0 or max_us < base_us:
            raise InvalidArgument(f"backoff: base {self.base} must be more than 0 and at most max {self.max}")
        if not 1 <= _number(self.factor) <= MAX_FACTOR:
            raise InvalidArgument(f"backoff factor {short(self.factor)}: give a number from 1 to {MAX_FACTOR}")
        if not 0 <= _number(self.jitter) <= 1:
            raise InvalidArgument(f"backoff jitter {short(self.jitter)}: give 0 to 1")

    def to_proto(self) -> t.Backoff:
        base_us, max_us = duration_us(self.base, "backoff base"), duration_us(self.max, "backoff max")
        return t.Backoff(base_us=base_us, factor=self.factor, max_us=max_us, jitter=self.jitter)


@dataclass(frozen=True, kw_only=True)
class TaskOptionsValues:
    """How a lambda's tasks are run unless a call says otherwise. None: the system's default."""

    priority: int | None = None
    """0 (high) to 9."""
    max_attempts: int | None = None
    """Runs that end by the lambda's own doing."""
    max_losses: int | None = None
    """Runs that end with their executor."""
    timeout_us: int | None = None
    """Of one run; 0: none."""
    backoff: Backoff | None = None
    retention_us: int | None = None
    """How long a finished task's record is kept."""

    def to_proto(self) -> t.TaskOptions:
        return t.TaskOptions(
            priority=self.priority,
            max_attempts=self.max_attempts,
            max_losses=self.max_losses,
            timeout_us=self.timeout_us,
            backoff=self.backoff.to_proto() if self.backoff is not None else None,
            retention_us=self.retention_us,
        )


_POLICIES: Final = ("queue", "skip", "cancel_running")


@dataclass(frozen=True)
class Concurrency:
    """At most so many tasks of one key of a lambda run at once, over the cluster."""

    key: str
    limit: int = 1
    policy: str = "queue"
    """What becomes of one that is due when so many run: "queue": it waits its turn; "skip": it is cancelled; "cancel_running": it
    waits, and the oldest of those that run is asked to stop."""

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise InvalidArgument(f"concurrency_key {short(self.key)}: give a text, or an atf.Concurrency")
        check_key(self.key, "concurrency_key")
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or not 1 <= self.limit <= MAX_CONCURRENCY:
            raise InvalidArgument(
                f"concurrency limit {short(self.limit)}: give a whole number from 1 to {MAX_CONCURRENCY}"
            )
        if self.policy not in _POLICIES:
            raise InvalidArgument(f"concurrency policy {short(self.policy)}: use {', '.join(map(repr, _POLICIES))}")

    def to_proto(self) -> t.Concurrency:
        return t.Concurrency(key=self.key, limit=self.limit, policy=self.policy.upper())


_UNIQUE_POLICIES: Final = ("throttle", "debounce")


@dataclass(frozen=True)
class Unique:
    """One task of a key of a lambda within a window."""

    key: str
    window: Duration
    """Its length, at least a millisecond."""
    policy: str = "throttle"
    """"throttle": the first call of a window makes the task, later ones find it. "debounce": each call puts the task off until a
    window has passed without one, and the last one's arguments count."""

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise InvalidArgument(f"unique key {short(self.key)}: give a text")
        check_key(self.key, "unique key")
        if duration_us(self.window, "unique window") < MIN_WINDOW_US:
            raise InvalidArgument(f"unique window {short(self.window)}: at least a millisecond")
        if self.policy not in _UNIQUE_POLICIES:
            raise InvalidArgument(f"unique policy {short(self.policy)}: use {', '.join(map(repr, _UNIQUE_POLICIES))}")

    def to_proto(self) -> t.Unique:
        window_us = duration_us(self.window, "unique window")
        return t.Unique(key=self.key, window_us=window_us, policy=self.policy.upper())


class RunOptions(TypedDict, total=False):
    """How a task is run. What is left out takes the lambda's value, then the system's."""

    priority: int | str  # 0 (high) to 9, or "high", "normal", "low"
    max_attempts: int
    max_losses: int
    timeout: Duration | None  # of one run; None or 0: none
    backoff: Backoff
    retention: Duration  # how long the record of the finished task is kept


def run_options(options: RunOptions) -> TaskOptionsValues:
    """Checks and converts what a user gave.

    Raises:
        InvalidArgument: a value is outside its range.
    """
    for name in ("max_attempts", "max_losses"):
        given = options.get(name)
        if given is not None and (not isinstance(given, int) or not 1 <= given < 1 << 31):
            raise InvalidArgument(f"{name} {short(given)}: give a whole number of at least 1")
    if not isinstance(options.get("backoff"), Backoff | None):
        raise InvalidArgument(f"backoff {short(options['backoff'])}: give an atf.Backoff")
    priority, retention = options.get("priority"), options.get("retention")
    return TaskOptionsValues(
        priority=None if priority is None else priority_number(priority),
        max_attempts=options.get("max_attempts"),
        max_losses=options.get("max_losses"),
        timeout_us=duration_us(options["timeout"] or 0, "timeout") if "timeout" in options else None,
        backoff=options.get("backoff"),
        retention_us=None if retention is None else duration_us(retention, "retention"),
    )


def checked_labels(labels: object) -> Mapping[str, str]:
    """Labels as names and values of text.

    Raises:
        InvalidArgument: they are something else.
    """
    if not isinstance(labels, Mapping) or not all(_is_text(each) for pair in labels.items() for each in pair):
        raise InvalidArgument(f"labels {short(labels)}: names and values are text, such as {{'team': 'web'}}")
    return labels


def _is_text(value: object) -> bool:
    """Whether it is text that UTF-8 has: a word of a command line or a file's name may hold half a character."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def priority_number(priority: int | str) -> int:
    """A priority as its number.

    Raises:
        InvalidArgument: it is none of high, normal, low, 0 to 9.
    """
    number = PRIORITIES.get(priority) if isinstance(priority, str) else priority
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > 1 << 31:
        raise InvalidArgument(f"priority {short(priority)}: use 0 (high) to 9, or high, normal, low")
    return check_priority(number)


def duration_us(duration: Duration, what: str) -> int:
    """Whole microseconds, rounded up.

    Raises:
        InvalidArgument: it is negative, not finite, over ten years, or a text that is no duration.
    """
    given = seconds_of(duration) if isinstance(duration, str) else duration
    seconds = given.total_seconds() if isinstance(given, timedelta) else _number(given)
    if not (math.isfinite(seconds) and 0 <= seconds * US <= MAX_AHEAD_US):
        raise InvalidArgument(
            f"{what} {short(duration)}: give seconds, a timedelta, or text such as {FORMS}; from 0 to ten years"
        )
    if isinstance(duration, timedelta):
        return duration // _MICROSECOND
    # 0.1 * 1e6 may come out a hair above the number meant: that hair is not a microsecond more.
    return math.ceil(round(seconds * US, 3))


def instant_us(at: datetime, what: str = "at") -> int:
    """Microseconds since the Unix epoch.

    Raises:
        InvalidArgument: it has no time zone.
    """
    if not isinstance(at, datetime) or at.tzinfo is None or at.utcoffset() is None:
        raise InvalidArgument(
            f"{what} {short(at)}: give a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1)"
        )
    return max(0, (at - _EPOCH) // _MICROSECOND)


def _number(given: object) -> float:
    """A number as a float; NaN where it is none, or larger than any float."""
    try:
        return float(given) if isinstance(given, int | float) and not isinstance(given, bool) else math.nan
    except OverflowError:
        return math.nan


def plain(number: float) -> str:
    """A number without an exponent, and a whole one without a point."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")


def from_us(instant: int) -> datetime | None:
    """The instant in UTC; None for 0, which stands for "never" on the wire."""
    return _EPOCH + instant * _MICROSECOND if instant else None
