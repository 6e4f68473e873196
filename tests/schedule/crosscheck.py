"""Asks another library, cronsim, when random expressions match in UTC.

`make chaos ROW=expressions` asks it a hundred thousand times. The grammar is what both have in common. Left out are `*/n` where
both day fields are set (cronsim has Debian's rule for it), `n/step` in the day of the week (there cronsim goes on to 7), and a step
behind a range of one value (there it goes to the end).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from cronsim import CronSim, CronSimError

from atf.schedule.instants import text_of
from atf.schedule.plan import Plan

TICKS = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
DAY, MONTH, WEEKDAY = 3, 4, 5
RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


@dataclass(frozen=True)
class Compared:
    expression: str
    base: datetime
    ours: list[str]
    theirs: list[str]


def compare(chance: random.Random) -> Compared:
    """The ticks of one random expression after a random instant, by both."""
    expression = random_expression(chance)
    base = EPOCH + timedelta(
        seconds=chance.randrange(20 * 31_557_600, 90 * 31_557_600), microseconds=chance.choice([0, 0, 1, 999_999])
    )
    plan = Plan.parse(base_us=(base - EPOCH) // timedelta(microseconds=1), schedule=expression)
    return Compared(expression, base, [text_of(tick) for tick in islice(plan, TICKS)], theirs(expression, base))


def theirs(expression: str, base: datetime) -> list[str]:
    try:
        return [f"{at:%Y-%m-%dT%H:%M:%S}Z" for at in islice(CronSim(expression, base), TICKS)]
    except CronSimError:  # it refuses days that no month has
        return []


def random_expression(chance: random.Random) -> str:
    open_fields = {index for index in range(6) if chance.random() < 0.4}
    both_days = not open_fields & {DAY, WEEKDAY}
    fields = []
    for index in range(6):
        is_day = index in {DAY, WEEKDAY}
        if index in open_fields:
            fields.append(chance.choice(["*", "*/1"] if is_day else ["*"]))
        else:
            count = chance.choice([1, 1, 1, 2, 3])
            fields.append(",".join(item(chance, index, stars=not (is_day and both_days)) for _ in range(count)))
    return chance.choice([" ", "  "]).join(fields)


def item(chance: random.Random, index: int, *, stars: bool) -> str:
    least, most = RANGES[index]
    low, high = sorted((chance.randint(least, most), chance.randint(least, most)))
    step = chance.choice([1, 2, 3, 7, 15, 40])
    forms = ["value", "value", "range"]
    forms += ["star"] if stars else []
    forms += ["range step"] if low < high else []
    forms += ["open step"] if index != WEEKDAY else []
    return {
        "value": named(chance, index, low),
        "range": f"{named(chance, index, low)}-{named(chance, index, high)}",
        "star": f"*/{step}",
        "range step": f"{named(chance, index, low)}-{named(chance, index, high)}/{step}",
        "open step": f"{named(chance, index, low)}/{step}",
    }[chance.choice(forms)]


def named(chance: random.Random, index: int, value: int) -> str:
    """A value by its number or its name, in any case."""
    names = {MONTH: ["", *MONTHS], WEEKDAY: DAYS}.get(index)
    if names is None or chance.random() < 0.5:
        return f"{value:02}" if chance.random() < 0.1 else str(value)
    return chance.choice([str.lower, str.upper, str.title])(names[value])
