"""Cuts work over many items into calls of one partition each, bounded in items and bytes; concurrent callers share them.

One partition that is away holds up no other.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from atf.calls.coalescing import CallLimits, KeyedCoalescer
from atf.errors import AtfError, Unavailable
from atf.runtime import Runtime
from atf.task import MAX_BATCH, MAX_PAYLOAD_BYTES

T = TypeVar("T")
R = TypeVar("R")

CALL_BYTES: Final = MAX_PAYLOAD_BYTES + (128 << 10)
"""What the items of one call may come to: any one item, or so much that the server stands still for a few milliseconds only."""
LIMITS: Final = CallLimits(size=CALL_BYTES, late_s=0.2)
SHARED: Final = 32
"""Fewer items of a caller share a call with those of others; so many are worth one of their own, beside those that are under way."""


async def by_partition(
    items: Sequence[T],
    partition: Callable[[T], int],
    call: Callable[[int, list[T]], Awaitable[Sequence[R]]],
    size: Callable[[T], int] = lambda _: 0,
    *,
    most: int = MAX_BATCH,
    kind: Callable[[T], Hashable] = lambda _: None,
    failed: Callable[[AtfError], R] | None = None,
) -> list[R]:
    """Calls `call(partition, some items)` for all items, partitions side by side, one partition's calls in order.

    Partitions lie on different servers: those of one that is away must not take the others along. See `failed`.

    Args:
        items: the work.
        partition: an item's partition.
        call: answers with one value per item.
        size: an item's bytes, where they may be many.
        most: items of a call.
        kind: items of one call have this in common.
        failed: what to answer for the items of a partition that is away, if another one has answered.

    Returns:
        The answers in the order of `items`.

    Raises:
        What `call` raises: the first error, after every partition's call has ended; with `failed`, an Unavailable only where
        no partition has answered.
    """
    if len(items) == 1:  # of a lone caller: there is nothing to cut
        (only_item,) = items
        (answer,) = await call(partition(only_item), [only_item])
        return [answer]
    places: dict[int, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        places[partition(item)].append(place)
    answers: dict[int, R] = {}

    async def work(number: int, mine: list[int]) -> None:
        for batch in _split(mine, items, most, size, kind):
            answers.update(zip(batch, await call(number, [items[place] for place in batch]), strict=True))

    if len(places) == 1:
        (only,) = places.items()
        await work(*only)
    else:
        results = await asyncio.gather(*(work(*each) for each in places.items()), return_exceptions=True)
        errors = {number: each for number, each in zip(places, results, strict=True) if each is not None}
        for number, error in errors.items():
            if failed is None or not isinstance(error, Unavailable) or len(errors) == len(places):
                raise error
            for place in places[number]:
                answers.setdefault(place, failed(error))
    return [answers[place] for place in range(len(items))]


def _split(
    places: list[int], items: Sequence[T], most: int, size: Callable[[T], int], kind: Callable[[T], Hashable]
) -> list[list[int]]:
    batch: list[int] = []
    batches, weight, last = [batch], 0, kind(items[places[0]])
    for place in places:
        item = items[place]
        more, this = size(item), kind(item)
        if batch and (len(batch) == most or weight + more > CALL_BYTES or this != last):
            batch = []
            batches.append(batch)
            weight = 0
        batch.append(place)
        weight += more
        last = this
    return batches


class SharedCalls(Generic[T, R]):
    """Calls of one verb.

    Args:
        call: takes a partition and some items, answers with one value for each. What it raises goes to every caller of theirs.
        size: an item's bytes.
        kind: items of one call have this in common.
        runtime: spawns the calls.
        name: of their asyncio tasks.
        alone: whether nobody calls while another call is under way, so that there is nothing to share.
    """

    def __init__(
        self,
        call: Callable[[int, list[T]], Awaitable[Sequence[R]]],
        *,
        size: Callable[[T], int],
        kind: Callable[[T], Hashable] = lambda _: None,
        runtime: Runtime,
        name: str,
        alone: bool = False,
    ) -> None:
        self.size, self.kind = size, kind
        self._call = call
        self._least = 1 if alone else SHARED
        self._shared = KeyedCoalescer(self._call_of, size=size, limits=LIMITS, runtime=runtime, name=name)

    async def ask(self, partition: int, items: list[T]) -> Sequence[R]:
        """The answers to some items of a kind, in their order. What a caller asked that is cancelled before it is sent is not sent."""
        if len(items) >= self._least:
            return await self._call(partition, items)
        return await self._shared.of((partition, self.kind(items[0]))).ask(items)

    async def _call_of(self, key: tuple[int, Hashable], items: list[T], _until: float) -> Sequence[R]:
        return await self._call(key[0], items)
