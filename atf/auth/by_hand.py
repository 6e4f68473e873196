"""Proves to a controller that an executor which was started by hand knows its token, without the token: who holds the port may not be the controller.

The proof is for one executor and its time, by the wall clock of the host that both are on. Whoever sees it can do nothing with it but enter as that executor, and not for long.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from atf.task import US

PREFIX: Final = "atfh"
VALID_US: Final = 60 * US


def proof(token: str, executor_id: str, now_us: int) -> str:
    """What such an executor shows to Enter."""
    said = f"{PREFIX}_{now_us}"
    digest = hmac.digest(token.encode(), f"{said}_{executor_id}".encode(), hashlib.sha256)
    return f"{said}_{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def is_proof(text: str, token: str, executor_id: str, now_us: int) -> bool:
    """Whether an executor has shown that it knows the token, just now."""
    _, _, made = text.partition("_")
    made = made.partition("_")[0]
    if not (made.isascii() and made.isdecimal() and len(made) <= 16) or abs(now_us - int(made)) > VALID_US:
        return False
    return hmac.compare_digest(text.encode(), proof(token, executor_id, int(made)).encode())
