"""The opt-in index of arguments: what a lambda declares (`@app.task(search=["order_id"])`), and the entries of a payload in it.

An entry is the name of an argument and its value as text. Numbers, true, false and null are written as JSON has them; lists and objects have no
entry, and can't be searched. A long value is searched by its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t
from atf.task import MAX_SEARCH

from .payload import FAILS
from .redaction import parameters_named

MAX_VALUE_CHARS: Final = 64
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def checked_search(
    name: str, given: object, parameters: Collection[str], aliases: Mapping[str, str], redacted: Collection[str]
) -> list[str]:
    """The arguments that a lambda declares for search.

    Raises:
        InvalidArgument: it is no list of texts, names what is no parameter or is redacted, or has too many.
    """
    names = sorted(set(parameters_named(name, "search", given, parameters, aliases, "order_id")))
    if hidden := [each for each in names if each in redacted]:
        raise InvalidArgument(
            f"lambda {name}: search: {hidden[0]!r} is redacted, and the index would show its values; leave it out of one of the two"
        )
    if len(names) > MAX_SEARCH:
        raise InvalidArgument(f"lambda {name}: search: {len(names)} parameters, at most {MAX_SEARCH}")
    return names


_declared: dict[str, list[str]] = {}


def declare(lambda_name: str, names: list[str]) -> None:
    """Notes what a lambda whose code this process has declares, so that a client which encrypts knows of what it sends hashes."""
    _declared[lambda_name] = names


def declared(lambda_name: str) -> list[str]:
    """What a lambda declares, as far as this process knows."""
    return _declared.get(lambda_name, [])


def searched_values(names: Iterable[str], payload: bytes, encoding: int) -> dict[str, str]:
    """What the index has of a payload: the values of these arguments, as text."""
    if encoding != t.JSON or not payload:
        return {}
    return {name: as_searched(text) for name, text in values_as_text(names, payload).items()}


def values_as_text(names: Iterable[str], payload: bytes) -> dict[str, str]:
    """The values of these arguments that can be searched, as text, from JSON."""
    try:
        given = _OBJECT.decode(payload)
        found = {name: msgspec.json.decode(given[name]) for name in names if name in given}
    except FAILS:  # no handler could read it, either
        return {}
    return {
        name: value if isinstance(value, str) else bytes(given[name]).decode()
        for name, value in found.items()
        if not isinstance(value, list | dict)
    }


def as_searched(text: str) -> str:
    """A value as it stands in the index."""
    if len(text) <= MAX_VALUE_CHARS:
        return text
    return f"#{hashlib.blake2b(text.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
