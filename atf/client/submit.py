"""Sends the items of a batch: chunk after chunk, each a call of its own, in order.

A chunk is kept until the frontend has answered it, since a call that broke off is made again, whatever the caller's iterable is. So a
batch of any size takes the memory of two chunks: one is on its way while the next one is filled.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Sized
from itertools import islice
from typing import Any, Final, TypeAlias

from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import batch_pb2 as b
from atf.sdk.items import Elements
from atf.sdk.payload import short

from .batch_spec import MESSAGE_ITEMS

CHUNK_MESSAGES: Final = 16
"""Messages of one chunk at most. Between two chunks the frontend idles for a round trip, in a chunk it does not."""
CHUNK_BYTES: Final = 16 << 20
CHUNK_S: Final = 0.5
"""After which a chunk goes with what it has, so that the items of a slow iterable do not wait for one another."""
MESSAGE_BYTES: Final = 2 << 20
"""After which a message is full; a single item of 1 MiB more still travels in it, and gRPC carries 4 MiB."""

Chunk: TypeAlias = "list[b.ScheduleBatchRequest]"
"""A header, and messages of items."""


class Chunker:
    """Makes chunks of elements.

    Args:
        header: of the batch.
        elements: what the elements are.
        first: the number of the first item.
        batch_size: items of one message.
        monotonic: the clock.

    Attributes:
        lambda_name: of the items.
        taken: items so far, with those that were there before.
        begun: whether the batch is known to be there.
        closed: whether all of its items were there before, so that it takes no others.
        told: called whenever a chunk was stored.
    """

    begun = False
    closed = False
    told: Callable[[], None] | None = None

    def __init__(
        self, header: b.BatchHeader, elements: Elements, first: int, batch_size: int, monotonic: Callable[[], float]
    ) -> None:
        self.taken = first
        self.lambda_name = elements.name
        self._header = header
        self._elements = elements
        self._batch_size = batch_size
        self._monotonic = monotonic
        self._chunks = 0
        self._begin()

    def _begin(self) -> None:
        self._first = self.taken
        self._begun = self._monotonic()
        self._messages: list[b.ScheduleBatchRequest] = []
        self._bytes = 0
        self._room = 0

    def add(self, some: Iterable[Any]) -> Iterator[Chunk]:
        """Takes elements in; gives the chunks that they filled.

        Raises:
            InvalidArgument: an element does not fit; those before it are in.
        """
        for element in some:
            if (self._room <= 0 and self._full()) or (self._messages and self._late()):
                yield self.rest(last=False)
            if self._room <= 0:
                self._messages.append(b.ScheduleBatchRequest(items=b.BatchItems()))
                self._room, self._until = self._batch_size, self._bytes + MESSAGE_BYTES
            try:
                self._bytes += self._elements.add(self._messages[-1].items, element)
            except Exception as error:
                raise InvalidArgument(f"item {self.taken}, {self._elements.shown(element)}: {error}") from error
            self._room = self._room - 1 if self._bytes < self._until else 0
            self.taken += 1

    def _full(self) -> bool:
        return len(self._messages) >= CHUNK_MESSAGES or self._bytes >= CHUNK_BYTES

    def _late(self) -> bool:
        # An extension that is made again must be cut as before: the frontend knows its chunks by their numbers.
        return not self._header.extend and self._monotonic() - self._begun > CHUNK_S

    def waits(self) -> bool:
        """Whether something has been taken in that waits too long for a chunk to fill."""
        return bool(self._messages) and self._late()

    def stored(self) -> None:
        """A chunk was stored."""
        self.begun = True
        if self.told is not None:
            self.told()

    def rest(self, *, last: bool) -> Chunk:
        """What has been taken in and is in no chunk yet.

        Args:
            last: whether no more items are to come.
        """
        header = b.BatchHeader()
        header.CopyFrom(self._header)
        header.first = 0 if header.extend else self._first
        if header.extend:
            header.request_id = f"{header.request_id}-{self._chunks}"
        else:
            header.keep_open = header.keep_open or not last
        self._chunks += 1
        chunk = [b.ScheduleBatchRequest(header=header), *(each for each in self._messages if each.items.items)]
        self._begin()
        return chunk


def count_of(items: Iterable[Any], most: int) -> int:
    """How many elements there are; of an iterator `most` at most, and they are gone then."""
    return len(items) if isinstance(items, Sized) else sum(1 for _ in islice(items, most))


async def count_async(items: AsyncIterable[Any], most: int) -> int:
    """How many elements come asynchronously, `most` at most."""
    count = 0
    async for _ in items:
        count += 1
        if count >= most:
            break
    return count


def check_count(batch_id: str, made_of: int, given: int) -> None:
    """The call that is made again on a batch that is complete must be the same one.

    Raises:
        FailedPrecondition: it was made of other items.
    """
    if given != made_of:
        raise FailedPrecondition(
            f"batch {batch_id} was made of {made_of} items, and {'more' if given > made_of else f'only {given}'} were given: `extend` adds"
            " further ones, and another batch needs another id"
        )


def check_batch_size(given: object) -> int:
    """Items of a message.

    Raises:
        InvalidArgument: it is no number from 1 to 1000.
    """
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MESSAGE_ITEMS:
        raise InvalidArgument(f"batch_size {short(given)}: give a whole number from 1 to {MESSAGE_ITEMS}")
    return given
