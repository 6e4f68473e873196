"""Knows what is encrypted by its form, and says "[encrypted]" in its place. Every role passes it on as it came; nothing here can read it."""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "$encrypted"
WORD: Final = "[encrypted]"
"""What people see in the place of what is encrypted."""
SEALED_TEXT: Final = re.compile(r"\[encrypted:([A-Za-z0-9_-]+)\]")
_VALUE: Final = re.compile(rb'\{"\$encrypted":\["[^"]*","[^"]*","[^"]*"\][^{}]*\}')
_BEGINS: Final = b'{"$encrypted":'
_FINGERPRINT: Final = re.compile(rb'\{"\$encrypted":\["([A-Za-z0-9_-]{22})","')


def is_sealed(data: bytes) -> bool:
    """Whether arguments or a result are encrypted."""
    return data.startswith(_BEGINS)


def comparable(payload: bytes) -> bytes:
    """What tells a payload from another one: itself, or of one that is encrypted the hash of what it holds."""
    found = _FINGERPRINT.match(payload)
    return payload if found is None else b"\0" + found[1]


def words(text: str) -> str:
    """A text as people see it who have no key."""
    return SEALED_TEXT.sub(WORD, text)


def without_sealed(data: bytes) -> bytes:
    """Arguments or a result in JSON as people see them who have no key."""
    return _VALUE.sub(b'"[encrypted]"', data) if MARK.encode() in data else data
