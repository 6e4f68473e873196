"""Finds tasks by a filter, counts them, and cancels or retries all that match, as a part of AsyncClient."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import of_lambda
from atf.sdk.option_names import check_names
from atf.sdk.options import from_us, instant_us, priority_number
from atf.sdk.payload import short
from atf.task import WORDS, Status, statuses_called

from .calls import Calls
from .info import CancelInfo, RedriveInfo, TaskInfo
from .paging import entries, pages
from .whoami import signed

MOST_IDS: Final = 5
MOST_ERRORS: Final = 20

StatusLike = Status | str | Collection[Status | str]
"""States, their names, or a word: waiting, running, failed, dead, done, cancelled."""
Progress = Callable[[int, int], None]
"""Takes how many tasks were looked at, and of how many."""


class TaskConditions(TypedDict, total=False):
    """What else tasks must be that a call is about; all of it must hold."""

    priority: int | str | Collection[int | str]  # high, normal, low or 0 to 9; or any of several
    labels: Mapping[str, str]  # that a task must have
    key: str  # its ordering key or concurrency key
    error_type: str  # of the exception by which its last run failed: "TimeoutError"
    since: datetime  # by what the list is in order of: at this instant or later
    until: datetime  # and before this one
    search: Mapping[str, str]  # arguments that its lambda declares for search, and their values: {"order_id": "7"}
    group: str  # of failures that are alike, as `failures` has its id


class MatchingCalls:
    """The calls of AsyncClient about all tasks that match a filter."""

    _calls: Calls

    async def list(
        self,
        lambda_name: str = "",
        status: StatusLike | None = None,
        *,
        limit: int = 100,
        oldest_first: bool = False,
        **conditions: Unpack[TaskConditions],
    ) -> builtins.list[TaskInfo]:
        """Tasks that match, newest first: by when they were made; with a status by when they ended, or by their next instant.

        Args:
            lambda_name: "namespace/name"; "photos/*": those of a namespace; empty: all.
            status: any of these; None: all.
            limit: how many at most.
            oldest_first: the other way round.
            **conditions: what else they must be: of one `priority` or any of several; with all of some `labels`; of an ordering or
                concurrency `key`; failed last by an exception of an `error_type`; in a span by `since` and `until`, instants with a time
                zone, by what the list is in order of; given the values of `search`, for arguments that their lambda declares; in a
                `group` of failures.

        Raises:
            InvalidArgument, UnknownLambda: there can be no such task.
        """
        request = f.ListTasksRequest(filter=filter_of(lambda_name, status, conditions), oldest_first=oldest_first)
        found = await entries(self._calls.list_tasks, request, lambda page: page.tasks, limit)
        return [TaskInfo.from_proto(each) for each in found]

    async def iterate(
        self,
        lambda_name: str = "",
        status: StatusLike | None = None,
        *,
        oldest_first: bool = False,
        **conditions: Unpack[TaskConditions],
    ) -> AsyncGenerator[TaskInfo, None]:
        """All tasks that match, as `list` has them, one by one; memory holds a page of them."""
        request = f.ListTasksRequest(filter=filter_of(lambda_name, status, conditions), oldest_first=oldest_first)
        async for page in pages(self._calls.list_tasks, request):
            for each in page.tasks:
                yield TaskInfo.from_proto(each)

    async def count(self, lambda_name: str = "") -> dict[str, Mapping[Status, int]]:
        """How many tasks are in each status, by lambda. Exact; a second old at most.

        Args:
            lambda_name: "namespace/name"; "photos/*": those of a namespace; empty: all.

        Raises:
            UnknownLambda: no such lambda is registered.
        """
        reply = await self._calls.count_tasks(f.CountTasksRequest(**of_lambda(lambda_name)))
        return {
            getattr(each, "lambda"): {status: each.counts.get(status.name, 0) for status in Status}
            for each in reply.lambdas
        }

    async def cancel_matching(
        self,
        lambda_name: str = "",
        status: StatusLike | None = None,
        *,
        dry_run: bool,
        why: str = "",
        who: str = "",
        **conditions: Unpack[TaskConditions],
    ) -> CancelInfo:
        """Cancels unfinished tasks that match. What has not started never will; what runs is asked to stop.

        Args:
            lambda_name: as for `list`.
            status: only these; None: all that have not finished.
            dry_run: only count them.
            why, who: for the audit log.
            **conditions: as for `list`.

        Raises:
            InvalidArgument: there is no condition at all; or as for `list`.
        """
        request = f.CancelMatchingRequest(
            filter=filter_of(lambda_name, status, conditions), dry_run=dry_run, **signed(who, why)
        )
        return await cancel_all(request, self._calls.cancel_matching)

    async def redrive(
        self,
        lambda_name: str = "",
        status: StatusLike | None = None,
        *,
        dry_run: bool,
        error: str = "",
        newer_version: bool = False,
        rate: float = 0,
        why: str = "",
        who: str = "",
        **conditions: Unpack[TaskConditions],
    ) -> RedriveInfo:
        """Starts dead letters or cancelled tasks that match afresh.

        Args:
            lambda_name: as for `list`.
            status: "dead", "cancelled" or both; None: dead letters.
            dry_run: only say what would be started.
            error: that its error must contain.
            newer_version: only where the lambda's version is newer now than when the task failed.
            rate: tasks a second that become due; 0: all at once.
            why, who: for the audit log.
            **conditions: as for `list`.

        Raises:
            InvalidArgument: there is no condition at all; or as for `list`. Nothing was started.
        """
        request = f.RedriveRequest(
            filter=filter_of(lambda_name, status, conditions),
            error=error,
            newer_version=newer_version,
            rate=rate,
            dry_run=dry_run,
            **signed(who, why),
        )
        return await redrive_all(request, self._calls.redrive)


def filter_of(lambda_name: str, status: StatusLike | None, conditions: TaskConditions) -> f.TaskFilter:
    """The filter that some arguments mean.

    Raises:
        InvalidArgument: a value can be no task's.
        TypeError: there is no such condition.
    """
    check_names("a filter of tasks", conditions, TaskConditions.__annotations__)
    since, until = conditions.get("since"), conditions.get("until")
    return f.TaskFilter(
        statuses=[each.name for each in _statuses(status)],
        priorities=[priority_number(each) for each in _several(conditions.get("priority"))],
        labels=conditions.get("labels"),
        key=conditions.get("key", ""),
        error_type=conditions.get("error_type", ""),
        since_at_us=0 if since is None else bound_us(since, "since"),
        until_at_us=0 if until is None else bound_us(until, "until"),
        search=conditions.get("search"),
        failure_group=conditions.get("group", ""),
        **of_lambda(lambda_name),
    )


def _several(given: Any) -> Collection[Any]:
    if given is None:
        return ()
    return [given] if isinstance(given, int | str) else given


def _statuses(given: StatusLike | None) -> builtins.list[Status]:
    found: builtins.list[Status] = []
    for each in _several(given):
        if not isinstance(each, Status | str):
            raise InvalidArgument(f"status {short(each)}: use {', '.join(WORDS)}, or an atf.Status")
        found += [each] if isinstance(each, Status) else statuses_called(each)
    return found


async def cancel_all(
    request: f.CancelMatchingRequest,
    call: Callable[[f.CancelMatchingRequest], Awaitable[f.CancelMatchingReply]],
    progress: Progress | None = None,
) -> CancelInfo:
    """All pages of a cancelling."""
    matched = cancelled = requested = looked_at = 0
    ids: builtins.list[str] = []
    while True:
        reply = await call(request)
        matched, looked_at = matched + reply.matched, looked_at + reply.looked_at
        cancelled, requested = cancelled + reply.cancelled, requested + reply.requested
        ids += reply.ids[: MOST_IDS - len(ids)]
        if progress is not None:
            progress(looked_at, max(looked_at, reply.of))
        request.page_token = reply.next_page_token
        if not request.page_token:
            return CancelInfo(matched, cancelled, requested, looked_at, tuple(ids))


async def redrive_all(
    request: f.RedriveRequest,
    call: Callable[[f.RedriveRequest], Awaitable[f.RedriveReply]],
    progress: Progress | None = None,
) -> RedriveInfo:
    """All pages of a redrive."""
    matched = redriven = looked_at = last_due_us = 0
    errors: Counter[str] = Counter()
    ids: builtins.list[str] = []
    while True:
        reply = await call(request)
        matched, redriven, looked_at = matched + reply.matched, redriven + reply.redriven, looked_at + reply.looked_at
        last_due_us = max(last_due_us, reply.last_due_at_us)
        errors.update(dict(sorted(reply.errors.items())))  # a map of protobuf has another order in each process
        ids += reply.ids[: MOST_IDS - len(ids)]
        if progress is not None:
            progress(looked_at, reply.of)
        request.page_token = reply.next_page_token
        if not request.page_token:
            return RedriveInfo(
                matched, redriven, looked_at, dict(errors.most_common(MOST_ERRORS)), tuple(ids), from_us(last_due_us)
            )


def bound_us(at: datetime, option: str) -> int:
    """An instant that bounds a span; 0 would be none."""
    return max(1, instant_us(at, option))
