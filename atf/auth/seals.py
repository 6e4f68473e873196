"""Encrypts short texts that a caller is to bring back, and that nobody but a frontend may read or make."""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV


def sealed(text: str, seal: str, of: str) -> str:
    """A text that only `unsealed` with the same seal and the same `of` reads."""
    return base64.urlsafe_b64encode(_cipher(seal).encrypt(text.encode(), [of.encode()])).decode().rstrip("=")


def unsealed(text: str, seal: str, of: str) -> str | None:
    """What was sealed; None: not this, or not by this seal."""
    try:
        found = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        return str(_cipher(seal).decrypt(found, [of.encode()]).decode())
    except (InvalidTag, binascii.Error, ValueError):
        return None


def _cipher(seal: str) -> AESSIV:
    return AESSIV(hashlib.sha512(seal.encode()).digest())
