"""Lists tasks over all lambdas and partitions, newest first or oldest first, a page at a time.

Each partition merges its own lists and answers with one page; the pages are merged here. A page goes on behind an instant and an id, so nothing
is kept between pages. A task that moves meanwhile may be missed, or seen twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from atf.store.servers.sockets import Arg

from .partitions import Partitions
from .values.lists import ListedTask, TaskPage, TaskQuery

MOST_LOOKED_AT: Final = 2_000
"""Tasks that one page looks at, in all partitions together, where a filter is about what only their records say."""
LOOKED_AT_IN_A_CALL: Final = 512
"""Of these, in one call of a partition: a few milliseconds of the store, which does nothing else meanwhile."""
_MORE_THAN_ITS_SHARE: Final = 16
"""Tasks that a partition is asked for beyond twice its share of a page: mostly one round of calls is enough."""
_LEAST: Final = 8
"""Tasks that each partition looks at, of however many."""


class ListVerbs(Partitions):
    """The verbs of Store that list tasks."""

    async def list_tasks(
        self, query: TaskQuery, size: int, behind: ListedTask | None = None, *, count: bool = False
    ) -> TaskPage:
        """A page of the tasks that match: in one call of each partition, or a few where they lie in few.

        Args:
            query: which tasks.
            size: tasks of a page at most.
            behind: where the page before has ended; None: the first page.
            count: whether to say among how many.
        """
        found: list[ListedTask] = []
        looked_at, of = 0, -1
        while True:
            want = min(size - len(found), 2 * size // self.partitions + _MORE_THAN_ITS_SHARE)
            share = max((MOST_LOOKED_AT - looked_at) // self.partitions, _LEAST)
            budget = min(share, LOOKED_AT_IN_A_CALL) if query.reads_records else want
            args = _arguments(query, behind, want, budget, count and of < 0)
            replies = [
                _Reply(each)
                for each in await asyncio.gather(
                    *(self._call("list_tasks", partition, args) for partition in range(self.partitions))
                )
            ]
            if of < 0:
                of = sum(each.of for each in replies) if count else -1
            looked_at += sum(each.looked_at for each in replies)
            behind = _first([each.last for each in replies if each.last], query)
            found += _ordered(
                [task for each in replies for task in each.tasks if behind is None or not _after(task, behind, query)],
                query,
            )
            if len(found) > size:
                found, behind = found[:size], found[size - 1]
            looked = looked_at if query.reads_records else len(found)
            if behind is None or len(found) == size or looked >= MOST_LOOKED_AT:
                return TaskPage(found, looked, of, behind)


class _Reply:
    """What a partition answers.

    Attributes:
        last: the task that it looked at last, where it has more.
    """

    def __init__(self, reply: Sequence[Any]) -> None:
        self.of, self.looked_at, score, last, *found = reply
        self.last = ListedTask(float(score), last.decode()) if last else None
        self.tasks = [
            ListedTask(float(at), task_id.decode()) for task_id, at in zip(found[::2], found[1::2], strict=True)
        ]


def _ordered(tasks: list[ListedTask], query: TaskQuery) -> list[ListedTask]:
    return sorted(tasks, reverse=not query.oldest_first)


def _first(tasks: list[ListedTask], query: TaskQuery) -> ListedTask | None:
    return _ordered(tasks, query)[0] if tasks else None


def _after(task: ListedTask, other: ListedTask, query: TaskQuery) -> bool:
    return task > other if query.oldest_first else task < other


def _arguments(query: TaskQuery, behind: ListedTask | None, want: int, budget: int, count: bool) -> list[Arg]:
    args: list[Arg] = ["oldest" if query.oldest_first else "newest"]
    args += (score_text(behind.at_us), behind.id) if behind else ("", "")
    args += (want, budget, int(count))
    more = {
        "lambda": query.lambda_name,
        "namespace": query.namespace,
        "lambdas": " ".join(query.lambdas),
        "scopes": " ".join(query.scopes),
        "statuses": " ".join(each.name for each in query.statuses),
        "made": "1" if query.by_made else "",
        "priorities": "".join(map(str, query.priorities)),
        "since": str(query.since_us or ""),
        "until": str(query.until_us or ""),
        "entries": " ".join(query.entries),
        "labels": query.labels,
        "key": query.key,
        "error": query.error_type,
    }
    for name, value in more.items():
        if value:
            args += (name, value)
    return args


def score_text(at_us: float) -> str:
    """An instant as the store compares it."""
    return "inf" if at_us == float("inf") else str(int(at_us))
