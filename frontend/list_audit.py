"""Answers ListAudit: who did what to lambdas, and why."""

from __future__ import annotations

from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.store.values.lambdas import AuditEntry

from .parts import FrontendParts
from .validate import lambda_of, page_size

MAX_WHO_CHARS: Final = 100
MAX_WHY_CHARS: Final = 500
_PAGES_LOOKED_THROUGH: Final = 8
"""Of the audit log, for the entries of one lambda; then a page may be empty."""


class AuditRpc(FrontendParts):
    """The call ListAudit."""

    async def list_audit(self, request: f.ListAuditRequest, *, timeout: float = 10) -> f.ListAuditReply:
        """A page of the audit log, newest first."""
        if request.before < 0:
            raise InvalidArgument(f"before {request.before}: give the `before` of the page before, or 0")
        name, size = lambda_of(request), page_size(request.page_size)
        if name:
            await self._lambdas.known(name)
        before: int | None = request.before or None
        reply = f.ListAuditReply()
        for _ in range(_PAGES_LOOKED_THROUGH):
            entries = await self._store.list_audit(before, size)
            before = entries[-1].number if len(entries) == size else None
            reply.entries.extend(_entry(each) for each in entries if name in {"", each.lambda_name})
            if before is None or len(reply.entries) >= size:
                break
        reply.before = before or 0
        return reply


def check_who(who: str, why: str) -> None:
    """Who does something to a lambda, and why; both stand in the audit log."""
    if not who.strip():
        raise InvalidArgument("who: say who asks for this; it stands in the audit log")
    if len(who) > MAX_WHO_CHARS:
        raise InvalidArgument(f"who: {len(who)} characters, at most {MAX_WHO_CHARS}")
    if len(why) > MAX_WHY_CHARS:
        raise InvalidArgument(f"why: {len(why)} characters, at most {MAX_WHY_CHARS}")


def _entry(entry: AuditEntry) -> f.AuditEntry:
    return f.AuditEntry(
        **{"lambda": entry.lambda_name},
        number=entry.number,
        at_us=entry.at_us,
        what=entry.what,
        labels=entry.labels,
        who=entry.who,
        why=entry.why,
        detail=entry.detail,
    )
