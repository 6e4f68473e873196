"""Checks what a lambda declares to keep apart from others: limits, shares, pool, placement. Pure.

0 is "no bound" on the wire, or the default of queue_limit and enqueue_timeout. Whoever declares a lambda writes no 0: what lets nothing
through is a pause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, DEFAULT_QUEUE_LIMIT, US, check_pool, check_priority
from atf.times import length

from .kept_logs import check_kept_logs, kept_logs_of
from .option_kinds import LambdaOptions
from .options import duration_us, priority_number
from .payload import short
from .slo import Slo, parse_slo

MAX_OWNER_CHARS: Final = 200
MAX_RUNBOOK_CHARS: Final = 2_000
MIN_RATE: Final = 1e-5
"""Tasks a second: about one a day."""
MAX_RATE: Final = 100_000
"""More than a task store can push."""
MAX_BURST: Final = 1_000_000
MAX_PENDING: Final = 1_000_000_000
MAX_AT_ONCE: Final = 1_000_000
"""Of max_running."""
MAX_QUEUE_LIMIT: Final = 1_000_000
MIN_ENQUEUE_TIMEOUT_US: Final = US // 10
"""Shorter than a popped id may take to its claim, every task would be pushed twice."""
MAX_ENQUEUE_TIMEOUT_US: Final = 86_400 * US
MAX_VERSION: Final = (1 << 53) - 1
"""The store counts in floating point."""
PLACEMENTS: Final = {"any": f.ANY, "sticky": f.STICKY, "spread": f.SPREAD}
_TEXTS: Final = ("owner", "runbook", "pool")
_COUNTS: Final = {
    "burst": MAX_BURST,
    "max_pending": MAX_PENDING,
    "max_running": MAX_AT_ONCE,
    "queue_limit": MAX_QUEUE_LIMIT,
    "version": MAX_VERSION,
}
_NUMBERS: Final = ("rate", "gate_at_fatal")
_NONE: Final = ", or leave it out for no bound"
_OTHERWISE: Final = {
    "burst": ", or leave it out for a quarter more than the rate",
    "queue_limit": f", or leave it out for the default, {DEFAULT_QUEUE_LIMIT}",
    "shares": " and at most 1, or leave this priority out: it has a twentieth of what the declared ones leave, and one place in a thousand at least",
    "version": ", or leave it out where nobody asks for versions",
    "gate_at_fatal": " and at most 1, or leave it out: then failures close no gate",
}
"""What leaving one out means, where it is not "no bound"."""
_ZERO: Final = {"burst": "a quarter more than the rate", "queue_limit": "the default", "version": "none"}
"""What 0 means on the wire, where it is not "no bound"."""
_HUGE: Final = 1e300
_LEAST: Final = 1e-9
"""By which shares such as 0.1 + 0.2 + 0.7 may exceed 1."""


def isolation_spec(name: str, options: LambdaOptions) -> f.LambdaSpec:
    """Those of a lambda's options that keep it apart from the others, as they are registered; all else is left open.

    Raises:
        InvalidArgument: one breaks its rule; names the lambda and the option.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    spec = f.LambdaSpec()
    try:
        for each in (*_TEXTS, *_COUNTS, *_NUMBERS):
            if each in given:
                setattr(spec, each, _value(each, given[each]))
        if not isinstance(shares := given.get("shares", {}), Mapping):
            raise InvalidArgument(f'shares {short(shares)}: give them by priority, such as {{"low": 0.1}}')
        for priority, share in shares.items():
            spec.shares[priority_number(priority)] = _value("shares", share)
        if "placement" in given:
            spec.placement = placement_of(given["placement"])
        if "enqueue_timeout" in given:
            spec.enqueue_timeout_us = _enqueue_timeout_us(given["enqueue_timeout"])
        if not isinstance(stops := given.get("stop_on_fatal", False), bool):
            raise InvalidArgument(f"stop_on_fatal {short(stops)}: give True or False")
        spec.stop_on_fatal = stops
        spec.logs = _logs(given.get("logs", "failed"))
        if "slo" in given:
            spec.slo = str(_slo(given["slo"]))
        check_isolation(spec)
    except InvalidArgument as error:
        raise InvalidArgument(f"lambda {name}: {error}") from None
    return spec


def placement_of(name: str) -> f.Placement:
    """A placement by its name.

    Raises:
        InvalidArgument: there is none of this name.
    """
    if not isinstance(name, str) or name not in PLACEMENTS:
        raise InvalidArgument(f"placement {short(name)}: use {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name]


def _value(name: str, given: object) -> Any:
    if name in _TEXTS:
        if not isinstance(given, str) or not given.isprintable():
            raise InvalidArgument(f"{name} {short(given)}: give a text of characters that can be seen")
        return given
    if name in _COUNTS:
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _COUNTS[name]:
            raise InvalidArgument(
                f"{name} {short(given)}: give a whole number from 1 to {_COUNTS[name]}{_OTHERWISE.get(name, _NONE)}"
            )
        return given
    if not isinstance(given, int | float) or isinstance(given, bool) or given == 0:
        raise InvalidArgument(f"{name} {short(given)}: give a number of more than 0{_OTHERWISE.get(name, _NONE)}")
    return given if abs(given) < _HUGE else math.inf


def _enqueue_timeout_us(given: Any) -> int:
    us = duration_us(given, "enqueue_timeout")
    if not MIN_ENQUEUE_TIMEOUT_US <= us <= MAX_ENQUEUE_TIMEOUT_US:
        raise InvalidArgument(
            f"enqueue_timeout {short(given)}: give seconds, a timedelta or text such as 30s, from {MIN_ENQUEUE_TIMEOUT_US / US} s to a day, or leave it out"
            f" for the default, {DEFAULT_ENQUEUE_TIMEOUT_US // US} s"
        )
    return us


def chokes(spec: f.LambdaSpec) -> bool:
    """Whether its burst would bound its tasks below its rate, which they then never reach."""
    return 0 < spec.burst < spec.rate


def check_isolation(spec: f.LambdaSpec, held: f.LambdaSpec | None = None) -> None:
    """The settings of a lambda that keep it apart from the others.

    Args:
        spec: the settings.
        held: what held of it before. New code may bring a burst below the rate that an operator has set: that stands in the way of no
            other change.

    Raises:
        InvalidArgument: one breaks its rule; names it.
    """
    _check_bounds(spec)
    if spec.rate != 0 and not MIN_RATE <= spec.rate <= MAX_RATE:  # NaN is not, either
        raise InvalidArgument(
            f"rate {spec.rate}: tasks a second, from {MIN_RATE} to {MAX_RATE}; pause a lambda that shall start none"
        )
    if spec.burst and not spec.rate:
        raise InvalidArgument(
            f"burst {spec.burst}: of no use without a rate; leave the burst out, too (atf lambda set: burst=none)"
        )
    if chokes(spec) and (held is None or (spec.rate, spec.burst) != (held.rate, held.burst)):
        raise InvalidArgument(
            f"burst {spec.burst}: less than the rate, {spec.rate:g}, so that {spec.burst} a second would go out at most; give"
            f" {math.ceil(spec.rate)} or more, or leave it out (atf lambda set: burst=none) for a quarter more than the rate"
        )
    _check_shares(spec)
    if spec.pool:
        check_pool(spec.pool[:500])
    if spec.placement not in f.Placement.values():
        raise InvalidArgument(f"placement {spec.placement}: use ANY (0), STICKY (1) or SPREAD (2)")
    if not 0 <= spec.gate_at_fatal <= 1:
        raise InvalidArgument(f"gate_at_fatal {spec.gate_at_fatal}: a share of the runs, from 0 (never) to 1")
    if spec.slo:
        _slo(spec.slo)
    check_kept_logs(spec.logs)


def _slo(given: object) -> Slo:
    try:
        return parse_slo(given)
    except InvalidArgument as error:
        raise InvalidArgument(f"slo {short(given)}: {error}") from None


def _check_bounds(spec: f.LambdaSpec) -> None:
    for name, most in (("owner", MAX_OWNER_CHARS), ("runbook", MAX_RUNBOOK_CHARS)):
        if len(getattr(spec, name)) > most:
            raise InvalidArgument(f"{name}: {len(getattr(spec, name))} characters, at most {most}")
    for name, most in _COUNTS.items():
        if not 0 <= getattr(spec, name) <= most:
            raise InvalidArgument(f"{name} {getattr(spec, name)}: from 0 ({_ZERO.get(name, 'no bound')}) to {most}")
    if spec.enqueue_timeout_us and not MIN_ENQUEUE_TIMEOUT_US <= spec.enqueue_timeout_us <= MAX_ENQUEUE_TIMEOUT_US:
        bound = f"at least {length(MIN_ENQUEUE_TIMEOUT_US)}" if spec.enqueue_timeout_us < US else "at most a day"
        raise InvalidArgument(f"enqueue_timeout {length(spec.enqueue_timeout_us)}: {bound}")


def _check_shares(spec: f.LambdaSpec) -> None:
    for priority, share in spec.shares.items():
        check_priority(priority)
        if not 0 < share <= 1:
            raise InvalidArgument(f"shares: priority {priority} has {share}; use more than 0 and at most 1")
    total = math.fsum(spec.shares.values())
    if total > 1 + _LEAST:
        raise InvalidArgument(f"shares: they add up to {total:g}; at most 1")


def _logs(given: object) -> t.KeptLogs:
    try:
        return kept_logs_of(given)
    except InvalidArgument as error:
        raise InvalidArgument(f"logs {short(given)}: {error}") from None
