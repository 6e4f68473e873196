"""Encrypts and decrypts bytes by the keys of a file, which is read again when it has changed.

An envelope is a byte of its version, the id of its key (8 characters), a nonce of 12 bytes, and what AES-256-GCM makes of the rest. Its
origin says what it was made for, such as one task, and is authenticated with it: elsewhere it can't be opened.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
from typing import TYPE_CHECKING, Final

from atf.config.secret_files import credential
from atf.errors import ConfigError, NotDecrypted
from atf.rpc.tls_files import WatchedFiles

from .key_file import ID_CHARS, Keys, read_keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VERSION: Final = b"\x01"
NONCE_BYTES: Final = 12
_HEAD_BYTES: Final = 1 + ID_CHARS
OVERHEAD: Final = _HEAD_BYTES + NONCE_BYTES + 16
"""Bytes of an envelope beyond what it holds."""
_HASH_BYTES: Final = 16
_log = logging.getLogger(__name__)


class KeyMissing(NotDecrypted):
    """The key file lacks the key that it takes. Everything else is well: with that key it can be decrypted."""


class Cipher:
    """What encrypts and decrypts by a key file.

    Args:
        path: of the file.

    Raises:
        ConfigError: the file is none that can be used, or the package `cryptography` is missing.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = WatchedFiles([path])
        self._loaded: tuple[Keys, dict[str, AESGCM]] | None = None
        """Replaced as a whole: runs of several threads use it."""
        self._keys()

    def __repr__(self) -> str:
        return f"<Cipher {self._path}>"

    def _keys(self) -> tuple[Keys, dict[str, AESGCM]]:
        """The keys as the file has them, and what encrypts by each. A file that was damaged later does not stop what runs."""
        loaded = self._loaded
        if loaded is not None and not self._file.changed():
            return loaded
        try:
            keys = read_keys(self._path)
            self._loaded = loaded = keys, {key_id: _aes(key) for key_id, key in keys.by_id.items()}
        except ConfigError as error:
            if loaded is None:
                raise
            self._file.look_again()
            _log.warning("codec keys not read again: those read before still hold: %s", error)
        return loaded

    def seal(self, origin: str, plain: bytes) -> bytes:
        """An envelope."""
        keys, ready = self._keys()
        key_id = next(iter(keys.by_id))
        head, nonce = VERSION + key_id.encode(), os.urandom(NONCE_BYTES)  # noqa: TID251  a nonce needs the system's chance
        return head + nonce + ready[key_id].encrypt(nonce, plain, head + origin.encode())

    def open(self, origin: str, envelope: bytes) -> bytes:
        """What an envelope holds.

        Raises:
            NotDecrypted: its key is not in the file, or it is damaged or of another origin.
        """
        from cryptography.exceptions import InvalidTag

        head, nonce = envelope[:_HEAD_BYTES], envelope[_HEAD_BYTES : _HEAD_BYTES + NONCE_BYTES]
        if head[:1] != VERSION or len(envelope) < OVERHEAD:
            raise NotDecrypted("it is encrypted in a form that this release does not know, or damaged")
        key_id = head[1:].decode("ascii", "replace")
        _, ready = self._keys()
        if key_id not in ready:
            raise KeyMissing(
                f"it is encrypted with the key {key_id}, which {self._path} does not have: add the line `key {key_id}: …` from a copy that has it"
            )
        try:
            return ready[key_id].decrypt(nonce, envelope[_HEAD_BYTES + NONCE_BYTES :], head + origin.encode())
        except InvalidTag:
            raise NotDecrypted(
                f"it can't be decrypted with the key {key_id}: it was damaged or moved here from elsewhere, or the key of this id is another one"
            ) from None

    def hashed(self, what: str, value: bytes) -> str:
        """A value by which equal ones are known, and which tells nothing else: an HMAC that a rotation does not change.

        Args:
            what: which values are compared with each other.
            value: what is hashed.
        """
        told = hmac.digest(self._keys()[0].hashing, what.encode() + b"\0" + value, hashlib.sha256)
        return text_of_bytes(told[:_HASH_BYTES])


def text_of_bytes(data: bytes) -> str:
    """Bytes as text for URLs and JSON, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def bytes_of_text(text: str) -> bytes:
    """The bytes that such a text stands for; none where it is none."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def _aes(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ModuleNotFoundError:
        raise ConfigError("codec_keys needs the package cryptography: pip install 'atf-tasks[encryption]'") from None
    return aead.AESGCM(key)


def cipher_of(path: str | None = None) -> Cipher | None:
    """What encrypts by a file; None: that of ATF_CODEC_KEYS. Without a file there is none, and nothing is encrypted."""
    if path is None:
        path = os.environ.get("ATF_CODEC_KEYS") or credential("codec_keys", os.environ) or ""
    return Cipher(path) if path else None
