"""Which tasks a list is asked for, and what a page of it holds."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from atf.task import Status


class TaskQuery(NamedTuple):
    """A filter of tasks; everything in it has been checked. Empty fields ask for nothing."""

    lambda_name: str = ""
    namespace: str = ""  # with its slash; without a lambda
    statuses: Sequence[Status] = ()
    priorities: Sequence[int] = ()
    labels: str = ""  # see keys.labels
    key: str = ""  # ordering or concurrency key, as keys.stored_key has it
    error_type: str = ""
    since_us: int = 0
    until_us: int = 0
    entries: Sequence[str] = ()  # of the opt-in index, see keys.entry
    lambdas: Sequence[str] = ()  # that declare these entries, where neither a lambda nor a namespace is named
    scopes: Sequence[
        str
    ] = ()  # namespaces, with their slashes, and lambdas, of which alone anything is listed; empty: of all
    oldest_first: bool = False
    by_made: bool = False  # in the order in which they were made, though statuses are asked for

    @property
    def reads_records(self) -> bool:
        """Whether there is more to ask than which lists a task stands in."""
        by_queue = bool(self.statuses) and not self.by_made and not any(each.finished for each in self.statuses)
        more = (
            self.labels,
            self.key,
            self.error_type,
            (self.entries or self.by_made) and self.statuses,
            self.entries[1:],
        )
        return any(more) or (bool(self.priorities) and not by_queue)

    @property
    def digest(self) -> str:
        """What tells a page token of this query from those of others."""
        return f"{zlib.crc32(json.dumps(self._replace(lambdas=())).encode()):08x}"


class ListedTask(NamedTuple):
    """A task in a list, with what it is ordered by: when it was made, where no status is asked for; else when it ended or its next instant."""

    at_us: float  # infinite where it waits for something else than time
    id: str


class TaskPage(NamedTuple):
    """A page of a list."""

    tasks: list[ListedTask]
    looked_at: int  # tasks that were, for this page
    of: int  # as many match all but what is read of their records, from the first page to the last; -1: that was not counted
    next: ListedTask | None  # the page after it goes on behind this; None: that was all


class FailureGroupRecord(NamedTuple):
    """Dead letters that failed alike."""

    id: str
    lambda_name: str
    dead: int
    first_us: int
    last_us: int
    task_id: str  # of the newest
    place: str  # where that failed, "file:function" of the user's own code; empty: nothing was raised there


class FailurePage(NamedTuple):
    """A page of groups, that of the newest dead letter first."""

    groups: list[FailureGroupRecord]
    next: ListedTask | None  # the page after it goes on behind this group, by its name; None: that was all
