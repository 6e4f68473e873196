"""Tells whether a value has arrived as what it was, and where it has changed on the way."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from .values import ENCODER, SCALARS, model_class

_TEXTS: Final = frozenset({str})

NOWHERE: Final = object()
"""Stands for what has not arrived at all."""


def difference(given: Any, arrived: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """Where a value has changed on the way: the place, such as "[3].name", and what was given and has arrived there, or NOWHERE.

    Called only for values that are unequal, since it is slow: equality may fail to say that two are the same.
    """
    if isinstance(given, Mapping) and isinstance(arrived, Mapping):
        return _difference_of_mappings(given, arrived, place)
    if isinstance(given, list | tuple) and isinstance(arrived, list if isinstance(given, list) else tuple):
        if len(given) == len(arrived):
            pairs = ((f"{place}[{number}]", *pair) for number, pair in enumerate(zip(given, arrived, strict=True)))
            return next((found for each in pairs if (found := difference(each[1], each[2], each[0]))), None)
    elif type(given) is type(arrived) and (names := _fields_of(given)):
        fields = ((f"{place}.{name}", getattr(given, name, None), getattr(arrived, name, None)) for name in names)
        return next((found for each in fields if (found := difference(each[1], each[2], each[0]))), None)
    if same(given, arrived):
        return None
    return place, given, arrived


def same(given: Any, arrived: Any) -> bool:
    """Whether two values are equal, as far as their own `==` says so, or both no number, or the same instant.

    Python finds no instant in the hour that clocks pass twice equal to one with another tzinfo.
    """
    try:
        if given == arrived:
            return True
        if isinstance(given, datetime) and isinstance(arrived, datetime):
            at, offset = given.replace(tzinfo=None, fold=0), given.utcoffset()
            return offset is not None and offset == arrived.utcoffset() and at == arrived.replace(tzinfo=None, fold=0)
        return type(given) is type(arrived) and given != given and arrived != arrived  # noqa: PLR0124  as NaN is
    except Exception:  # noqa: BLE001  an __eq__ of the user's
        return False


def _difference_of_mappings(
    given: Mapping[Any, Any], arrived: Mapping[Any, Any], place: str
) -> tuple[str, Any, Any] | None:
    for key, value in given.items():
        if key not in arrived:
            became = next((each for each in arrived if str(each) in {str(key), str(_text_of(key))}), NOWHERE)
            return f"{place}, a key" if place else "a key", key, became
        if found := difference(value, arrived[key], f"{place}[{key!r}]"):
            return found
    return None


def _text_of(key: Any) -> Any:
    """What a key becomes."""
    return next(iter(msgspec.json.decode(ENCODER.encode({key: None}))))


def _fields_of(value: Any) -> tuple[str, ...]:
    """The names of what an object is made of; none, if it is no such object."""
    extra = value.model_extra if isinstance(value, model_class()) else None
    kind: Any = type(value)
    return (*_fields_of_class(kind), *(extra or ()))


@functools.lru_cache(maxsize=1024)
def _fields_of_class(kind: Any) -> tuple[str, ...]:
    if issubclass(kind, model_class()):
        return tuple(kind.model_fields)
    if issubclass(kind, msgspec.Struct):
        return tuple(kind.__struct_fields__)
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind))
    return tuple(each.name for each in getattr(kind, "__attrs_attrs__", ()))


def lost_key(value: Any) -> str:
    """Which key of a mapping within `value` is the same text as another one in JSON, and would be lost: "1 and '1'"; "" if none is."""
    if type(value) in SCALARS:
        return ""
    stack = [value]
    while stack:
        each = stack.pop()
        kind = type(each)
        inner: Iterable[Any]
        if kind is dict or isinstance(each, Mapping):
            if not _TEXTS.issuperset(map(type, each)) and (found := _same_text(each)):
                return found
            inner = each.values()
        elif kind is list or isinstance(each, list | tuple | set | frozenset):
            inner = each
        else:
            inner = [getattr(each, name, None) for name in _fields_of(each)]
        if not SCALARS.issuperset(map(type, inner)):
            stack.extend(each for each in inner if type(each) not in SCALARS)
    return ""


def _same_text(mapping: Mapping[Any, Any]) -> str:
    """Two of its keys that are one in JSON."""
    seen: dict[Any, Any] = {}
    for key in mapping:
        text = key if type(key) is str else _text_of(key)
        if text in seen:
            return f"{seen[text]!r} and {key!r}"
        seen[text] = key
    return ""
