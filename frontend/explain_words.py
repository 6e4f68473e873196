"""Words that the sentences of explain share."""

from __future__ import annotations

from typing import NamedTuple

from atf.task import US


class ExplainAnswer(NamedTuple):
    """The reason, its sentence, and the instant at which it ends by itself (0: unknown)."""

    reason: str
    sentence: str
    until_us: int = 0


def count(number: int, thing: str) -> str:
    """A number of things: 1 task, 2 tasks."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def is_are(number: int) -> str:
    """The verb that goes with a number."""
    return "is" if number == 1 else "are"


def duration(us: int) -> str:
    """A length of time for people: 340 ms, 12.5 s, 3 min 20 s, 5 h 10 min, 2 d 3 h."""
    us = max(us, 0)
    if us < US:
        return f"{us // 1000} ms"
    if us < 60 * US:
        return f"{us / US:.1f} s"
    minutes, seconds = divmod(us // US, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next(place for place, (number, _) in enumerate(units) if number)
    return " ".join(f"{number} {unit}" for number, unit in units[first : first + 2] if number)
