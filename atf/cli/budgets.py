"""Computes error budgets: what a promise allows to go wrong, and what of that is left. From series of Prometheus, or from roles' own metrics.

Both answers come from others: what is not of the expected form is left out, or refused with a sentence. It asks nobody.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from atf.errors import FailedPrecondition
from atf.metrics.table import RPC_REQUESTS, SLO_RATIO, START_DELAY
from atf.sdk.slo import DEFAULT_SLO, Slo

ACCEPTED: Final = 0.999
"""Of the calls that schedule tasks."""
METHODS: Final = frozenset({"Schedule", "ScheduleMany", "ScheduleBatch"})
NOT_THE_CALLERS_FAULT: Final = frozenset(
    {"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "RESOURCE_EXHAUSTED"}
)
"""Codes that spend the budget; recording.yml has the same."""
WINDOWS: Final = ("5m", "30m", "1h", "6h", "3d", "30d")
ALERTED: Final = (("1h", "5m", 14.4), ("6h", "30m", 6.0), ("3d", "6h", 1.0))
"""Windows in both of which a budget burns faster than so, as deploy/prometheus/alerts.yml has it."""
_WORDS: Final = {"1h": "an hour", "6h": "six hours", "3d": "three days"}
ENOUGH: Final = 100
"""Starts or calls from which on counts since a start say something."""
BURN_QUERY: Final = '{__name__=~"lambda:atf_starts_burn:.+|cluster:atf_schedule_burn:.+"}'
SLO_QUERY: Final = f"max by (lambda, le) ({SLO_RATIO.name})"
_STARTED: Final = "process_start_time_seconds"
_DELAY_BUCKET, _DELAY_COUNT = f"{START_DELAY.name}_bucket", f"{START_DELAY.name}_count"
_NAMES: Final = (f"{_DELAY_BUCKET}{{", f"{_DELAY_COUNT}{{", f"{RPC_REQUESTS.name}{{", _STARTED)


@dataclass(frozen=True)
class Budget:
    """What a promise allows to go wrong, and what of that is gone."""

    of: str
    """A lambda, or "Schedule"."""
    promise: str
    left: float | None
    """Of 1; less than 0 where the promise is broken; None where nothing was counted."""
    burn: Mapping[str, float]
    """By window, how fast it goes: at 1, just as fast as the promise allows."""
    counted: int | None = None
    """Starts or calls, where the answer has them."""
    bad: int | None = None


def of_prometheus(burns: Iterable[Any], promises: Iterable[Any]) -> list[Budget]:
    """Budgets from the answers to BURN_QUERY and SLO_QUERY.

    Raises:
        FailedPrecondition: Prometheus has none of the series.
    """
    by_what: dict[str, dict[str, float]] = {}
    for labels, value in map(_sample, burns):
        name, _, window = labels.get("__name__", "").rpartition(":")
        if window in WINDOWS and math.isfinite(value):
            by_what.setdefault(labels.get("lambda", "") if name.startswith("lambda:") else "Schedule", {})[window] = (
                value
            )
    if not by_what:
        raise FailedPrecondition(
            "this Prometheus records no burn rates of ATF: load deploy/prometheus/recording.yml, and see that the job atf is scraped"
        )
    slos = {labels.get("lambda", ""): _told(labels.get("le", ""), share) for labels, share in map(_sample, promises)}
    found = []
    for of, burn in by_what.items():
        promise = _accepted() if of == "Schedule" else slos.get(of, "")
        found.append(Budget(of, promise, 1 - burn["30d"] if "30d" in burn else None, burn))
    return worst_first(found)


def of_roles(texts: Iterable[str], slo: Callable[[str], Slo]) -> tuple[list[Budget], float]:
    """Budgets from what roles' own /metrics say, and since when the first of them counts, as a Unix time.

    Args:
        texts: an answer for each role.
        slo: the promise of a lambda.
    """
    starts, in_time, calls, refused, since = Counter[str](), Counter[str](), 0, 0, math.inf
    for text in texts:
        for name, labels, value in _samples(text):
            of = labels.get("lambda", "")
            if name == _DELAY_COUNT:
                starts[of] += int(value)
            elif name == _DELAY_BUCKET and labels.get("le") == str(slo(of).seconds):
                in_time[of] += int(value)
            elif name == RPC_REQUESTS.name and labels.get("method") in METHODS:
                calls += int(value)
                refused += int(value) if labels.get("code") in NOT_THE_CALLERS_FAULT else 0
            elif name == _STARTED:
                since = min(since, value)
    found = [_counted(of, str(slo(of)), slo(of).share, count, count - in_time[of]) for of, count in starts.items()]
    return worst_first([*found, _counted("Schedule", _accepted(), ACCEPTED, calls, refused)]), since


def worst_first(budgets: Iterable[Budget]) -> list[Budget]:
    """Those with the least left first, those of which nothing is known last."""
    return sorted(budgets, key=lambda each: (each.left is None, each.left or 0, each.of))


def burning(each: Budget) -> str:
    """What to say of a budget that goes too fast, by the same bounds as the alerts; empty: it does not.

    Counts since a start don't tell the present from last week: then it must be gone, and so many starts or calls counted that a few of them say something.
    """
    for long, short, most in ALERTED:
        if min(each.burn.get(long, 0), each.burn.get(short, 0)) > most:
            return f"its error budget goes {each.burn[long]:.0f} times as fast as {each.promise} allows, over {_WORDS[long]}"
    if each.bad and (each.counted or 0) >= ENOUGH and each.left is not None and each.left < 0:
        what = "calls were not" if each.of == "Schedule" else "starts came later than"
        return f"{each.bad:,} of {each.counted:,} {what} {each.promise}: its error budget is gone"
    return ""


def _counted(of: str, promise: str, share: float, counted: int, bad: int) -> Budget:
    if not counted:
        return Budget(of, promise, None, {}, 0, 0)
    burn = bad / counted / (1 - share)
    return Budget(of, promise, 1 - burn, {"start": burn}, counted, bad)


def _accepted() -> str:
    return f"{ACCEPTED * 100:g}% accepted"


def _told(le: str, share: float) -> str:
    try:
        return str(Slo(float(le), share))
    except ValueError:
        return str(DEFAULT_SLO)


def _sample(each: Any) -> tuple[dict[str, str], float]:
    """Labels and value of a sample of an instant query."""
    try:
        return dict(each["metric"]), float(each["value"][1])
    except (TypeError, KeyError, IndexError, ValueError):
        raise FailedPrecondition("its answer is not that of a Prometheus") from None


def _samples(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    """Those lines of a /metrics that budgets are made of."""
    kept = "\n".join(line for line in text.splitlines() if line.startswith(_NAMES)) + "\n"
    try:
        return [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(kept)
            for sample in family.samples
        ]
    except ValueError:
        raise FailedPrecondition("its answer is not text of Prometheus' format") from None
