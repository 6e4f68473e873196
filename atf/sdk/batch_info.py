"""Tells where a batch and its items stand at one instant, as plain values made of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from atf.errors import InvalidArgument, TaskCancelled, TaskError, TaskFailed
from atf.rpc import batch_pb2 as b
from atf.task import US

from .batch import BatchStatus, ItemStatus
from .messages import value_of
from .payload import decode_result, decoded, short

_WINDOW_US: Final = 10 * US
"""Over which a rate is reckoned."""
_LEAST_US: Final = US // 2


@dataclass(frozen=True)
class BatchProgress:
    """A batch at one instant."""

    id: str
    lambda_name: str
    status: BatchStatus
    items: int
    """Stored so far; all, once it is sealed."""
    created: int
    """Items by status; they add up to `items`."""
    in_progress: int
    done: int
    failed: int
    """To run again."""
    permanently_failed: int
    cancelled: int
    sealed: bool
    """No more items are to come, unless it is extended."""
    prefix: int
    """Who resumes begins with the item of this number."""
    created_at: datetime | None
    ended_at: datetime | None
    """None: it has not ended."""
    round: int
    """1, and 1 more with each extension or retry after an end."""
    cancel_requested: bool
    error: str = ""
    """Why a callback of its newest end was not made; of a step of a chain that ended without items: why it could not be made."""
    rate: float = 0.0
    """Items a second that ended of late."""

    @property
    def finished(self) -> int:
        """Items that have ended."""
        return self.done + self.permanently_failed + self.cancelled

    @property
    def fraction(self) -> float:
        """Of the items that are there, how many have ended: 0 to 1."""
        return self.finished / self.items if self.items else float(self.ended)

    @property
    def ended(self) -> bool:
        """Whether every item has."""
        return self.ended_at is not None

    @property
    def seconds_to_go(self) -> float | None:
        """Until the items that are there have ended, at this rate; None: nobody knows."""
        if self.ended:
            return 0.0
        return (self.items - self.finished) / self.rate if self.rate else None

    @classmethod
    def from_proto(cls, batch: b.Batch, rate: float = 0.0) -> BatchProgress:
        return value_of(cls, batch, status=BatchStatus(batch.status), rate=rate)


@dataclass(frozen=True)
class ItemInfo:
    """An item of a batch at one instant."""

    number: int
    """From 0, as submitted."""
    work_item_id: str
    task_id: str
    status: ItemStatus
    result: Any
    """Of one that is done: what the handler returned, in the type of its annotation where the batch was made of the lambda itself. A
    `NotDecrypted`, not raised, where it is encrypted and can't be read here."""
    error: str
    """Of the last failure: type and message, then the traceback."""
    error_type: str
    """Of the last failure: the name of the exception's class; empty where none was raised."""
    error_message: str
    """Of the last failure: what the exception said, or what happened."""
    attempts: int
    chunk: str
    """In which it ran last; empty: it has not. Of a batch with workers the number of the one to which it was dealt, from the start."""
    peer: str
    """The executor that ran it last."""
    arguments: tuple[str, ...]
    """Only where asked for: their canonical texts, or the command line."""
    payload: Any
    """Only where asked for: the arguments by name."""
    finished_at: datetime | None

    @classmethod
    def from_proto(cls, item: b.Item, decode: Callable[[bytes, int], Any]) -> ItemInfo:
        done = item.status == b.ITEM_DONE
        return value_of(
            cls,
            item,
            status=ItemStatus(item.status),
            result=decoded(lambda: decode(item.result, item.result_encoding)) if done else None,
            arguments=tuple(item.arguments),
            payload=decoded(lambda: decode_result(item.task_id, item.payload, 0)) if item.payload else None,
        )


class Rate:
    """Reckons how fast items end, from where a batch stood before."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, int]] = []

    def of(self, batch: b.Batch) -> float:
        """Items a second: over the last seconds in which the batch was looked at, else since it was made."""
        now, ended = batch.now_us, batch.done + batch.permanently_failed + batch.cancelled
        self._seen = [each for each in self._seen if each[0] >= now - _WINDOW_US and each[1] <= ended]
        since, before = next((each for each in self._seen if each[0] <= now - _LEAST_US), (batch.created_at_us, 0))
        self._seen.append((now, ended))
        return (ended - before) * US / (now - since) if now > since else 0.0


def error_of(batch_id: str, item: b.Item) -> TaskError:
    """Why an item that has ended has no result."""
    which = f"item {item.number} of batch {batch_id}"
    if item.status == b.ITEM_CANCELLED:
        return TaskCancelled(f"{which} was cancelled")
    return TaskFailed.of(item.error or "failed", f"{which}: ")


def statuses_of(given: ItemStatus | str | Iterable[ItemStatus | str] | None) -> list[ItemStatus]:
    """Statuses by themselves or by their names.

    Raises:
        InvalidArgument: there is no such status.
    """
    if given is None:
        return []
    several = [given] if isinstance(given, str | ItemStatus) else list(given)
    return [each if isinstance(each, ItemStatus) else _status(each) for each in several]


def _status(name: str) -> ItemStatus:
    try:
        return ItemStatus[name.upper().replace("-", "_")]
    except (KeyError, AttributeError):
        names = ", ".join(each.name.lower() for each in ItemStatus)
        raise InvalidArgument(f"item status {short(name)}: use {names}") from None
