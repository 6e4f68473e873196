"""Reads labels that somebody has written one after the other."""

from __future__ import annotations

import re
from typing import Final

from atf.errors import InvalidArgument

_BETWEEN: Final = re.compile(r"[\s,]+")


def label_words(text: str) -> list[str]:
    """Each label as it was written."""
    return [each for each in _BETWEEN.split(text) if each]


def labels_of(text: str) -> dict[str, str]:
    """Labels by name.

    Raises:
        InvalidArgument: one is no NAME=VALUE.
    """
    found = {}
    for each in label_words(text):
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise InvalidArgument(f"labels {each[:80]!r}: write NAME=VALUE, with spaces or commas between several")
        found[name] = value
    return found
