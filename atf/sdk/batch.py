"""The words for where a batch and its items stand, the ids of the batches that its callbacks become, and the options that its items can't have."""

from __future__ import annotations

from hashlib import md5
from typing import Final

from atf.rpc import batch_pb2 as b
from atf.task import NamedNumber

_SEVERAL: Final = "items of a batch have none: write client.schedule_many([thumbnail.options({name}=…).prepare(each) for each in items])"
OF_SINGLE_TASKS: Final = {
    **{name: _SEVERAL.format(name=name) for name in ("delay", "at", "ordering_key", "unique")},
    "concurrency_key": "items of a batch have none: write .map(items, max_in_flight=…)",
    "key": "items of a batch have none: write .map(items, batch_id=…), with which the same call again goes on",
}
"""What to do in place of an option that items can't have."""


class BatchStatus(NamedNumber):
    """Where a batch stands."""

    CREATED = b.BATCH_CREATED
    """None of its items has been started."""
    IN_PROGRESS = b.BATCH_IN_PROGRESS
    """And while more items may come."""
    DONE = b.BATCH_DONE
    DONE_WITH_FAILURES = b.BATCH_DONE_WITH_FAILURES
    """Every item has ended, some failed for good."""
    CANCELLED = b.BATCH_CANCELLED
    """It was cancelled, and every item has ended."""
    DELETED = b.BATCH_DELETED
    """It is being deleted."""


class ItemStatus(NamedNumber):
    """Where an item stands; it follows from its task's own state."""

    CREATED = b.ITEM_CREATED
    IN_PROGRESS = b.ITEM_IN_PROGRESS
    DONE = b.ITEM_DONE
    FAILED = b.ITEM_FAILED
    """It runs again."""
    PERMANENTLY_FAILED = b.ITEM_PERMANENTLY_FAILED
    CANCELLED = b.ITEM_CANCELLED

    @property
    def finished(self) -> bool:
        """Whether the item has ended."""
        return self in {ItemStatus.DONE, ItemStatus.PERMANENTLY_FAILED, ItemStatus.CANCELLED}


def link_id(batch_id: str, place: int, round_: int) -> str:
    """The id of the batch that the callback at `place`, from 0, becomes when round `round_` of a batch has ended."""
    return md5(f"{batch_id}+{place}+{round_}".encode(), usedforsecurity=False).hexdigest()[:20]
