"""Cancels unfinished tasks that match a filter, a page at a time; who asks goes on with the token, and nothing remembers it meanwhile.

Tasks come in the order of their next instants, soonest first. Most tasks that move on meanwhile get a later one, and lie ahead. But one that
stood behind a cancelled task, in the line of a key, becomes due at once and lies behind. So those that wait are looked through again until
none was left. A page that is asked for again takes what is left of it.

Where a span is asked for and no status, it is one of when tasks were made, as in a list: then they come in that order, which does not change.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.rpc import frontend_pb2 as f
from atf.task import HELD, LIVE, MAX_BATCH

from .audit import check_who
from .filters import next_token
from .listing import ListRpcs
from .matching import MOST_IDS, check_condition, check_dry_run, named_lambda, of_statuses, words_of
from .validate import bad_page_token

_WAITING: Final = LIVE - HELD
_ROUNDS: Final = 4
"""At most: where tasks are made as fast as they are cancelled there would be no last one."""
_TOKEN: Final = re.compile(r"([1-4])/([0-9]{1,12})/(.{0,200})", re.DOTALL)


class _CancelPosition(NamedTuple):
    """How far a cancelling has come."""

    round: int
    cancelled: int  # in this round
    page: str  # of the lists


class CancelMatchingRpc(ListRpcs):
    """The call CancelMatching."""

    async def cancel_matching(self, request: f.CancelMatchingRequest, *, timeout: float = 10) -> f.CancelMatchingReply:
        """Cancels, or only counts, what matches in a page of the unfinished tasks."""
        check_who(request)
        check_dry_run(request, "cancelled")
        check_condition(request.filter)
        at = parse_position(request.page_token)
        may = LIVE if at.round == 1 else _WAITING
        query = await self._query(
            of_statuses(request.filter, may, may, "can be cancelled"), verb=Verb.OPERATE, oldest_first=True
        )
        query = query._replace(by_made=_by_made(request.filter))
        page, of = await self._page(request.filter, query, MAX_BATCH, at.page)
        reply = f.CancelMatchingReply(
            matched=len(page.tasks),
            looked_at=page.looked_at,
            of=of,
            ids=[each.id for each in page.tasks[:MOST_IDS]],
        )
        if page.tasks and not request.dry_run:
            await self._cancel(request, [each.id for each in page.tasks], reply)
        at = at._replace(cancelled=at.cancelled + reply.cancelled)
        if token := next_token(query, page, of):
            reply.next_page_token = f"{at.round}/{at.cancelled}/{token}"
        elif at.page and at.cancelled and at.round < _ROUNDS and _WAITING & set(query.statuses) and not query.by_made:
            reply.next_page_token = f"{at.round + 1}/0/"
        return reply

    async def _cancel(self, request: f.CancelMatchingRequest, ids: list[str], reply: f.CancelMatchingReply) -> None:
        asked = request.filter
        async with self._audit.write(
            "cancel_matching", request, named_lambda(asked), labels=asked.labels, tasks=ids, detail=words_of(asked)
        ) as draft:
            results = await self._store.cancel_tasks(ids, caller().scopes(Verb.OPERATE))
            draft.done_to(
                (task_id, each.lambda_name)
                for task_id, each in zip(ids, results, strict=True)
                if each.cancelled or each.cancel_requested
            )
        reply.cancelled = sum(each.cancelled for each in results)
        reply.requested = sum(each.cancel_requested for each in results)


def _by_made(asked: f.TaskFilter) -> bool:
    """Whether a span is one of when tasks were made: as in a list, where no status is named."""
    return bool(asked.since_at_us or asked.until_at_us) and not asked.statuses


def parse_position(token: str) -> _CancelPosition:
    """Reads how far a cancelling has come.

    Raises:
        InvalidArgument: no page has answered so.
    """
    if not token:
        return _CancelPosition(1, 0, "")
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise bad_page_token(token)
    return _CancelPosition(int(match[1]), int(match[2]), match[3])
