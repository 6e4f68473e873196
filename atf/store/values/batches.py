"""What the verbs about batches take and answer."""

from __future__ import annotations

import enum
from typing import NamedTuple

from .tasks import TaskRecord


class BatchAnswer(enum.IntEnum):
    """What became of a call about a batch."""

    NEW = 0  # it was made; of reserve_items: numbers were handed out
    SAME = 1  # it was there
    OTHER = 2  # there with another description; of reserve_items: the request asked for another number of items before
    MISSING = 3  # there is none
    CANCELLED = 4  # it takes no more items
    DELETED = 5  # a moment ago, or it is being deleted; its id is taken for ten minutes


class OpenedBatch(NamedTuple):
    """The answer to open_batch."""

    found: BatchAnswer
    total: int  # items that it is to have; -1: more may come
    prefix: int  # items with smaller numbers are stored
    first: int  # of an extension's items, which get their numbers by reserve_items
    single_partition: bool  # all its items lie in its own partition
    spec: bytes  # the description that it was made with


class BatchPlace(NamedTuple):
    """A batch in the order in which batches are listed."""

    created_at_us: int
    partition: int
    id: str


class ReservedNumbers(NamedTuple):
    """The answer to reserve_items."""

    found: BatchAnswer  # NEW, OTHER, MISSING, CANCELLED or DELETED
    first: int  # of the numbers


class ItemTerms(NamedTuple):
    """What the items of a batch have in common."""

    lambda_name: str
    priority: int
    max_attempts: int = 10
    max_losses: int = 3
    pause_us: int = 0  # between two items of one ordering key
    labels: str = ""  # see keys.labels
    trace: bytes = b""  # a serialized TaskSpec that is put behind an item's own when it is claimed: in which trace the batch was made


class NewItem(NamedTuple):
    """An item of a batch; everything in it has been checked."""

    number: int  # in its batch, below 100 million
    md5: str  # of what it does; see atf/sdk/work_items.py
    spec: bytes  # a serialized TaskSpec with every option filled in
    ordering_key: str = ""
    concurrency: str = ""  # see keys.concurrency
    affinity: str = ""  # its affinity key
    entries: str = ""  # of the opt-in index: see keys.entry, with a blank between two


class BatchRecord(NamedTuple):
    """A batch as it stands in the store. The counts are exact, and add up to `items`."""

    id: str
    lambda_name: str
    spec: bytes  # a serialized BatchSpec
    digest: bytes
    retention_us: int
    created_at_us: int
    ended_at_us: int  # 0: it has not
    round: int  # 1, and 1 more with each extension or retry after an end
    total: int  # items that it is to have; -1: more may come
    prefix: int  # items with smaller numbers are stored
    single_partition: bool  # all its items lie in its own partition
    cancel_requested: bool
    deleting: bool
    now_us: int  # the store's TIME of the answer
    items: int  # that are stored
    created: int
    in_progress: int
    done: int
    failed: int  # to run again
    permanently_failed: int
    cancelled: int
    begun: bool  # some item has been started; or the batch has ended
    error: str = ""  # why a callback of its newest end was not made, or the batch itself
    unmade: bool = False  # it is a link of a chain, and could not be made
    withheld: bool = (
        False  # payloads of its callbacks were left out, for somebody who may not read them; never so in the store
    )

    @property
    def ended(self) -> bool:
        """Whether every item has ended, and no more are to come."""
        return self.ended_at_us > 0 and self.items == self.done + self.permanently_failed + self.cancelled


class ItemRecord(NamedTuple):
    """An item of a batch."""

    number: int
    work_item_id: str
    task: TaskRecord


class ItemPage(NamedTuple):
    """A page of items."""

    items: list[ItemRecord]
    next: int | None  # the number from which the next page is asked for; None: that was all


class BatchCommandAnswer(enum.IntEnum):
    """What became of a command about a batch."""

    DONE = 0  # it is being done
    NOTHING = 1  # there is nothing to do
    MISSING = 2  # there is no such batch
    CANCELLED = 3  # it was cancelled, and can't be retried
    NOT_ENDED = 4  # so it can't be deleted
