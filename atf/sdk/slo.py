"""Reads what a lambda promises about its starts: "5s 99%" is 99 % of starts within 5 s of being due. Pure.

Prometheus counts starts by the buckets of `atf_task_start_delay_seconds`. So a promise names one of their edges: between two edges
nobody could say whether it was kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from atf.errors import InvalidArgument
from atf.metrics.buckets import SECONDS

from .durations import seconds_of

MIN_SHARE: Final = 0.9
MAX_SHARE: Final = 0.9999
"""Beyond it, one late start in ten thousand would spend the budget."""
MAX_SLO_CHARS: Final = 40
_FORM = re.compile(r"\s*(\S+)\s+(\d{1,3}(?:\.\d{1,6})?)\s*%\s*", re.ASCII)


@dataclass(frozen=True)
class Slo:
    """A promise about the starts of a lambda's tasks."""

    seconds: float
    """Within which a task starts once it is due; one of the buckets' edges, SECONDS."""
    share: float
    """Of the starts, MIN_SHARE to MAX_SHARE."""

    def __str__(self) -> str:
        amount, unit = self.seconds, "s"
        if amount < 1:
            amount, unit = round(amount * 1_000, 3), "ms"
        elif amount >= 60:
            amount, unit = amount / 60, "m"
        return f"{amount:g}{unit} {self.share * 100:.10g}%"


DEFAULT_SLO: Final = Slo(5.0, 0.95)
"""Of a lambda that declares none."""


def parse_slo(text: object) -> Slo:
    """A promise from its text.

    Raises:
        InvalidArgument: it has another form, or numbers that can't be measured; says which can, without naming the option.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_SLO_CHARS else None
    seconds = seconds_of(found[1]) if found else None
    if found is None or seconds is None:
        raise InvalidArgument('write a time and a share of the starts, such as "5s 99%"')
    if seconds not in SECONDS:
        edges = ", ".join(str(Slo(each, 0.99)).split()[0] for each in SECONDS)
        raise InvalidArgument(f"{found[1]} is not measured; use one of {edges}")
    share = round(float(found[2]) / 100, 8)
    if not MIN_SHARE <= share <= MAX_SHARE:
        raise InvalidArgument(f"{found[2]} % can't be alerted on; use {MIN_SHARE * 100:g} % to {MAX_SHARE * 100:g} %")
    return Slo(seconds, share)


def slo_of(text: str) -> Slo:
    """The promise that holds of a lambda; `text`: as its spec has it. What a newer release wrote counts as none."""
    try:
        return parse_slo(text) if text else DEFAULT_SLO
    except InvalidArgument:
        return DEFAULT_SLO


def slo_in_force(code: str, overrides: str) -> Slo:
    """The promise that holds, where an operator may have set another.

    Args:
        code: what the lambda's code says.
        overrides: what was set, as the store keeps it; see frontend/settings.py.
    """
    for each in overrides.split():
        name, _, value = each.partition("=")
        if name == "slo":
            return slo_of(unquote(value))  # that of no promise is "-", which counts as none
    return slo_of(code)
