"""Reads and writes the file of codec keys, of which clients and executors have a copy, and frontends none.

index: 3q2+7w…              what searched values and identical requests are hashed with; `rotate` keeps it
key 5f0c21aa: yv66vg…       the first key encrypts
key 90d1b3e7: 8J+YgA…       all of them decrypt
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple

from atf.errors import ConfigError, InvalidArgument

KEY_BYTES: Final = 32
ID_CHARS: Final = 8
MAX_KEYS: Final = 100
_HEAD: Final = "# Codec keys of ATF: whoever has them reads arguments, results, errors, progress and logs. The first key encrypts, all decrypt.\n"
_LINE: Final = re.compile(r"(?:(index)|key ([0-9a-f]{8})): ([A-Za-z0-9+/]{43}=)")


class Keys(NamedTuple):
    """What a key file holds."""

    hashing: bytes
    by_id: dict[str, bytes]
    """The first one encrypts."""

    def __repr__(self) -> str:  # without the keys
        return f"<Keys {' '.join(self.by_id)}>"


def read_keys(path: str) -> Keys:
    """The keys of a file.

    Raises:
        ConfigError: it can't be read, others than its owner may read it, or it is no key file; says how to mend it.
    """
    try:
        with Path(path).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(1 << 20).decode("ascii", "replace")
    except OSError as error:
        raise ConfigError(
            f"codec_keys = {path}: it can't be read: {error.strerror}. Make one: atf keyfile new {path}"
        ) from None
    if mode & 0o077:
        raise ConfigError(
            f"codec_keys = {path}: others than its owner may use it (mode {mode:04o}). Run: chmod 600 {path}"
        )
    return _parsed(path, text)


def _parsed(path: str, text: str) -> Keys:
    index, keys = b"", dict[str, bytes]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        try:
            key = base64.b64decode(found[3], validate=True) if found else b""
        except binascii.Error:
            key = b""
        if found is None or len(key) != KEY_BYTES or found[2] in keys or (found[1] and index):
            raise ConfigError(
                f"codec_keys = {path}: line {number} is none of a key file. Write `index: BASE64` once and `key ID: BASE64` for each key,"
                " or take the file from where it is whole"
            )
        if found[1]:
            index = key
        else:
            keys[found[2]] = key
    if not index or not keys or len(keys) > MAX_KEYS:
        raise ConfigError(f"codec_keys = {path}: it needs one line `index: …`, and 1 to {MAX_KEYS} lines `key ID: …`")
    return Keys(index, keys)


def new_keys() -> Keys:
    """A fresh index and a fresh key."""
    return with_key(Keys(os.urandom(KEY_BYTES), {}))  # noqa: TID251  secrets need the system's chance


def with_key(keys: Keys) -> Keys:
    """The same with one more key, which only decrypts."""
    return keys._replace(by_id=keys.by_id | {os.urandom(ID_CHARS // 2).hex(): os.urandom(KEY_BYTES)})  # noqa: TID251


def rotated(keys: Keys) -> Keys:
    """The same with the last key in front, so that it encrypts."""
    *others, newest = keys.by_id.items()
    return keys._replace(by_id=dict([newest, *others]))


def without_key(keys: Keys, key_id: str) -> Keys:
    """The same without one that only decrypts.

    Raises:
        InvalidArgument: there is none of this id, or it is the one that encrypts.
    """
    first, *others = keys.by_id
    if key_id == first:
        raise InvalidArgument(
            f"{key_id} encrypts: have another key do so first, by `atf keyfile add` and `atf keyfile rotate`"
        )
    if key_id not in keys.by_id:
        raise InvalidArgument(f"there is no key {key_id[:80]!r}; {', '.join(others) or 'none'} only decrypt")
    return keys._replace(by_id={each: key for each, key in keys.by_id.items() if each != key_id})


def write_keys(path: str, keys: Keys, *, new: bool) -> None:
    """Writes a key file that its owner alone may read, in one step.

    Raises:
        ConfigError: it can't be written; or it is `new`, and there is one.
    """
    lines = [f"index: {_text(keys.hashing)}", *(f"key {key_id}: {_text(key)}" for key_id, key in keys.by_id.items())]
    beside = f"{path}.{os.getpid()}.new"
    try:
        file = os.open(path if new else beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, (_HEAD + "\n".join(lines) + "\n").encode())
            os.fsync(file)
        finally:
            os.close(file)
        if not new:
            Path(beside).replace(path)
    except FileExistsError:
        raise ConfigError(f"{path}: there is such a file. Add a key to it: atf keyfile add {path}") from None
    except OSError as error:
        raise ConfigError(f"{path}: it can't be written: {error.strerror}") from None


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()
