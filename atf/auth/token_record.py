"""A token as the task store keeps it: what it may do, until when, and the SHA-256 of what its holder shows."""

from __future__ import annotations

import hmac
from typing import Final

import msgspec

from .grants import ALL, TokenGrant, scopes_of, verbs_of
from .secrets import ShownToken

MAX_NOTE: Final = 200
MAX_SUBJECT: Final = 500
"""Characters."""


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token, or a certificate's subject, which has no secret.

    Attributes:
        id: names it.
        verbs, scopes, pools: what it may do; see TokenGrant.
        digest: SHA-256 of what its holder shows, in hexadecimal; empty: it is known by `subject` alone.
        before: the same of what was shown before the last rotation, which is valid until `before_until_us`.
        subject: the name in a client's certificate; empty: it is known by its secret.
        expires_us: when it ends by itself; 0: never.
        revoked_us: when it was revoked; 0: it is not.
        created_us, by, note: for people.
        seal: what only frontends know, by which they seal what its holder is to bring back (frontend/page_tokens.py).
    """

    id: str
    verbs: tuple[str, ...]
    scopes: tuple[str, ...]
    pools: tuple[str, ...] = (ALL,)
    digest: str = ""
    before: str = ""
    before_until_us: int = 0
    subject: str = ""
    expires_us: int = 0
    revoked_us: int = 0
    created_us: int = 0
    by: str = ""
    note: str = ""
    seal: str = ""

    def __repr__(self) -> str:
        return f"TokenRecord({self.id})"  # not what its holder shows, nor its seal

    @property
    def name(self) -> str:
        """How the audit calls its holder."""
        return f"token {self.id}" + (f" ({self.note})" if self.note else "")

    @property
    def grant(self) -> TokenGrant:
        """What it may do."""
        return TokenGrant(verbs_of(self.verbs), scopes_of(self.scopes), frozenset(self.pools))

    def same_as(self, other: TokenRecord) -> bool:
        """Whether both were asked for by the same request; its repeat comes later."""
        return (
            msgspec.structs.replace(
                other, created_us=self.created_us, expires_us=self.expires_us, by=self.by, seal=self.seal
            )
            == self
        )

    def is_shown(self, shown: ShownToken, now_us: int) -> bool:
        """Whether what was shown is its secret."""
        if hmac.compare_digest(self.digest, shown.digest):
            return True
        return now_us < self.before_until_us and hmac.compare_digest(self.before, shown.digest)

    def ended(self, now_us: int) -> str:
        """Why it is not valid any more; empty: it is."""
        if self.revoked_us:
            return "was revoked"
        return "has expired" if 0 < self.expires_us <= now_us else ""
