"""Answers ListFailures: which dead letters failed alike, how many, since when, and an example of each group."""

from __future__ import annotations

import re
from typing import Final

from atf.auth.caller import Caller, caller, permit
from atf.auth.grants import Verb
from atf.rpc import frontend_pb2 as f
from atf.sdk.failure import failure_of
from atf.sdk.messages import of_lambda
from atf.sdk.sealed import words
from atf.store.values.lists import FailureGroupRecord, FailurePage, ListedTask, TaskQuery
from atf.store.values.tasks import TaskRecord

from .filters import task_query
from .page_tokens import opened, sealed
from .parts import FrontendParts
from .validate import bad_page_token, lambda_of, page_size

_MESSAGE_CHARS: Final = 500
_LOOKS: Final = 10
"""Pages of the store that one call looks through for groups that its caller may see."""
_TOKEN: Final = re.compile(r"([0-9]{1,16})/([A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,200}:![0-9a-f]{12})")
"""Instant and name of the group behind which the page begins."""


class FailureRpc(FrontendParts):
    """The call ListFailures."""

    async def list_failures(self, request: f.ListFailuresRequest, *, timeout: float = 10) -> f.ListFailuresReply:
        """A page of the groups of dead letters."""
        query = task_query(f.TaskFilter(since_at_us=request.since_at_us, **of_lambda(lambda_of(request))))
        size, behind = page_size(request.page_size), parse_token(opened("list_failures", request.page_token))
        if query.lambda_name:
            permit(Verb.READ, query.lambda_name)
            await self._lambdas.known(query.lambda_name)
        page = await self._permitted_failures(query, size, behind)
        newest = await self._store.get_tasks([each.task_id for each in page.groups])
        shown = [None if each is None else self._redaction.record(each) for each in newest]
        return f.ListFailuresReply(
            groups=[_group(group, task) for group, task in zip(page.groups, shown, strict=True)],
            next_page_token=sealed("list_failures", f"{page.next.at_us:.0f}/{page.next.id}" if page.next else ""),
        )

    async def _permitted_failures(self, query: TaskQuery, size: int, behind: ListedTask | None) -> FailurePage:
        """A page of the groups that the caller may see; of few among very many it is short."""
        who, found = caller(), list[FailureGroupRecord]()
        for _ in range(_LOOKS):
            page = await self._store.list_failures(_beginning(query, who), query.since_us, size - len(found), behind)
            found += [each for each in page.groups if who.may(Verb.READ, each.lambda_name)]
            behind = page.next
            if behind is None or len(found) >= size or who.is_unbounded(Verb.READ):
                break
        return FailurePage(found, behind)


def _beginning(query: TaskQuery, who: Caller) -> str:
    """What the names of the groups begin with that are asked for: also where the caller may see those of one namespace alone."""
    if query.lambda_name:
        return f"{query.lambda_name}:"
    scopes = who.scopes(Verb.READ)
    if query.namespace or len(scopes) != 1:
        return query.namespace
    return scopes[0] if scopes[0].endswith("/") else f"{scopes[0]}:"


def _group(group: FailureGroupRecord, newest: TaskRecord | None) -> f.FailureGroup:
    failed = failure_of(words(newest.error) if newest else "")
    return f.FailureGroup(
        **{"lambda": group.lambda_name},
        id=group.id,
        error_type=failed.type,
        place=group.place,
        message=failed.message[:_MESSAGE_CHARS],
        count=group.dead,
        first_at_us=group.first_us,
        last_at_us=group.last_us,
        task_id=group.task_id,
        withheld=newest is not None and newest.withheld,
    )


def parse_token(token: str) -> ListedTask | None:
    """The group behind which a page begins; None for the first page.

    Raises:
        InvalidArgument: no page has answered so.
    """
    if not token:
        return None
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise bad_page_token(token)
    return ListedTask(float(match[1]), match[2])
