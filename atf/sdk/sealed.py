"""Knows what is encrypted by its form, and says "[encrypted]" in its place. Every role passes it on as it came; nothing here can read it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Final

import msgspec

MARK: Final = "$encrypted"
WORD: Final = "[encrypted]"
"""What people see in the place of what is encrypted."""
SEALED_TEXT: Final = re.compile(r"\[encrypted:([A-Za-z0-9_-]+)\]")
_WHOLE_OR_CUT: Final = re.compile(r"\[encrypted:[A-Za-z0-9_-]+(?:\]|…|$)", re.MULTILINE)
"""The same, or its beginning: the store keeps the first 256 bytes of why a run has failed."""
_VALUE: Final = re.compile(rb'\{"\$encrypted":\["[^"]*","[^"]*","[^"]*"\][^{}]*\}')
_BEGINS: Final = b'{"$encrypted":'
_KEY: Final = re.compile(rb'(?:"\$encrypted":\["[^"]*","[^"]*","|\[encrypted:)(A[A-Za-z0-9_-]{11})')
_HASH: Final = re.compile("[A-Za-z0-9_-]{22}")
_WHY: Final = re.compile(rb',"\$why":("(?:[^"\\]|\\.)*")\}$')
_FINGERPRINT: Final = re.compile(rb'\{"\$encrypted":\["([A-Za-z0-9_-]{22})","')


def are_hashes(values: Iterable[str]) -> bool:
    """Whether searched values are hashes, as a client sends them that has keys."""
    return all(map(_HASH.fullmatch, values))


def is_sealed(data: bytes) -> bool:
    """Whether arguments or a result are encrypted."""
    return data.startswith(_BEGINS)


def comparable(payload: bytes) -> bytes:
    """What tells a payload from another one: itself, or of one that is encrypted the hash of what it holds."""
    found = _FINGERPRINT.match(payload)
    return payload if found is None else b"\0" + found[1]


def words(text: str) -> str:
    """A text as people see it who have no key."""
    return _WHOLE_OR_CUT.sub(WORD, text) if "[encrypted:" in text else text


def without_sealed(data: bytes) -> bytes:
    """Arguments or a result in JSON as people see them who have no key: "[encrypted]", with the reason where decrypting was tried."""
    return _VALUE.sub(_word, data) if MARK.encode() in data else data


def _word(sealed: re.Match[bytes]) -> bytes:
    why = why_of(sealed[0])
    return msgspec.json.encode(f"[encrypted: {why}]" if why else WORD)


def key_of(sealed: bytes | str) -> str:
    """The id of the key of the first thing that is encrypted in arguments, a result or a text; "" where there is none."""
    found = _KEY.search(sealed if isinstance(sealed, bytes) else sealed.encode("utf-8", "replace"))
    return base64.urlsafe_b64decode(found[1])[1:].decode("ascii", "replace") if found else ""


def with_why(sealed: bytes, why: str) -> bytes:
    """Encrypted arguments or an encrypted result with the reason why they were not decrypted, for whoever looks at them next."""
    said = msgspec.json.encode(why).replace(b"{", b"\\u007b").replace(b"}", b"\\u007d")
    return as_stored(sealed)[:-1] + b',"$why":' + said + b"}"


def why_of(sealed: bytes) -> str:
    """That reason; "" where nobody has tried."""
    found = _WHY.search(sealed)
    return msgspec.json.decode(found[1], type=str) if found else ""


def as_stored(sealed: bytes) -> bytes:
    """The same without a reason."""
    return _WHY.sub(b"}", sealed)
