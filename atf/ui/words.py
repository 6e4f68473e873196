"""The words of these pages: what a status is called, and which one takes of the colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from atf.rpc import batch_pb2 as b
from atf.task import WORDS, Status


class StatusWord(NamedTuple):
    """How a status is shown."""

    word: str
    more: str
    """What tells it from others of the same word; empty: nothing needs to."""
    tone: str
    """Names the colour: wait, run, warn, bad, good, off."""


STATUSES: Final[dict[Status, StatusWord]] = {
    Status.NEW: StatusWord("waiting", "", "wait"),
    Status.ENQUEUED: StatusWord("waiting", "queued", "wait"),
    Status.CLAIMED: StatusWord("running", "claimed", "run"),
    Status.PROCESSING: StatusWord("running", "", "run"),
    Status.SUCCESS: StatusWord("done", "", "good"),
    Status.RETRIABLE_FAILURE: StatusWord("failed", "runs again", "warn"),
    Status.FATAL_FAILURE: StatusWord("dead", "", "bad"),
    Status.CANCELLED: StatusWord("cancelled", "", "off"),
}
GROUPS: Final = WORDS
"""The words that tasks are filtered by, and what each means."""
_BATCHES: Final = {
    b.BATCH_CREATED: StatusWord("waiting", "", "wait"),
    b.BATCH_IN_PROGRESS: StatusWord("running", "", "run"),
    b.BATCH_DONE: StatusWord("done", "", "good"),
    b.BATCH_DONE_WITH_FAILURES: StatusWord("done", "with failures", "bad"),
    b.BATCH_CANCELLED: StatusWord("cancelled", "", "off"),
    b.BATCH_DELETED: StatusWord("being deleted", "", "off"),
}
_ITEMS: Final = {
    b.ITEM_CREATED: StatusWord("waiting", "", "wait"),
    b.ITEM_IN_PROGRESS: StatusWord("running", "", "run"),
    b.ITEM_DONE: StatusWord("done", "", "good"),
    b.ITEM_FAILED: StatusWord("failed", "runs again", "warn"),
    b.ITEM_PERMANENTLY_FAILED: StatusWord("dead", "", "bad"),
    b.ITEM_CANCELLED: StatusWord("cancelled", "", "off"),
}


def task_word(status: int) -> StatusWord:
    """The word of a task's status."""
    try:
        return STATUSES[Status(status)]
    except ValueError:  # of a newer frontend
        return StatusWord(f"status {status}", "", "off")


def batch_word(status: int) -> StatusWord:
    """The word of a batch's status."""
    return _BATCHES.get(status, StatusWord("unknown", "", "off"))  # type: ignore[call-overload,no-any-return]


def item_word(status: int) -> StatusWord:
    """The word of the status of a batch's item."""
    return _ITEMS.get(status, StatusWord("unknown", "", "off"))  # type: ignore[call-overload,no-any-return]


def counted(counts: Mapping[str, int], word: str) -> int:
    """How many tasks a word means, of counts by the names of statuses."""
    return sum(counts.get(each.name, 0) for each in GROUPS[word])


def lambda_of(message: Any) -> str:
    """The field of a message whose name is a keyword."""
    name: str = getattr(message, "lambda")
    return name
