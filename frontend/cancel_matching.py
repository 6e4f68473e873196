"""Cancels unfinished tasks that match a filter, a page at a time; who asks goes on with the token, and nothing remembers it meanwhile.

Tasks come in the order of their next instants, soonest first, and a task that moves on gets a later one: it lies ahead, so none is passed
over. A page that is asked for again takes what is left of it.
"""

from __future__ import annotations

from atf.rpc import frontend_pb2 as f
from atf.task import LIVE, MAX_BATCH

from .audit import check_who
from .filters import next_token, parse_token
from .listing import ListRpcs
from .matching import MOST_IDS, check_condition, check_dry_run, named_lambda, of_statuses, words_of


class CancelMatchingRpc(ListRpcs):
    """The call CancelMatching."""

    async def cancel_matching(self, request: f.CancelMatchingRequest, *, timeout: float = 10) -> f.CancelMatchingReply:
        """Cancels, or only counts, what matches in a page of the unfinished tasks."""
        check_who(request)
        check_dry_run(request, "cancelled")
        check_condition(request.filter)
        asked = of_statuses(request.filter, LIVE, LIVE, "can be cancelled")
        query = await self._query(asked, oldest_first=True)
        behind, of = parse_token(request.page_token, query)
        page = await self._store.list_tasks(query, MAX_BATCH, behind, count=of < 0)
        of = page.of if of < 0 else of
        reply = f.CancelMatchingReply(
            matched=len(page.tasks),
            looked_at=page.looked_at,
            of=of,
            ids=[each.id for each in page.tasks[:MOST_IDS]],
            next_page_token=next_token(query, page, of),
        )
        if page.tasks and not request.dry_run:
            await self._cancel(request, [each.id for each in page.tasks], reply)
        return reply

    async def _cancel(self, request: f.CancelMatchingRequest, ids: list[str], reply: f.CancelMatchingReply) -> None:
        asked = request.filter
        async with self._audit.write(
            "cancel_matching", request, named_lambda(asked), labels=asked.labels, tasks=ids, detail=words_of(asked)
        ) as draft:
            results = await self._store.cancel_tasks(ids)
            draft.done_to(
                (task_id, each.lambda_name)
                for task_id, each in zip(ids, results, strict=True)
                if each.cancelled or each.cancel_requested
            )
        reply.cancelled = sum(each.cancelled for each in results)
        reply.requested = sum(each.cancel_requested for each in results)
