"""Keeps popped ids that nobody has taken: of calls that went away, and beyond the size of an answer.

The next call takes them first. They are never the only copy: an id that is forgotten here is pushed again by the store
consumer once its enqueue_timeout is over. To be quicker than that, what nobody takes for KEEP_S is handed back.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from .demand import Popped, Serves, lambda_of

KEEP_S: Final = 1.0
"""Seconds an id waits for a call; far below half of any sensible enqueue_timeout, at which it must be gone from here."""


class _BufferedId(NamedTuple):
    task_id: str
    queue: str
    since: float


class Buffer:
    """The ids, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[_BufferedId] = deque()

    def put(self, found: Popped, now: float) -> None:
        """Keeps ids for the next call that can run them."""
        self._entries.extend(_BufferedId(task_id, queue, now) for queue, ids in found for task_id in ids)

    def count(self, serves: Serves) -> int:
        """How many of the ids a call for this may be given."""
        return sum(lambda_of(each.queue) in serves.lambdas for each in self._entries)

    def take(self, serves: Serves, room: int) -> list[tuple[str, list[str]]]:
        """Removes up to `room` of them, most urgent queues first."""
        fitting = [each for each in self._entries if lambda_of(each.queue) in serves.lambdas]
        fitting = sorted(fitting, key=lambda each: each.queue[-1])[:room]
        if not fitting:
            return []
        taken = {each.task_id for each in fitting}
        self._entries = deque(each for each in self._entries if each.task_id not in taken)
        return [(each.queue, [each.task_id]) for each in fitting]

    def stale(self, now: float) -> list[str]:
        """Removes the ids that nobody has taken in time."""
        ids = []
        while self._entries and self._entries[0].since + KEEP_S <= now:
            ids.append(self._entries.popleft().task_id)
        return ids

    def stale_at(self) -> float | None:
        """The instant at which the oldest id is stale."""
        return self._entries[0].since + KEEP_S if self._entries else None

    def drain(self) -> list[str]:
        """Removes everything."""
        ids = [each.task_id for each in self._entries]
        self._entries.clear()
        return ids
