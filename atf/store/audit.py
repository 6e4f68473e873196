"""Keeps the newest entries of the audit log: who did what to which tasks, when and why. The roles' logs have all of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from atf.errors import ResourceExhausted
from atf.store.servers.sockets import Arg

from .partitions import REGISTRY_PARTITION, Partitions
from .values.audit import AuditEntry


class AuditVerbs(Partitions):
    """The verbs of Store about the audit log."""

    async def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Adds to the audit log. In a full store they take the places of the oldest ones."""
        args: list[Arg] = [msgspec.json.encode(each) for each in entries]
        try:
            await self._call("add_audit", REGISTRY_PARTITION, args)
        except ResourceExhausted:
            await self._call("replace_audit", REGISTRY_PARTITION, args)

    async def list_audit(self, before: int | None, most: int) -> list[AuditEntry]:
        """Entries of the audit log, newest first: those before the one of this number, or the newest."""
        reply = await self._call("list_audit", REGISTRY_PARTITION, ["" if before is None else before, most])
        return [_audit_entry(each) for each in reply]


def _audit_entry(raw: bytes) -> AuditEntry:
    head, _, said = raw.partition(b"\n")
    number, at_us = map(int, head.split())
    return msgspec.structs.replace(msgspec.json.decode(said, type=AuditEntry), number=number, at_us=at_us)
