"""Computes the digest of a signature: of all that decides whether a payload decodes, and of nothing else.

Two releases of a lambda with the same digest read the same payloads. Names of classes, default values, docstrings, the order of the
parameters and the code of the handler have no part in it: a change of them makes no payload unreadable.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import inspect as mi

from .values import schema_of

DIGEST_BYTES: Final = 6


def digest_of(parameters: Iterable[tuple[str, bool, Any]], aliases: Mapping[str, str], *, raw: bool) -> str:
    """Twelve hexadecimal digits.

    Args:
        parameters: name, whether it must be given, and annotation of each.
        aliases: old name of a parameter -> present one.
        raw: whether the only argument travels as the bytes that it is.
    """
    said = {
        "raw": raw,
        "parameters": sorted([name, required, _form(kind)] for name, required, kind in parameters),
        "aliases": sorted(aliases.items()),
    }
    text = json.dumps(said, sort_keys=True, default=repr)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def _form(kind: Any) -> str:
    """What a type reads, as a text."""
    try:
        return json.dumps(_described(mi.type_info(kind), ()), sort_keys=True, default=repr)
    except (TypeError, NameError):  # what msgspec does not know by itself
        return str(kind)


def _described(value: Any, within: tuple[Any, ...]) -> Any:
    match value:
        case mi.EnumType(cls=cls):
            return ["enum", sorted(repr(each.value) for each in cls)]
        case mi.LiteralType(values=values):
            return ["literal", sorted(map(repr, values))]
        case mi.UnionType(types=types):
            return [
                "union",
                sorted(json.dumps(_described(each, within), sort_keys=True, default=repr) for each in types),
            ]
        case mi.StructType() | mi.DataclassType() | mi.TypedDictType() | mi.NamedTupleType():
            return _object(value, within)
        case mi.Metadata(type=inner):  # descriptions, examples, and whatever else is said of it
            return _described(inner, within)
        case mi.CustomType(cls=cls):
            return ["custom", schema_of(cls) or f"{cls.__module__}.{cls.__qualname__}"]
        case msgspec.Struct():
            facts = {name: _described(getattr(value, name), within) for name in value.__struct_fields__}
            return [type(value).__name__, {name: fact for name, fact in facts.items() if fact is not None}]
        case tuple() | list():
            return [_described(each, within) for each in value]
        case type() | enum.Enum():
            return value.__name__ if isinstance(value, type) else repr(value)
    return value


def _object(value: Any, within: tuple[Any, ...]) -> Any:
    if value.cls in within:  # it holds itself
        return ["again", len(within) - within.index(value.cls)]
    inner = (*within, value.cls)
    fields = [[each.encode_name, each.required, _described(each.type, inner)] for each in value.fields]
    ordered = isinstance(value, mi.NamedTupleType) or getattr(value, "array_like", False)
    more = [getattr(value, name, None) for name in ("tag", "tag_field", "forbid_unknown_fields", "array_like")]
    return [type(value).__name__, more, fields if ordered else sorted(fields, key=lambda each: each[0])]
