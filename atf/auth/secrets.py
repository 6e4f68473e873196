"""Makes and reads the secrets that callers show: `atf_<id>_<32 random bytes>`.

The id is no secret: it names the token in lists, logs and the audit. Of the rest the task store keeps the SHA-256 alone, which is enough, since
nobody can guess 32 random bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

HEADER: Final = "authorization"
SCHEME: Final = "Bearer "
"""How a call carries what its caller shows: `authorization: Bearer atf_…`."""
DAPR_HEADER: Final = "dapr-api-token"
"""How Dapr's SDKs carry it: the token alone."""
PREFIX: Final = "atf"
_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32
MAX_CHARS: Final = 4_096
"""Of what a caller shows; more is looked at by nobody."""
_FORM: Final = re.compile(rf"{PREFIX}_([a-z2-7]{{10}})_([A-Za-z0-9_-]{{43}})")


def shown_in(headers: Mapping[str, str]) -> str:
    """What a call shows, by its headers in lower case; empty: nothing."""
    if HEADER in headers or DAPR_HEADER not in headers:
        return headers.get(HEADER, "")
    return f"{SCHEME}{headers[DAPR_HEADER]}"


class ShownToken(NamedTuple):
    """What a caller has shown: the id, and the digest of the whole."""

    id: str
    digest: str


def new_id(random_bytes: Callable[[int], bytes]) -> str:
    """An id for a token."""
    return base64.b32encode(random_bytes(_ID_BYTES)).decode().rstrip("=").lower()


def new_token(token_id: str, random_bytes: Callable[[int], bytes]) -> str:
    """A token of this id. Whoever makes it shows it once and keeps only `digest_of` it."""
    secret = base64.urlsafe_b64encode(random_bytes(_SECRET_BYTES)).decode().rstrip("=")
    return f"{PREFIX}_{token_id}_{secret}"


def digest_of(token: str) -> str:
    """What the store keeps of a token: its SHA-256, in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


def parse(text: str) -> ShownToken | None:
    """What a caller has shown; None: it is no token."""
    found = _FORM.fullmatch(text) if len(text) <= MAX_CHARS else None
    return ShownToken(found[1], digest_of(text)) if found else None
