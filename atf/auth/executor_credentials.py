"""Short-lived credentials of executors: what the HSC signs, so that whoever knows the key can check them without asking anybody.

A credential says which token stands behind it, for which executor it is, and until when. Who takes it looks that token up as well: what was
revoked is revoked for its executors, too. It can't claim, so that user code, which runs in the executor, can end nothing but what runs beside it.
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
_EXECUTOR_ID: Final = "[A-Za-z0-9._-]{1,64}"
_FORM: Final = re.compile(rf"{PREFIX}_([a-z2-7]{{10}})_([0-9]{{1,16}})_({_EXECUTOR_ID})_([A-Za-z0-9_-]{{43}})")


class Credential(NamedTuple):
    """What a credential says."""

    token_id: str
    expires_us: int
    executor_id: str


def check_executor_id(executor_id: str) -> None:
    """Lets pass for whom there can be a credential.

    Raises:
        InvalidArgument: it is no id.
    """
    if not re.fullmatch(_EXECUTOR_ID, executor_id):
        raise InvalidArgument(f"executor_id {executor_id[:80]!r}: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")


def sign(credential: Credential, key: bytes) -> str:
    """A credential as its holder shows it."""
    said = f"{PREFIX}_{credential.token_id}_{credential.expires_us}_{credential.executor_id}"
    return f"{said}_{_signature(said, key)}"


def check(text: str, keys: list[bytes]) -> Credential | None:
    """What a credential says; None: it is none, or was signed with none of the keys."""
    found = _FORM.fullmatch(text) if len(text) <= 256 else None
    if found is None:
        return None
    said = text[: -len(found[4]) - 1]
    if not any(hmac.compare_digest(_signature(said, key), found[4]) for key in keys):
        return None
    return Credential(found[1], int(found[2]), found[3])


def _signature(said: str, key: bytes) -> str:
    return base64.urlsafe_b64encode(hmac.digest(key, said.encode(), hashlib.sha256)).decode().rstrip("=")
