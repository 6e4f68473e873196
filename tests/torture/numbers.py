"""Where a request has numbers, or several of a thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from .catalogue import Path

_NO_NUMBERS = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_BOOL}


def numbers_of(message: Any, before: Path = (), within: tuple[Descriptor, ...] = ()) -> Iterator[tuple[Path, Any]]:
    """The path of every number and of everything that may be there several times; not those of a message within one of its own kind."""
    for field in message.fields:
        path, inner = (*before, field.name), field.message_type
        if field.is_repeated or (inner is None and field.type not in _NO_NUMBERS):
            yield path, field
        if inner is not None and inner not in within:
            yield from numbers_of(inner, path, (*within, inner))


def amounts_of(message: Message) -> dict[Path, set[float]]:
    """By path, the numbers that a message has there, and how many of a thing."""
    found: dict[Path, set[float]] = {}
    for path, amount in _amounts(message, ()):
        found.setdefault(path, set()).add(amount)
    return found


def _amounts(message: Any, before: Path) -> Iterator[tuple[Path, float]]:
    for field in message.DESCRIPTOR.fields:
        path, value = (*before, field.name), getattr(message, field.name)
        if not field.is_repeated:
            if field.message_type is None:
                yield from _number(path, value)
            elif message.HasField(field.name):
                yield from _amounts(value, path)
            continue
        yield path, len(value)
        if field.message_type is None:
            for each in value:
                yield from _number(path, each)
        elif field.message_type.GetOptions().map_entry:
            for key, each in value.items():
                yield from _number((*path, "key"), key)
                yield from _number((*path, "value"), each)
        else:
            for each in value:
                yield from _amounts(each, path)


def _number(path: Path, value: object) -> Iterator[tuple[Path, float]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
