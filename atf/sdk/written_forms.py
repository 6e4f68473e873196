"""Tells how a value may be written in texts: as it is, and as repr, JSON, URLs, HTML, shells and base64 write it."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import shlex
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus

import msgspec

from .payload import FAILS

MOST_VALUES: Final = 1_000
_LINE_CHARS: Final = 8


def leaves_of(value: Any) -> Iterator[Any]:
    """What a value holds that holds nothing else; at most one more than MOST_VALUES."""
    stack, count = [value], 0
    while stack and count <= MOST_VALUES:
        match stack.pop():
            case dict() as mapping:
                stack.extend(mapping.values())
            case list() | tuple() | set() | frozenset() as items:
                stack.extend(items)
            case leaf:
                count += 1
                yield leaf


def whole_forms(value: Any) -> Iterator[str]:
    """How a collection is written as a whole: what is short in it is found so."""
    with contextlib.suppress(Exception):
        yield repr(value)
    yield from json_forms(value)


def json_forms(value: Any) -> Iterator[str]:
    """How JSON writes it."""
    for options in ({}, {"ensure_ascii": False}, {"separators": (",", ":")}):
        with contextlib.suppress(*FAILS):
            yield json.dumps(value, **options)


def forms_of(leaf: Any) -> Iterator[str]:
    """How a single value may be written."""
    match leaf:
        case bool() | None:
            return
        case str():
            yield from _of_text(leaf)
        case bytes() | bytearray() | memoryview():
            yield from _of_bytes(bytes(leaf))
        case int() | float():
            yield str(leaf)
            if isinstance(leaf, float) and math.isfinite(leaf) and leaf.is_integer():
                yield str(int(leaf))
        case _:
            yield from _of_object(leaf)


def _of_text(text: str) -> Iterator[str]:
    import html  # here: its table of names takes half a MiB

    for plain in {text, text.strip()}:
        yield plain
        written = {repr(plain)[1:-1], ascii(plain)[1:-1], *(each[1:-1] for each in json_forms(plain))}
        yield from written
        yield from (repr(each)[1:-1] for each in written)  # an error that shows another one's repr
        yield html.escape(plain)
        yield shlex.quote(plain).removeprefix("'").removesuffix("'")
        with contextlib.suppress(UnicodeEncodeError):
            yield from (quote(plain), quote(plain, safe=""), quote_plus(plain))
            yield repr(plain.encode())[2:-1]
            yield plain.encode().hex()
            yield from _base64(plain.encode())
    lines = text.splitlines()
    if len(lines) > 1:  # a traceback may indent each
        yield from (line.strip() for line in lines if len(line.strip()) >= _LINE_CHARS)


def _of_bytes(value: bytes) -> Iterator[str]:
    yield repr(value)[2:-1]
    yield value.hex()
    yield from _base64(value)
    with contextlib.suppress(UnicodeDecodeError):
        yield from _of_text(value.decode())


def _base64(value: bytes) -> Iterator[str]:
    """What base64 makes of it wherever it stands in the text that is encoded, as behind `user:`, without the characters that depend on what is beside it."""
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + value).decode()[first:last]


def _of_object(value: Any) -> Iterator[str]:
    """Of a date, a dataclass and the like: as Python writes it, and what it holds."""
    for write in (str, repr, lambda value: value.isoformat()):
        with contextlib.suppress(Exception):  # a __repr__ of the user's
            yield write(value)
    with contextlib.suppress(Exception):
        plain = msgspec.to_builtins(value)
        if type(plain) is not type(value):
            for leaf in leaves_of(plain):
                yield from forms_of(leaf)
