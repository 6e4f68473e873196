"""Makes the plain frozen values that callers see of messages, and fills in the one field that Python can't name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from atf.task import US

from .options import from_us

V = TypeVar("V")


def value_of(kind: Callable[..., V], message: Any, /, **known: Any) -> V:
    """A dataclass's instance, each field of which has what the message's field of the same name has.

    `lambda_name` is what a message calls "lambda". A field that a message gives in microseconds, as `<name>_us`, becomes an instant in UTC
    or seconds, whichever the dataclass says. A map comes in the order of its keys, since a message's has another one in each process.

    Args:
        kind: the dataclass.
        message: of which it is made.
        known: fields that are made otherwise.
    """
    for name, source, made in _sources(kind, message.__class__):
        if name not in known:
            known[name] = made(getattr(message, source)) if made is not None else getattr(message, source)
    return kind(**known)


@functools.cache
def _sources(kind: Any, message: Any) -> list[tuple[str, str, Callable[[Any], Any] | None]]:
    """The fields that the message tells: of the dataclass, of the message, and what becomes of its value."""
    found: list[tuple[str, str, Callable[[Any], Any] | None]] = []
    for each in fields(kind):
        name = "lambda" if each.name == "lambda_name" else each.name
        described = message.DESCRIPTOR.fields_by_name.get(name)
        if described is not None:
            is_map = described.message_type is not None and described.message_type.GetOptions().map_entry
            found.append((each.name, name, (lambda given: dict(sorted(given.items()))) if is_map else None))
        elif f"{name}_us" in message.DESCRIPTOR.fields_by_name:
            found.append((each.name, f"{name}_us", (lambda us: us / US) if each.type == "float" else from_us))
    return found


def of_lambda(name: str) -> dict[str, Any]:
    """The field `lambda` of a message, to be unpacked where the message is made."""
    return {"lambda": name}
