"""Answers ListAudit: who did what to which tasks, when and why."""

from __future__ import annotations

from typing import Final

from atf.auth.caller import Caller, caller, permit
from atf.auth.grants import Verb
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.work_items import ITEM_MARK
from atf.store.values.audit import AuditEntry
from atf.task import MAX_BATCH
from atf.times import instant

from .audit import MAX_WHO_CHARS, batch_detail
from .parts import FrontendParts
from .validate import check_stored_id, checked_lambda, lambda_of, page_size, shown

MAX_LOOKED_AT: Final = 2_000
"""Entries that one call looks at."""
MAX_WHAT_CHARS: Final = 64
SHOWN_TASKS: Final = 20
"""Ids of an entry that are told of, so that a page of long entries stays small."""


class AuditRpc(FrontendParts):
    """The call ListAudit."""

    async def list_audit(self, request: f.ListAuditRequest, *, timeout: float = 10) -> f.ListAuditReply:
        """A page of the audit log, newest first: the entries that match, among some thousands."""
        size = page_size(request.page_size)
        _check(request)
        if lambda_of(request):
            permit(Verb.READ, lambda_of(request))
        if request.task_id:
            check_stored_id(request.task_id, self._store.partitions)
        reply = f.ListAuditReply()
        reply.before = await self._fill(reply, request, size)
        if not reply.entries and not reply.before and lambda_of(request):
            await self._lambdas.known(lambda_of(request))  # only now: of one that was deleted there may be entries
        return reply

    async def _fill(self, reply: f.ListAuditReply, request: f.ListAuditRequest, size: int) -> int:
        """Adds the entries that match. Returns the number before which the next page begins; 0: that was all."""
        before, looked_at, who = request.before, 0, caller()
        filters = _filters(request) or not who.is_unbounded(Verb.READ)
        while looked_at < MAX_LOOKED_AT:
            wanted = min(MAX_BATCH if filters else size, MAX_LOOKED_AT - looked_at)
            entries = await self._store.list_audit(before or None, wanted)
            for entry in entries:
                if entry.at_us < request.since_at_us:
                    return 0
                before = entry.number
                looked_at += 1
                if not _is_shown(entry, who):
                    continue
                reply.looked_at += 1
                if _matches(entry, request):
                    reply.entries.append(_entry(entry, request.task_id))
                if len(reply.entries) == size:
                    return before
            if len(entries) < wanted:
                return 0
        return before


def _check(request: f.ListAuditRequest) -> None:
    if request.before < 0:
        raise InvalidArgument(f"before {request.before}: give the `before` of the page before, or 0")
    if lambda_of(request):
        checked_lambda(request)
    if len(request.who) > MAX_WHO_CHARS:
        raise InvalidArgument(f"who: {len(request.who)} characters, at most {MAX_WHO_CHARS}")
    if len(request.what) > MAX_WHAT_CHARS:
        raise InvalidArgument(f"what {shown(request.what)!r}: no call has so long a name; such as cancel_tasks")
    since, until = request.since_at_us, request.until_at_us
    if since < 0 or until < 0 or (until and until <= since):
        raise InvalidArgument(
            f"since {instant(since)} until {instant(until)}: give first the earlier instant, then the later one"
        )


def _filters(request: f.ListAuditRequest) -> bool:
    return bool(lambda_of(request) or request.who or request.what or request.task_id or request.until_at_us)


def _matches(entry: AuditEntry, request: f.ListAuditRequest) -> bool:
    return (
        (not request.until_at_us or entry.at_us < request.until_at_us)
        and request.who in {"", entry.who}
        and request.what in {"", entry.what}
        and (not request.task_id or request.task_id in entry.tasks or _is_of_batch(request.task_id, entry))
        and (not lambda_of(request) or lambda_of(request) in entry.lambda_name.split(", "))
    )


def _is_shown(entry: AuditEntry, who: Caller) -> bool:
    """Whether the caller may see all that was changed. What concerns no lambda, or more than are named, is for those who may see everything."""
    if who.is_unbounded(Verb.READ):
        return True
    names = entry.lambda_name.split(", ")
    return all(who.may(Verb.READ, each) for each in names)


def _is_of_batch(task_id: str, entry: AuditEntry) -> bool:
    """Whether what was done was done to the batch of which a task is an item."""
    batch_id, mark, _ = task_id.partition("-")[2].partition(ITEM_MARK)
    return bool(mark) and entry.detail == batch_detail(batch_id)


def _entry(entry: AuditEntry, asked: str) -> f.AuditEntry:
    tasks = list(entry.tasks[:SHOWN_TASKS])
    if asked in entry.tasks and asked not in tasks:
        tasks = [asked, *tasks[:-1]]
    return f.AuditEntry(
        **{"lambda": entry.lambda_name},
        number=entry.number,
        at_us=entry.at_us,
        what=entry.what,
        labels=entry.labels,
        who=entry.who,
        why=entry.why,
        detail=entry.detail,
        tasks=tasks,
        task_count=entry.task_count,
        outcome=entry.outcome,
    )
