"""Lists the groups of dead letters that failed alike, that of the newest one first, a page at a time.

A group has dead letters in many partitions. Each partition names its newest groups, and then all say what they have of those that make the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from atf.store.servers.sockets import Arg

from .partitions import Partitions
from .values.lists import FailureGroupRecord, FailurePage, ListedTask

_LOOKED_AT: Final = 1_000
"""Groups that one call of a partition looks at, where a lambda is asked for."""

_Part = tuple[int, int, int, str, str]
"""What a partition has of a group: how many, since when, until when, the newest one, where that failed."""


class FailureVerbs(Partitions):
    """The verbs of Store about groups of failures."""

    async def list_failures(
        self, beginning: str, since_us: int, size: int, behind: ListedTask | None = None
    ) -> FailurePage:
        """A page of the groups of failures; it may be shorter than asked for.

        Args:
            beginning: what their names begin with: "", "<namespace>/" or "<lambda>:".
            since_us: only dead letters from this instant on are counted.
            size: groups of a page at most.
            behind: the group with which the page before has ended; None: the first page.
        """
        args: list[Arg] = [beginning, since_us, *((int(behind.at_us), behind.id) if behind else ("", ""))]
        replies = await asyncio.gather(
            *(self._call("list_failures", partition, [*args, size, _LOOKED_AT]) for partition in range(self.partitions))
        )
        looked = [ListedTask(float(at), name.decode()) for at, name, *_ in replies if name]
        horizon = max(looked, default=None)  # whose groups are known as far as here
        newest = dict[str, float]()
        for _, _, *named in replies:
            for at, name in zip(named[::2], named[1::2], strict=True):
                newest[name.decode()] = max(float(at), newest.get(name.decode(), 0))
        found = sorted((ListedTask(at, name) for name, at in newest.items()), reverse=True)
        found = [each for each in found if horizon is None or each >= horizon]
        if len(found) > size:
            found, horizon = found[:size], found[size - 1]
        groups = await self._count_failures([each.id for each in found], since_us)
        # What has newer dead letters elsewhere stood on a page before.
        shown = [each for each in groups if behind is None or (each.last_us, _name_of(each)) < behind]
        return FailurePage(shown, horizon)

    async def _count_failures(self, names: Sequence[str], since_us: int) -> list[FailureGroupRecord]:
        """Groups by name, without those that have no dead letters any more."""
        if not names:
            return []
        replies = await asyncio.gather(
            *(self._call("count_failures", partition, [since_us, *names]) for partition in range(self.partitions))
        )
        found = []
        for name, *parts in zip(names, *replies, strict=True):
            some: list[_Part] = [
                (int(count), int(float(first)), int(float(last)), task.decode(), place.decode())
                for count, first, last, task, place in filter(None, parts)
            ]
            if some:
                found.append(_together(name, some))
        return found


def _together(name: str, parts: Sequence[_Part]) -> FailureGroupRecord:
    lambda_name, group = name.rsplit(":!", 1)
    _, _, last, task_id, place = max(parts, key=lambda part: (part[2], part[3]))
    return FailureGroupRecord(
        id=group,
        lambda_name=lambda_name,
        dead=sum(part[0] for part in parts),
        first_us=min(part[1] for part in parts),
        last_us=last,
        task_id=task_id,
        place=place,
    )


def _name_of(group: FailureGroupRecord) -> str:
    return f"{group.lambda_name}:!{group.id}"
