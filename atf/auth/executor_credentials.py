"""Short-lived credentials of executors: what the HSC signs, so that whoever knows the key can check them without asking anybody.

A credential says which token stands behind it, for which executor it is, and until when. Who takes it looks that token up as well: what was
revoked is revoked for its executors, too. It can't claim.

The code of users is given another kind, `of_code`, which its executor makes of its own credential: it schedules and reads as that does, and can neither
ask for work nor renew or end what runs. Nobody gets from it to the executor's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final, NamedTuple

from atf.errors import InvalidArgument

PREFIX: Final = "atfx"
KEY_BYTES: Final = 32
_SIGNATURE_CHARS: Final = 43
_EXECUTOR_ID: Final = "[A-Za-z0-9._-]{1,64}"
_FORM: Final = re.compile(
    rf"{PREFIX}_([a-z2-7]{{10}})_(c?)([0-9]{{1,16}})_({_EXECUTOR_ID})_[A-Za-z0-9_-]{{{_SIGNATURE_CHARS}}}"
)


class Credential(NamedTuple):
    """What a credential says."""

    token_id: str
    expires_us: int
    executor_id: str
    of_code: bool = False
    """Whether the code of users shows it, and not the executor itself."""


def check_executor_id(executor_id: str) -> None:
    """Lets pass for whom there can be a credential.

    Raises:
        InvalidArgument: it is no id.
    """
    if not re.fullmatch(_EXECUTOR_ID, executor_id):
        raise InvalidArgument(f"executor_id {executor_id[:80]!r}: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")


def sign(credential: Credential, key: bytes) -> str:
    """A credential as its holder shows it."""
    text = _signed(f"{PREFIX}_{credential.token_id}_{credential.expires_us}_{credential.executor_id}", key)
    return of_code(text) if credential.of_code else text


def of_code(text: str) -> str:
    """What the code of users shows, by what its executor shows: signed with the signature of that, which can't be told from it."""
    prefix, token_id, said = text.split("_", 2)
    return _signed(f"{prefix}_{token_id}_c{said[: -_SIGNATURE_CHARS - 1]}", text[-_SIGNATURE_CHARS:].encode())


def check(text: str, keys: list[bytes]) -> Credential | None:
    """What a credential says; None: it is none, or was signed with none of the keys."""
    found = _FORM.fullmatch(text) if len(text) <= 256 else None
    if found is None:
        return None
    said = Credential(found[1], int(found[3]), found[4], of_code=bool(found[2]))
    if not any(hmac.compare_digest(sign(said, key), text) for key in keys):
        return None
    return said


def _signed(said: str, key: bytes) -> str:
    digest = hmac.digest(key, said.encode(), hashlib.sha256)
    return f"{said}_{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
