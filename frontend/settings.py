"""Computes the settings of a lambda that hold: what an operator set, else what its code says. As the store keeps them.

What an operator set is a text, "name=value name=value", of the store's names for settings and of values without white space; "-" is a
value that lifts what the code says. Those that the store's functions need stand in the same form in each partition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.isolation import MAX_AT_ONCE, MAX_BURST, MAX_PENDING, MAX_QUEUE_LIMIT, PLACEMENTS, placement_of
from atf.sdk.kept_logs import kept_logs_of, word_for
from atf.sdk.options import duration_us, plain, priority_number
from atf.sdk.payload import short
from atf.sdk.slo import parse_slo
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, DEFAULT_POOL, DEFAULT_QUEUE_LIMIT, US, pool_stored

from .validate import check_lambda_spec, shown

ALL: Final = "all"
"""Instead of a name: every setting."""
_NONE: Final = "none"
_UNSET: Final = "-"


class _Setting(NamedTuple):
    """A setting that an operator may change."""

    field: str
    """Of LambdaSpec."""
    stored: str
    """What the store calls it."""
    parse: Callable[[str], Any]
    """From what an operator writes; InvalidArgument without the name."""
    write: Callable[[Any], str]
    """The field's value as the store keeps it; empty for the default."""
    read: Callable[[str], Any]
    """From what the store keeps."""
    show: Callable[[Any], str]
    """For an operator to see, and to write."""


def number(value: float) -> str:
    """A number as the store's functions read it; 0, which is the default everywhere: empty."""
    if not value:
        return ""
    return str(int(value)) if value == int(value) else repr(float(value))


def _whole(most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,15}", text) or not 1 <= int(text) <= most:
            raise InvalidArgument(f"use a whole number from 1 to {most}")
        return int(text)

    return parse


def _positive(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?|\.[0-9]{1,15}", text) or not float(text):
        raise InvalidArgument("use a number of more than 0, such as 100 or 0.5")
    return float(text)


def _seconds(text: str) -> int:
    us = duration_us(text, "enqueue_timeout")
    if not us:
        raise InvalidArgument("use more than 0, such as 10 or 30s")
    return us


def _shares(text: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for each in text.split(","):
        name, colon, share = each.partition(":")
        if not colon:
            raise InvalidArgument("write priority:share, such as high:0.5,low:0.1")
        priority = priority_number(int(name) if re.fullmatch("[0-9]", name) else name)
        if priority in found:
            raise InvalidArgument(f"priority {name} stands there twice")
        found[priority] = _positive(share)
    return found


def _written_shares(shares: Mapping[int, float]) -> str:
    return ",".join(f"{priority}:{plain(share)}" for priority, share in sorted(shares.items()))


def _yes(text: str) -> bool:
    if text not in {"yes", "no"}:
        raise InvalidArgument("use yes or no")
    return text == "yes"


def _text(text: str) -> str:
    if not text or not text.isprintable():
        raise InvalidArgument("use characters that can be seen")
    return text


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
        raise InvalidArgument("use 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    return text


def _quoted(text: str) -> str:
    return quote(text, safe="/:@+")


def _placement_name(value: int) -> str:
    return next((name for name, number in PLACEMENTS.items() if number == value), str(value))


def _counted(field: str, stored: str, most: int) -> _Setting:
    return _Setting(field, stored, _whole(most), number, int, str)


SETTINGS: Final[dict[str, _Setting]] = {
    "queue_limit": _counted("queue_limit", "limit", MAX_QUEUE_LIMIT),
    "enqueue_timeout": _Setting("enqueue_timeout_us", "timeout", _seconds, number, int, lambda us: f"{us / US:g}"),
    "owner": _Setting("owner", "owner", _text, _quoted, unquote, str),
    "runbook": _Setting("runbook", "runbook", _text, _quoted, unquote, str),
    "rate": _Setting("rate", "rate", _positive, number, float, plain),
    "burst": _counted("burst", "burst", MAX_BURST),
    "max_pending": _counted("max_pending", "pending", MAX_PENDING),
    "max_running": _counted("max_running", "running", MAX_AT_ONCE),
    "shares": _Setting("shares", "shares", _shares, _written_shares, _shares, _written_shares),
    "pool": _Setting("pool", "pool", _name, pool_stored, str, str),
    "placement": _Setting(
        "placement",
        "placement",
        placement_of,
        lambda value: _placement_name(value) if value else "",
        placement_of,
        _placement_name,
    ),
    "stop_on_fatal": _Setting(
        "stop_on_fatal", "stop", _yes, lambda on: "1" if on else "", lambda text: text == "1", lambda on: "yes" * on
    ),
    "gate_at_fatal": _Setting("gate_at_fatal", "fatal", _positive, number, float, plain),
    "logs": _Setting("logs", "logs", kept_logs_of, lambda kept: word_for(kept) if kept else "", kept_logs_of, word_for),
    "slo": _Setting("slo", "slo", lambda text: str(parse_slo(text)), _quoted, unquote, str),
}
"""By the name that @app.task has for it."""
_FOR_PEOPLE: Final = frozenset({"queue_limit", "enqueue_timeout", "owner", "runbook", "slo"})
"""Of which the admission to a queue knows nothing; the first two have fields of their own."""
_ALWAYS_SET: Final = frozenset({"queue_limit", "enqueue_timeout", "placement", "stop_on_fatal", "logs"})
"""Which hold a value in any case."""
_DEFAULTS: Final = {"limit": str(DEFAULT_QUEUE_LIMIT), "timeout": str(DEFAULT_ENQUEUE_TIMEOUT_US), "logs": "failed"}


def admission_settings(spec: f.LambdaSpec) -> dict[str, str]:
    """By the store's name, the settings that are not the default: names of [a-z_], values without white space.

    Most lambdas have none, and are pushed without a look at each task; see atf/store/lua/shared/admission.lua.
    """
    found = {
        each.stored: each.write(getattr(spec, each.field)) for name, each in SETTINGS.items() if name not in _FOR_PEOPLE
    }
    found["version"] = number(spec.version)
    return {name: value for name, value in found.items() if value}


def in_force(spec: f.LambdaSpec, overrides: str) -> f.LambdaSpec:
    """What holds of a lambda: its code's spec, with what an operator set. What a newer release wrote is passed over."""
    if not overrides:
        return spec
    held, found = _pairs(overrides), f.LambdaSpec()
    found.CopyFrom(spec)
    for each in SETTINGS.values():
        if each.stored in held:
            value = held[each.stored]
            found.ClearField(each.field)
            if value != _UNSET:
                _put(found, each.field, each.read(value))
    return found


def overridden(spec: f.LambdaSpec, overrides: str, wanted: Mapping[str, str], unwanted: Sequence[str]) -> str:
    """What an operator has set, after one more change of it.

    Args:
        spec: what the code says.
        overrides: what was set so far.
        wanted: by name, what is set now, as an operator writes it.
        unwanted: names of what shall be as the code says again.

    Raises:
        InvalidArgument: there is no such setting, a value breaks its rule, or they don't go together.
    """
    held = _pairs(overrides)
    for name in unwanted:
        if name == ALL:
            held.clear()
        else:
            held.pop(_setting(name).stored, None)
    for name, text in wanted.items():
        setting = _setting(name)
        if name in unwanted:
            raise InvalidArgument(f"{name}: set it or unset it, not both")
        try:
            lifts = text == _NONE and name != "logs"  # of which it is a value like the others
            value = "" if lifts else setting.write(setting.parse(text))
        except InvalidArgument as error:
            instead = "" if name in _ALWAYS_SET else f", or {_unset(name)}"
            raise InvalidArgument(f"{name} {shown(text)!r}: {error}{instead}") from None
        held[setting.stored] = value or _DEFAULTS.get(setting.stored, _UNSET)
    changed = " ".join(f"{name}={held[name]}" for name in sorted(held))
    check_lambda_spec(in_force(spec, changed), in_force(spec, overrides))
    return changed


def said(overrides: str) -> dict[str, str]:
    """What an operator has set, by the names and in the words of people."""
    held, found = _pairs(overrides), {}
    for name, each in SETTINGS.items():
        value = held.get(each.stored)
        if value is not None:
            found[name] = _unset(name) if value == _UNSET else each.show(each.read(value)) or _NONE
    return found


def _unset(name: str) -> str:
    """How an operator writes that what the code says shall not hold, and nothing in its place."""
    return DEFAULT_POOL if name == "pool" else _NONE


def _setting(name: str) -> _Setting:
    if name not in SETTINGS:
        raise InvalidArgument(f"there is no setting {short(name)}; there are {', '.join(SETTINGS)}")
    return SETTINGS[name]


def _put(spec: f.LambdaSpec, field: str, value: Any) -> None:
    if isinstance(value, dict):
        getattr(spec, field).update(value)
    else:
        setattr(spec, field, value)


def _pairs(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in text.split())
